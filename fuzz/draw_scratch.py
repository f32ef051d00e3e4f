"""Draws what programs of a chunk work in, and whether it comes out of the tail of a loan, beside the world itself.

A size class has 128 KiB at least, so the blobs of such a world are larger than those of others, and its card with them.
"""

from dataclasses import replace
from random import Random

from sim.world.geometry import Geometry
from strata.core.errors import Refusal
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

ROW_BYTES = (0, 130, 400, 513, 900)
BLOB_FACTOR = 7
"""Coprime to the grids, as the sizes are."""
SLAB_SHARE = 0.8
TRIES = 12


def with_scratch(geometry: Geometry, rng: Random) -> Geometry:
    """`geometry` with programs that need scratch; as it is where no try has a plan of the kind that it had."""
    before = geometry.plan()
    assert not isinstance(before, Refusal), before
    for _ in range(TRIES):
        drawn = _drawn(geometry, rng, has_slab=before.lendable is not None and rng.random() < SLAB_SHARE)
        plan = drawn.plan()
        if isinstance(plan, Refusal) or not plan.prompt.scratch:
            continue
        if (plan.lendable is None) == (before.lendable is None) and plan.num_missing_pairs:
            return drawn
    return geometry


def _drawn(geometry: Geometry, rng: Random, *, has_slab: bool) -> Geometry:
    blob_bytes = tuple(BLOB_FACTOR * size for size in geometry.blob_bytes)
    slots_bytes = sum(align_up(size, SLOT_ALIGNMENT_BYTES) for size in blob_bytes) * geometry.num_experts
    more_bytes = int(slots_bytes * rng.uniform(0.3, 0.9)) + rng.choice((0, 1 << 17, 1 << 19))
    return replace(
        geometry,
        blob_bytes=blob_bytes,
        arena_bytes=align_up(geometry.arena_bytes + more_bytes, geometry.segment_bytes),
        max_chunk_tokens=geometry.max_chunk_tokens or rng.choice((256, 512, None)),
        mixer_work_bytes=rng.choice(ROW_BYTES),
        moe_work_bytes=rng.choice(ROW_BYTES),
        ffn_work_bytes=rng.choice(ROW_BYTES) if 0 in blob_bytes else 0,
        has_slab=has_slab,
    )
