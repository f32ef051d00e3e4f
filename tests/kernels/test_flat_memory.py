"""The memory that tests programs fires on each thing that it is there to catch."""

import pytest

from strata.core.errors import DeviceError
from strata.core.extent import Extent
from tests.kernels.flat_memory import FlatMemory


def test_an_undeclared_write_is_caught_to_the_byte() -> None:
    memory = FlatMemory(arena_bytes=1024, pack_bytes=0)
    first, second = memory.carve(5), memory.carve(5)
    with pytest.raises(AssertionError, match="arena offset 5"), memory.launch([], [first]):
        memory.arena[:6] = 1
    with pytest.raises(AssertionError, match="arena offset 258"), memory.launch([second], [first]) as declared:
        declared.read(second)[2] = 7


def test_a_write_to_the_pack_is_caught() -> None:
    memory = FlatMemory(arena_bytes=0, pack_bytes=256)
    with pytest.raises(AssertionError, match="pack offset 3"), memory.launch([], []):
        memory.pack[3] = 1


def test_only_declared_extents_and_published_blobs_are_shown() -> None:
    memory = FlatMemory(arena_bytes=1024, pack_bytes=256)
    extent, other = memory.carve(8), memory.carve(8)
    with memory.launch([extent], []) as declared:
        assert declared.read(Extent(2, 3)).numel() == 3
        for refused in (
            lambda: declared.read(other),
            lambda: declared.read(Extent(4, 8)),
            lambda: declared.write(extent),
            lambda: declared.view(0x1000_0000, 8),
        ):
            with pytest.raises(DeviceError):
                refused()
    with pytest.raises(DeviceError):
        memory.read(extent)
