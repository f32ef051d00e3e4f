"""Names of split sets: `NAME-00002-of-00003.gguf`. Decides which files of a folder belong together and which one is
meant when a folder is given; opens nothing."""

import re
from dataclasses import dataclass
from pathlib import Path

from strata.core.errors import ModelError
from strata.model.file_identity import reason_of, shown
from strata.model.gguf.limits import MAX_SHARDS

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ShardName:
    """`number` counts from 1, as names do."""

    folder: Path
    stem: str
    number: int
    count: int

    def paths(self) -> list[Path]:
        """Of all shards of the set, in order."""
        return [self.folder / f"{self.stem}-{n:05d}-of-{self.count:05d}.gguf" for n in range(1, self.count + 1)]


def shard_name(path: Path) -> ShardName | None:
    """None for a file that is not named like a shard. Raises ModelError for a number outside the set."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count <= MAX_SHARDS:
        raise ModelError(
            f"{shown(path)}: the name says shard {number} of {count}; sets have shards 1 .. at most {MAX_SHARDS}"
        )
    return ShardName(path.parent, match["stem"], number, count)


def choose_in_folder(folder: Path) -> Path:
    """The only model of `folder`: a file, or any shard of the only set. Raises ModelError when there is none, or more
    than one to choose from."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".gguf")
    except OSError as error:
        raise ModelError(f"{shown(folder)}: cannot list the folder: {reason_of(error)}") from None
    if not files:
        raise ModelError(f"{shown(folder)}: the folder holds no .gguf file; name the one that does, or the file")
    models: dict[tuple[str, int], Path] = {}
    for path in files:
        name = shard_name(path)
        models.setdefault((name.stem, name.count) if name else (path.name, 0), path)
    if len(models) > 1:
        names = ", ".join(shown(path.name) for path in list(models.values())[:5])
        raise ModelError(f"{shown(folder)}: the folder holds {len(models)} models, name one file: {names}")
    return next(iter(models.values()))
