"""One digest and one pattern, whoever computes them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from sim import bytes as twin_bytes
from strata.trace.digest import mix_digests, pattern, positional_digest
from tests.device.bench import naive_digest

SEEDS = st.integers(0, 2**64 - 1)


@given(data=st.binary(max_size=70))
def test_the_digest_in_plain_python_is_what_its_definition_says(data: bytes) -> None:
    assert positional_digest(data) == naive_digest(data)
    assert positional_digest(memoryview(data)) == naive_digest(data)


@given(size=st.integers(0, 70), seed=SEEDS, offset=st.integers(0, 9))
def test_the_pattern_of_tensors_is_that_of_bytes(size: int, seed: int, offset: int) -> None:
    whole = torch.zeros(offset + size + 9, dtype=torch.uint8)
    twin_bytes.fill_pattern(whole[offset : offset + size], seed)
    assert whole.numpy().tobytes() == bytes(offset) + pattern(size, seed) + bytes(9)
    assert twin_bytes.positional_digest(whole) == positional_digest(whole.numpy().tobytes())


def test_a_pattern_longer_than_a_block_goes_on() -> None:
    size = 8 * (1 << 17) + 24
    found = torch.zeros(size, dtype=torch.uint8)
    twin_bytes.fill_pattern(found, 7)
    assert found.numpy().tobytes()[-32:] == pattern(size, 7)[-32:]


@given(digests=st.lists(SEEDS, min_size=2, max_size=4, unique=True))
def test_mixing_sees_the_order(digests: list[int]) -> None:
    assert mix_digests(digests) != mix_digests(digests[::-1])
