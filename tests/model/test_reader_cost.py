"""Opening a model imports nothing heavy and takes bounded memory, measured in processes of their own."""

import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.models import write_random_model
from tests.fixtures.raw_gguf import I32, STRING, U32, RawGguf, RawTensor, array_of, scalar, string

MIB = 1024 * 1024
LIMIT_BYTES = 50 * MIB

# Peak memory is read from VmHWM, and reset through clear_refs, since ru_maxrss starts at the parent's size.
CHILD = """
import json, sys
from strata.core.errors import ModelError
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from strata.model import pack_reader, quant_types

def memory(name):
    fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
    return int(fields[name].split()[0]) * 1024

before = memory("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
try:
    model = open_model(sys.argv[1])
    outcome = [len(model.tensors), len(model.metadata.get("tokenizer.ggml.tokens", ()))]
    if sys.argv[2:]:
        inventory_of(spec_of(model))
except ModelError as error:
    outcome = str(error)
heavy = {"torch", "numpy", "gguf", "jinja2", "tokenizers", "trio", "quart"} & set(sys.modules)
print(json.dumps([outcome, memory("VmHWM") - before, sorted(heavy)]))
"""


def opened_in_a_child(path: Path, *arguments: str) -> tuple[object, int]:
    """(tensors and tokens, or the refusal; peak bytes over the start)."""
    command = [sys.executable, "-c", CHILD, str(path), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    outcome, grown_bytes, heavy = json.loads(done.stdout)
    assert heavy == []
    return outcome, grown_bytes


def strings(count: int, element: bytes) -> bytes:
    """Type and value of an array of `count` equal strings."""
    return struct.pack("<IIQ", 9, STRING, count) + string(element) * count


def big_vocabulary(num_tokens: int, num_merges: int) -> RawGguf:
    return (
        RawGguf()
        .with_key("tokenizer.ggml.model", scalar(STRING, "gpt2"))
        .with_key("tokenizer.ggml.tokens", strings(num_tokens, "Ġtoken".encode()))
        .with_key("tokenizer.ggml.token_type", struct.pack("<IIQ", 9, I32, num_tokens) + b"\1\0\0\0" * num_tokens)
        .with_key("tokenizer.ggml.merges", strings(num_merges, "Ġto ken".encode()))
    )


@pytest.mark.slow
def test_a_small_model_is_opened_without_heavy_imports(tmp_path: Path) -> None:
    path = write_random_model(tmp_path / "m.gguf", arch="qwen3moe")
    outcome, grown_bytes = opened_in_a_child(path, "spec")
    assert outcome == [27, 320]
    assert grown_bytes < LIMIT_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(("num_tokens", "num_merges"), [(150_000, 150_000), (262_144, 515_000)])
def test_a_large_vocabulary_costs_little_more_than_its_bytes(num_tokens: int, num_merges: int, tmp_path: Path) -> None:
    path = big_vocabulary(num_tokens, num_merges).write(tmp_path / "m.gguf")
    outcome, grown_bytes = opened_in_a_child(path)
    assert outcome == [0, num_tokens]
    assert grown_bytes < 2 * path.stat().st_size + 4 * MIB < LIMIT_BYTES


def many_tensors() -> RawGguf:
    return RawGguf(
        tensors=tuple(RawTensor(f"a tensor with a long name {n:035}", (1,), offset=32 * n) for n in range(32_768))
    )


# The most that each limit of the reader allows, and one more; with a sparse file behind it, so that nothing is refused
# as too short. The second of each pair is what the reader says: "" for a file that it accepts.
EMPTY = RawGguf()
WORST = {
    "empty strings": (EMPTY.with_key("k", strings(2 * MIB, b"")), ""),
    "long strings": (EMPTY.with_key("k", strings(300, b"x" * 64_000)), ""),
    "wide text": (EMPTY.with_key("k", scalar(STRING, "x" * (2 * MIB - 200) + "\U0001f600")), ""),
    "many keys": (RawGguf(keys=(*EMPTY.keys, *((f"{n:0>250}", scalar(U32, n)) for n in range(4_095)))), ""),
    "many tensors": (many_tensors(), ""),
    "promised strings": (EMPTY.with_key("k", array_of(STRING, [], promised=2 * MIB + 1)), "the limit is 2,097,152"),
    "promised numbers": (EMPTY.with_key("k", array_of(I32, [], promised=2**28)), "beyond the limit of 20,971,520 B"),
    "promised text": (EMPTY.with_key("k", struct.pack("<IQ", STRING, 2**30)), "the limit here is"),
    "promised keys": (replace(EMPTY, num_keys=4_097), "key count 4,097 is over the limit of 4,096"),
    "promised tensors": (replace(EMPTY, num_tensors=32_769), "tensor count 32,769 is over the limit of 32,768"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WORST)
def test_the_worst_header_stays_under_the_limit(case: str, tmp_path: Path) -> None:
    raw, refusal = WORST[case]
    path = raw.write(tmp_path / "m.gguf")
    with path.open("r+b") as file:
        file.truncate(2**40)
    outcome, grown_bytes = opened_in_a_child(path)
    if refusal:
        assert refusal in str(outcome)
    else:
        assert outcome == [len(raw.tensors), 0]
    assert grown_bytes < LIMIT_BYTES
