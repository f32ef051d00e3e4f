"""Broken and hostile files: each is refused by name, before anything of the promised size is allocated."""

import os
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.model.gguf.model_file import open_model
from strata.model.quant_types import supported_names
from tests.fixtures.raw_gguf import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    U8,
    U16,
    U32,
    U64,
    RawGguf,
    RawTensor,
    array_of,
    scalar,
)

GIB = 1024**3
PLAIN = RawGguf()
TENSOR = RawTensor("t", (4,), data=struct.pack("<4f", 1, 2, 3, 4))
WORDS: list[object] = ["a", "b", "c"]
TOKENIZER = (
    RawGguf()
    .with_key("tokenizer.ggml.model", scalar(STRING, "gpt2"))
    .with_key("tokenizer.ggml.tokens", array_of(STRING, WORDS))
)


def refusal(path: Path) -> str:
    """The one reason that `path` is refused for; it must name the file and fit one line."""
    reason = refusal_of_any(path)
    assert path.name in reason
    return reason


def refusal_of_any(path: Path) -> str:
    """The same for a path whose name no line could show."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            open_model(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (reason,) = caught.value.reasons
    assert reason.isprintable() and len(reason) < 700
    assert peak_bytes < 8 * 1024 * 1024
    return reason


HOSTILE: dict[str, tuple[bytes | RawGguf, str]] = {
    "empty file": (b"", "not a GGUF file: it has 0 B"),
    "three bytes": (b"GGU", "not a GGUF file: it has 3 B"),
    "other magic": (replace(PLAIN, magic=b"GGML"), "not a GGUF file"),
    "reversed magic": (replace(PLAIN, magic=b"FUGG"), "big-endian"),
    "big-endian version": (replace(PLAIN, version=3 << 24), "big-endian GGUF file (version 3)"),
    "version 1": (replace(PLAIN, version=1), "version 1"),
    "version 4": (replace(PLAIN, version=4), "version 4"),
    "key count promised": (replace(PLAIN, num_keys=2**60), "key count"),
    "key count small lie": (replace(PLAIN, num_keys=4_000), "key count 4,000"),
    "tensor count promised": (replace(PLAIN, num_tensors=2**63), "tensor count"),
    "tensor count small lie": (replace(PLAIN, num_tensors=30_000), "tensor count 30,000"),
    "one tensor too many": (replace(PLAIN, num_tensors=1), "tensor 0"),
    "one key too many": (replace(PLAIN, num_keys=2), "key 1"),
    "empty key": (PLAIN.with_key("", scalar(U32, 1)), "key 1 has an empty name"),
    "key twice": (PLAIN.with_key("general.architecture", scalar(STRING, "x")), "occurs twice"),
    "key not UTF-8": (PLAIN.with_key(b"\xff\xfe", scalar(U32, 1)), "not UTF-8"),
    "key too long": (PLAIN.with_key("k" * 65_536, scalar(U32, 1)), "65,536 B"),
    "1 GiB string": (PLAIN.with_key("k", struct.pack("<IQ", STRING, GIB)), "'k' has length 1,073,741,824 B"),
    "2^64 string": (PLAIN.with_key("k", struct.pack("<IQ", STRING, 2**64 - 1)), "'k'"),
    "string not UTF-8": (PLAIN.with_key("k", scalar(STRING, b"\xc3")), "key 'k' is not UTF-8"),
    "2^30 numbers": (PLAIN.with_key("k", array_of(F32, [], promised=2**30)), "'k' needs 4,294,967,296 B"),
    "2^62 numbers": (PLAIN.with_key("k", array_of(U64, [], promised=2**62)), "'k' needs"),
    "2^30 strings": (PLAIN.with_key("k", array_of(STRING, [], promised=2**30)), "1,073,741,824 strings"),
    "2^20 strings": (PLAIN.with_key("k", array_of(STRING, [], promised=2**20)), "promises 1,048,576 strings"),
    "huge element": (
        PLAIN.with_key("k", array_of(STRING, ["a"], promised=2) + struct.pack("<Q", GIB)),
        "element 1 has 1,073,741,824 B",
    ),
    "nested array": (PLAIN.with_key("k", struct.pack("<IIQ", ARRAY, ARRAY, 1)), "array of arrays"),
    "unknown value type": (PLAIN.with_key("k", struct.pack("<II", 13, 0)), "unknown value type 13"),
    "unknown element type": (PLAIN.with_key("k", struct.pack("<IIQ", ARRAY, 99, 1)), "unknown value type 99"),
    "bool 2": (PLAIN.with_key("k", scalar(BOOL, 2)), "bool of value 2"),
    "bool 2 in array": (PLAIN.with_key("k", array_of(BOOL, [0, 1, 2])), "bools other than 0 and 1"),
    "array element not UTF-8": (PLAIN.with_key("k", array_of(STRING, ["a", b"\xff"])), "element 1 is not UTF-8"),
    "element ends inside a character": (
        # The length word of the second one, 128, starts with a byte that would continue the first one's character.
        PLAIN.with_key("k", array_of(STRING, [b"\xc3", b"x" * 128])),
        "element 0 is not UTF-8",
    ),
    "alignment 0": (PLAIN.with_key("general.alignment", scalar(U32, 0)), "general.alignment"),
    "alignment 3": (PLAIN.with_key("general.alignment", scalar(U32, 3)), "not a power of two"),
    "alignment 2^31": (PLAIN.with_key("general.alignment", scalar(U32, 2**31)), "not a power of two"),
    "alignment u64": (PLAIN.with_key("general.alignment", scalar(U64, 32)), "u64, not u32"),
    "alignment text": (PLAIN.with_key("general.alignment", scalar(STRING, "32")), "string, not u32"),
    "no architecture": (replace(PLAIN, keys=()), "'general.architecture' is missing"),
    "architecture a number": (replace(PLAIN, keys=(("general.architecture", scalar(U32, 1)),)), "u32, not a string"),
    "tensor without name": (replace(PLAIN, tensors=(replace(TENSOR, name=""),)), "tensor 0 has an empty name"),
    "tensor name of 64": (replace(PLAIN, tensors=(replace(TENSOR, name="n" * 64),)), "limit here is 63 B"),
    "tensor name not UTF-8": (replace(PLAIN, tensors=(replace(TENSOR, name=b"\xff"),)), "not UTF-8"),
    "no dimensions": (replace(PLAIN, tensors=(replace(TENSOR, shape=()),)), "'t' has 0 dimensions"),
    "five dimensions": (replace(PLAIN, tensors=(replace(TENSOR, shape=(1,) * 5),)), "'t' has 5 dimensions"),
    "dimension 0": (replace(PLAIN, tensors=(replace(TENSOR, shape=(4, 0)),)), "'t' has shape (4, 0)"),
    "overflowing shape": (replace(PLAIN, tensors=(replace(TENSOR, shape=(2**63, 2**63)),)), "'t' of shape"),
    "shape that wraps to 0": (replace(PLAIN, tensors=(replace(TENSOR, shape=(2**32, 2**32)),)), "'t' of shape"),
    "half a block": (replace(PLAIN, tensors=(replace(TENSOR, shape=(48,), type_id=2),)), "Q4_0 needs multiples of 32"),
    "unknown type": (
        replace(PLAIN, tensors=(replace(TENSOR, type_id=777),)),
        f"777; supported are {supported_names()}",
    ),
    "removed type": (replace(PLAIN, tensors=(replace(TENSOR, type_id=4),)), "unknown type number 4"),
    "offset not aligned": (replace(PLAIN, tensors=(replace(TENSOR, offset=8),)), "not a multiple of"),
    "offset beyond the end": (
        replace(PLAIN, tensors=(replace(TENSOR, offset=2**40, data=b""),)),
        "is truncated: tensor 't'",
    ),
    "tensor twice": (replace(PLAIN, tensors=(TENSOR, replace(TENSOR, offset=32))), "'t' occurs twice"),
    "tensors overlap": (
        replace(PLAIN, tensors=(replace(TENSOR, shape=(16,), data=bytes(64)), replace(TENSOR, name="u", offset=32))),
        "'u' at offset",
    ),
    "last byte missing": (replace(PLAIN, tensors=(TENSOR,)).encoded()[:-1], "is truncated: tensor 't'"),
    "two files joined": (
        replace(PLAIN, tensors=(replace(TENSOR, shape=(8,), data=bytes(32)),), tail=PLAIN.encoded()),
        "concatenation",
    ),
    "joined with padding": (replace(PLAIN, tensors=(TENSOR,), tail=bytes(16) + PLAIN.encoded()), "concatenation"),
    "scores as u8": (
        TOKENIZER.with_key("tokenizer.ggml.scores", array_of(U8, [1, 2, 3])),
        "array of u8, not an array of floats",
    ),
    "scores too short": (TOKENIZER.with_key("tokenizer.ggml.scores", array_of(F32, [1.0])), "has 1 elements"),
    "types too long": (TOKENIZER.with_key("tokenizer.ggml.token_type", array_of(I32, [1] * 4)), "has 4 elements"),
    "type out of range": (TOKENIZER.with_key("tokenizer.ggml.token_type", array_of(I32, [1, 7, 1])), "outside 0 .. 6"),
    "types as text": (TOKENIZER.with_key("tokenizer.ggml.token_type", array_of(STRING, WORDS)), "array of string"),
    "merges as numbers": (TOKENIZER.with_key("tokenizer.ggml.merges", array_of(U16, [1])), "not an array of strings"),
    "eos outside": (
        TOKENIZER.with_key("tokenizer.ggml.eos_token_id", scalar(U32, 3)),
        "= 3 is outside the vocabulary of 3",
    ),
    "eos a float": (TOKENIZER.with_key("tokenizer.ggml.eos_token_id", scalar(F32, 1.0)), "f32, not an integer"),
    "model a number": (RawGguf().with_key("tokenizer.ggml.model", scalar(U32, 1)), "'tokenizer.ggml.model'"),
    "tokens missing": (
        RawGguf().with_key("tokenizer.ggml.model", scalar(STRING, "gpt2")),
        "'tokenizer.ggml.tokens' is missing",
    ),
    "tokens empty": (
        RawGguf()
        .with_key("tokenizer.ggml.model", scalar(STRING, "gpt2"))
        .with_key("tokenizer.ggml.tokens", array_of(STRING, [])),
        "is empty",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_broken_file_is_refused_by_name(case: str, tmp_path: Path) -> None:
    content, expected = HOSTILE[case]
    path = tmp_path / "model.gguf"
    path.write_bytes(content if isinstance(content, bytes) else content.encoded())
    assert expected in refusal(path)


@pytest.mark.parametrize("alignment", [1, 32, 64, 4096])
@pytest.mark.parametrize("num_blanks", range(0, 33, 4))
def test_the_first_tensor_is_found_whatever_the_padding(alignment: int, num_blanks: int, tmp_path: Path) -> None:
    raw = replace(PLAIN.with_key("general.alignment", scalar(U32, alignment)), tensors=(TENSOR,), alignment=alignment)
    raw = raw.with_key("pad", scalar(STRING, " " * num_blanks))
    content = raw.encoded()
    info = open_model(raw.write(tmp_path / "model.gguf")).tensors["t"]
    assert content[info.offset_bytes : info.offset_bytes + info.size_bytes] == TENSOR.data
    assert info.offset_bytes == len(raw.header()) + -len(raw.header()) % alignment


def test_a_header_that_ends_on_the_alignment_gets_no_padding(tmp_path: Path) -> None:
    lengths = range(32)
    raws = [replace(PLAIN, tensors=(TENSOR,)).with_key("pad", scalar(STRING, " " * length)) for length in lengths]
    (exact,) = [raw for raw in raws if len(raw.header()) % 32 == 0]
    assert open_model(exact.write(tmp_path / "model.gguf")).tensors["t"].offset_bytes == len(exact.header())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing.gguf", "No such file"),
        ("folder", "no .gguf file"),
        ("pipe", "regular file"),
        ("loop", "symbolic links"),
    ],
)
def test_what_is_no_model_file_is_refused_in_one_line(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert text in refusal(tmp_path / name)


def test_an_unreadable_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = PLAIN.write(tmp_path / "model.gguf")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert "Permission denied" in refusal(path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\0b", "null"),
        ("x" * 300, "File name too long"),
        ("x/" * 2_500, "File name too long"),
        ("\ud800", "surrogates not allowed"),
        ("two\nlines", "No such file"),
        ("\x1b[2J", "No such file"),
        ("file.gguf/x", "Not a directory"),
    ],
)
def test_a_path_that_cannot_be_one_is_refused_in_one_short_line(name: str, reason: str, tmp_path: Path) -> None:
    PLAIN.write(tmp_path / "file.gguf")
    assert reason in refusal_of_any(tmp_path / name)


@given(st.text(min_size=1, max_size=300))
def test_any_text_is_a_path_or_a_refusal_in_one_line(name: str) -> None:
    refusal_of_any(Path("/nowhere", name.lstrip("/.")))


@pytest.mark.parametrize("name", ["two\nlines.gguf", "\x1b[2J.gguf", "\udcff.gguf", "a-00001-of-00002\n.gguf"])
def test_a_broken_file_of_an_unprintable_name_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    broken = replace(PLAIN, keys=PLAIN.keys[1:]).write(tmp_path / name)
    assert "general.architecture" in refusal_of_any(broken)
    (tmp_path / f"second {name}").touch()
    assert "holds 2 models" in refusal_of_any(tmp_path)


def test_a_missing_shard_that_cannot_be_looked_up_is_a_refusal(tmp_path: Path) -> None:
    PLAIN.with_key("split.count", scalar(U16, 2)).write(tmp_path / "m-00001-of-00002.gguf")
    (tmp_path / "m-00002-of-00002.gguf").symlink_to(tmp_path / ("x" * 300))
    assert "File name too long" in refusal_of_any(tmp_path / "m-00001-of-00002.gguf")


def test_control_characters_of_a_file_do_not_reach_the_message(tmp_path: Path) -> None:
    path = replace(PLAIN, tensors=(replace(TENSOR, name="\x1b[2J\n", shape=(0,)),)).write(tmp_path / "model.gguf")
    assert "\\x1b[2J\\n" in refusal(path)
