"""How often each expert was read, kept from one server of a model to the next: the file of `--warm-start`.

    {"format": "strata expert usage", "heat": [[7, 0, ...], [], ...], "model": {"digest": "...", ...}, "version": 1}

`heat` has a row a layer and in it a number an expert, as `strata.core.memory.residency` defines it; a row of a dense
layer is empty. Addresses, slots and sizes are not in it: the same file serves any card, and a finer or coarser form of
the same model. Which model it is of is decided by what decides which experts are read: the routers. Text, tokens and
names of requests are not in it.
"""

import json
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from strata.core.errors import ConfigError
from strata.core.units import MIB
from strata.model.file_identity import open_model_file
from strata.model.program_reads import layer_tensor
from strata.model.spec import ModelSpec, TensorInfo
from strata.output_file import replace_file

FORMAT, VERSION = "strata expert usage", 1
MAX_FILE_BYTES = 64 * MIB
MAX_HEAT = 1 << 31
SAMPLE_BYTES = 4096
"""Of each router, from its start."""


def model_digest(spec: ModelSpec) -> str:
    """SHA-256 of shapes and first bytes of all routers. Raises ModelError for a file that cannot be read."""
    digest = sha256()
    for layer, blob in enumerate(spec.blobs):
        if blob is not None:
            info = spec.tensor(layer_tensor(layer, "ffn_gate_inp.weight"))
            digest.update(f"{info.name} {info.type_id} {info.shape}\n".encode())
            digest.update(_first_bytes(info))
    return digest.hexdigest()


def _first_bytes(info: TensorInfo) -> bytes:
    descriptor, _ = open_model_file(info.path)
    try:
        return os.pread(descriptor, min(SAMPLE_BYTES, info.size_bytes), info.offset_bytes)
    finally:
        os.close(descriptor)


def save_usage(path: Path, spec: ModelSpec, heat: Sequence[int]) -> None:
    """`heat`: flat [layers, experts]. Raises OSError, and then leaves what was there."""
    model = {"architecture": spec.architecture, "digest": model_digest(spec), "name": spec.name}
    rows = [
        list(heat[layer * spec.num_experts : (layer + 1) * spec.num_experts]) if blob else []
        for layer, blob in enumerate(spec.blobs)
    ]
    document = {"format": FORMAT, "heat": rows, "model": model, "version": VERSION}
    replace_file(path, json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n")


def load_usage(path: Path, spec: ModelSpec) -> tuple[int, ...]:
    """Heat of each blob, flat [layers, experts]; () where there is no such file yet. Raises ConfigError for a file that
    is none of this model's."""
    try:
        if path.is_fifo():
            raise _refused(path, "is a pipe, which would be waited for")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(path, f"cannot be read: {reason}") from error
    if len(data) > MAX_FILE_BYTES:
        raise _refused(path, f"has more than {MAX_FILE_BYTES:,} B")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(path, "is damaged, or no file of expert usage: it is not JSON") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _refused(path, "is no file of expert usage")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise _refused(path, f"has version={json.dumps(version)[:40]}, this program reads version={VERSION}")
    model = document.get("model")
    if not isinstance(model, dict) or model.get("digest") != model_digest(spec):
        raise _refused(path, "is of another model: its routers are not this one's")
    return tuple(_flat(path, document.get("heat"), spec))


def _flat(path: Path, rows: Any, spec: ModelSpec) -> Iterator[int]:
    if not isinstance(rows, list) or len(rows) != len(spec.blobs):
        raise _refused(path, f"is damaged: it has no row for each of {len(spec.blobs)} layers")
    for layer, (row, blob) in enumerate(zip(rows, spec.blobs, strict=True)):
        num_experts = spec.num_experts if blob else 0
        if not isinstance(row, list) or len(row) != num_experts:
            raise _refused(path, f"is damaged: layer {layer} has no numbers for {num_experts} experts")
        if not all(type(heat) is int and 0 <= heat < MAX_HEAT for heat in row):
            raise _refused(path, f"is damaged: layer {layer} has what is no whole number from 0 to {MAX_HEAT - 1:,}")
        yield from row or (0,) * spec.num_experts


def _refused(path: Path, why: str) -> ConfigError:
    return ConfigError(f"warm-start refused: {path} {why}; delete it, or give --warm-start another file")
