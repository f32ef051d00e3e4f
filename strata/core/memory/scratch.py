"""Where programs of a prompt chunk work beside its buffers: scratch in size classes, one buffer a class.

    slab off    | scratch: 256 KiB | 4 MiB |                a region of the arena, held for the largest chunk there is
    slab on     ... ring | 256 KiB | 4 MiB | rest of tail |     lent bytes behind the carve's end (`lending.md` 3.3)

A class is a power of two, so programs whose needs are alike share a buffer: one runs at a time. Buffers are cut anew
for each layout, at its own tail, so no address outlives the loan that it lies in (`lending.md` 5, invariants 35 to 37).
"""

from collections.abc import Mapping

from strata.core.commands import Access
from strata.core.inventory import ModelInventory
from strata.core.memory.bump import Bump, Gauge
from strata.core.units import KIB
from strata.core.workspace import price_workspaces

MIN_CLASS_BYTES = 128 * KIB
SCRATCH, SLAB_OWNER = "scratch", "prompt"


def class_bytes(size_bytes: int) -> int:
    """The smallest class that has room for `size_bytes`, which are more than 0."""
    assert size_bytes > 0, size_bytes
    return max(MIN_CLASS_BYTES, 1 << (size_bytes - 1).bit_length())


def carve_scratch(bump: Bump, inventory: ModelInventory, *, chunk_tokens: int, owner: str) -> Mapping[str, Access]:
    """Program -> its buffer, of those that need one in chunks of `chunk_tokens`; smallest class first."""
    needed = {
        program: class_bytes(size_bytes)
        for work in inventory.prompt_work
        if (size_bytes := price_workspaces((work.areas,), max_rows=chunk_tokens))
        for program in work.programs
    }
    buffers = {size_bytes: Access(bump.take(size_bytes), owner) for size_bytes in sorted(set(needed.values()))}
    return {program: buffers[size_bytes] for program, size_bytes in needed.items()}


def price_scratch(inventory: ModelInventory, *, chunk_tokens: int) -> int:
    """Bytes that `carve_scratch` takes."""
    bump = Gauge()
    carve_scratch(bump, inventory, chunk_tokens=chunk_tokens, owner=SCRATCH)
    return bump.offset_bytes
