"""What a replay's kernel finds and leaves is what the definition in plain Python says, segments apart or not."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.triton.launch_fingerprint import fingerprint
from strata.trace.digest import mix_digests, pattern, positional_digest
from tests.kernels_triton.builders import DEVICE

SEGMENT, STRIDE, NUM_SEGMENTS = 700, 1024, 12
SPANS = st.tuples(st.integers(0, 3000), st.integers(0, 5400))


def words(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=DEVICE)


def spread(data: bytes) -> torch.Tensor:
    parts = (data[at : at + SEGMENT].ljust(STRIDE, b"\xee") for at in range(0, len(data), SEGMENT))
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8).to(DEVICE)


def together(arena: torch.Tensor) -> bytes:
    return bytes(arena.view(NUM_SEGMENTS, STRIDE)[:, :SEGMENT].flatten().tolist())


@settings(max_examples=12, deadline=None)
@given(st.lists(SPANS, max_size=3), st.lists(SPANS, max_size=2))
def test_marks_and_patterns_are_those_of_the_definition(reads, writes):
    data = bytearray(pattern(SEGMENT * NUM_SEGMENTS, 7))
    arena, lane = spread(bytes(data)), words(1, 3, 55, 0, 0)
    row = words(len(reads), len(writes), *(number for span in (*reads, *writes) for number in span))
    fingerprint(row, lane, arena_address=arena.data_ptr(), segment_bytes=SEGMENT, stride_bytes=STRIDE)
    mark = mix_digests([positional_digest(bytes(data[at : at + size])) for at, size in reads])
    assert lane.view(torch.uint64).tolist() == [2, 3, 55, mark, 0]
    for index, (at, size) in enumerate(writes):
        data[at : at + size] = pattern(size, mix_digests((mark, index)))
    assert together(arena) == bytes(data)
    assert (arena.view(NUM_SEGMENTS, STRIDE)[:, SEGMENT:] == 0xEE).all()


def test_a_lane_without_room_counts_and_keeps_nothing():
    arena, lane = spread(bytes(SEGMENT)), words(1, 1, 5, 77)
    fingerprint(words(0, 0), lane, arena_address=arena.data_ptr(), segment_bytes=SEGMENT, stride_bytes=STRIDE)
    assert lane.tolist() == [2, 1, 5, 77]
