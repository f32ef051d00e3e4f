"""What `inspect` says of a hybrid model: its recurrent layers, and tensors under the names of what they do."""

from pathlib import Path

from strata.commands.inspect import inspect_lines
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.fixtures.models import write_random_model


def lines_of(path: Path) -> list[str]:
    file = open_model(path)
    return inspect_lines(file, spec_of(file))


def test_a_hybrid_tells_its_recurrent_layers_and_their_state(tmp_path: Path) -> None:
    lines = lines_of(write_random_model(tmp_path / "m.gguf", arch="qwen35moe", layers=4))
    state_bytes = 2 * 4 * (4 * 16 * 16 + 3 * 128)
    assert (
        f"recurrent     2 of the layers, heads 4/2 of 16; state of a conversation {state_bytes / 1024:.1f} KiB" in lines
    )
    groups = [line.split("  ")[0] for line in lines[lines.index("") + 1 :]]
    assert {"recurrent", "shared expert", "router", "attention", "experts", "norms"} <= set(groups)
    assert "other" not in groups


def test_nothing_is_said_of_recurrence_where_all_layers_attend(tmp_path: Path) -> None:
    for family in ("mixtral", "glm4moe"):
        lines = lines_of(write_random_model(tmp_path / "m.gguf", arch=family))
        assert not any(line.startswith("recurrent") for line in lines)
        assert not any(line.startswith("other") for line in lines)
