"""The digest is the documented sum, word by word, and notices what a lost or swapped copy would do."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.reference import digest as module
from kernels.reference.digest import K1, K2, digest
from kernels.reference.mix import mix64, mix64_scalar
from sim.bytes import positional_digest

MASK = (1 << 64) - 1


def naive(data: bytes) -> int:
    """The head of digest.py, in Python integers."""
    total = len(data)
    for index in range(0, len(data), 8):
        word = int.from_bytes(data[index : index + 8].ljust(8, b"\0"), "little")
        word = (word ^ (index // 8 + 1) * K1 & MASK) * K2 & MASK
        total += word ^ word >> 32
    return total & MASK


def tensor_of(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


@given(st.binary(max_size=200), st.integers(0, 7))
def test_digest_is_the_documented_sum_at_any_offset(data: bytes, offset: int) -> None:
    ours = digest(tensor_of(b"x" * offset + data)[offset:])
    assert ours == naive(data)
    assert ours == positional_digest(tensor_of(data)), "the twin has another digest"


def test_digest_does_not_depend_on_how_much_is_summed_at_once() -> None:
    data = torch.arange(8 * module._WORDS_AT_ONCE + 8 * 100 + 3, dtype=torch.int64).to(torch.uint8)
    assert digest(data) == naive(bytes(data.numpy()))


@given(st.binary(min_size=16, max_size=120), st.data())
def test_digest_changes_with_any_changed_bit_and_any_swapped_words(data: bytes, draw: st.DataObject) -> None:
    bit = draw.draw(st.integers(0, 8 * len(data) - 1))
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    assert digest(tensor_of(bytes(flipped))) != digest(tensor_of(data))
    first, second = data[:8], data[8:16]
    if first != second:
        assert digest(tensor_of(second + first + data[16:])) != digest(tensor_of(data))


def test_zero_bytes_have_different_digests_by_size() -> None:
    sizes = range(0, 200, 8)
    assert len({digest(torch.zeros(size, dtype=torch.uint8)) for size in sizes}) == len(sizes)


@given(st.integers(0, MASK))
def test_mixing_a_tensor_and_a_number_agree(word: int) -> None:
    signed = word - (1 << 64) if word >> 63 else word
    assert int(mix64(torch.tensor([signed]))[0]) & MASK == mix64_scalar(word)
