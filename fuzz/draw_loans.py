"""Draws which loans a world may take, and the drafter and heads that they need, beside the world itself.

Sizes are coprime to every grid, and segments so small that several move and the last one cuts a part.
"""

from dataclasses import replace
from random import Random

from sim.world.geometry import Geometry
from sim.world.loans import GROWS, MOVES, ROOM_CLOSES, ROOM_OPENS, SHRINKS, comes, goes
from sim.world.sites import INTO_HEAD, OF_SWAP, SITES
from strata.core.errors import Refusal
from strata.core.memory.planner import Plan
from strata.core.memory.policy import NEVER
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

THRESHOLDS = (2, 17, 18, 100, 255, 256, 257, 300, 301, 520)
"""Around the numbers of fresh tokens that are drawn."""
SEGMENT_BYTES = (1024, 1280, 2048, 3072, 4096)
BLOB_BYTES = (1027, 3001, 4099, 5119, 8209)
HEAD_BYTES = (0, 0, 1025, 3073, 6007)
ROOM_SHARE, ELASTIC_SHARE = 0.7, 0.6
RARE_SITES = (GROWS, GROWS, goes("head"))
"""Of a release, which only some requests have: drawn more often."""
TRIES = 8
LONG_CHUNK_TOKENS, LONG_CHUNK_BYTES = 1024, 1024 * 120
"""A chunk that streams, and about what its buffers take."""


def with_loans(geometry: Geometry, rng: Random) -> Geometry:
    """`geometry` with a drafter and loans, on a card that has as much memory more as they need; `geometry` where no
    try has a plan that reads something over the link."""
    for number in range(TRIES):
        lending = _drawn(geometry, rng)
        if number:  # all blobs fitted the first time, so some of them get no slot
            most = max(6, geometry.inventory().num_pairs * rng.choice((3, 5, 8)) // 10)
            lending = replace(lending, num_cache_slots=most)
        plan = lending.plan()
        if not isinstance(plan, Refusal) and plan.num_missing_pairs:
            return _apart(lending, plan)
    return geometry


def with_room(geometry: Geometry, rng: Random, *, is_apart: bool, is_large: bool = False) -> Geometry:
    """`geometry` with a room that is taken for any prompt, and few slots, so that much goes through the ring; reads
    borrow slots, or, where that has a plan, have an arena of their own. A large room holds dozens of ring entries.
    `geometry` where no try has a plan."""
    for _ in range(TRIES):
        drawn = _drawn(geometry, rng, is_room_alone=True, is_large=is_large)
        num_slots = rng.choice((4, 6, 8))
        lending = replace(drawn, room_min_tokens=0, num_cache_slots=num_slots, chunk_tokens=LONG_CHUNK_TOKENS)
        if is_apart:
            arena_bytes = align_up(lending.arena_bytes + LONG_CHUNK_BYTES, lending.segment_bytes)
            lending = replace(lending, min_cache_slots=num_slots, arena_bytes=arena_bytes)
        plan = lending.plan()
        if not isinstance(plan, Refusal) and plan.num_missing_pairs:
            return lending
    return geometry


def with_all_parts(geometry: Geometry, rng: Random) -> Geometry:
    """`geometry` with an elastic loan of block and both heads, which nearly every prompt takes; `geometry` where no try
    has a plan."""
    for _ in range(TRIES):
        drawn, segment_bytes = _drawn(geometry, rng), rng.choice(SEGMENT_BYTES)
        head_bytes, draft_head_bytes = (rng.choice(HEAD_BYTES[2:]) for _ in range(2))
        lending = replace(
            drawn,
            arena_bytes=align_up(drawn.arena_bytes + head_bytes + draft_head_bytes, segment_bytes),
            segment_bytes=segment_bytes,
            num_cache_slots=max(6, geometry.inventory().num_pairs // 2),
            head_bytes=head_bytes,
            draft_head_bytes=draft_head_bytes,
            is_elastic=True,
            lends_block=True,
            lends_head=True,
            repeat_min_tokens=rng.choice((2, 17, 100)),
        )
        plan = lending.plan()
        if not isinstance(plan, Refusal) and plan.num_missing_pairs:
            return lending
    return geometry


def _apart(lending: Geometry, plan: Plan) -> Geometry:
    """Half of the worlds that have a room and no elastic loan read in an arena of their own, if there is a plan for it:
    slots of the room go home before a read ends only where nothing else has to."""
    if lending.room_min_tokens < 0 or lending.is_elastic or lending.drafter_experts % 2 == 0:
        return lending
    num_slots = max(2, len(plan.slots) // 2)
    apart = replace(lending, num_cache_slots=num_slots, min_cache_slots=num_slots)
    found = apart.plan()
    return lending if isinstance(found, Refusal) or found.lendable else apart


def _drawn(geometry: Geometry, rng: Random, *, is_room_alone: bool = False, is_large: bool = False) -> Geometry:
    has_room = is_room_alone or rng.random() < ROOM_SHARE
    is_elastic = not is_room_alone and (not has_room or rng.random() < ELASTIC_SHARE)
    lends_block = is_elastic and rng.random() < 0.7
    stride_bytes = align_up(max(geometry.blob_bytes), SLOT_ALIGNMENT_BYTES)
    blob_bytes, num_experts = rng.choice(BLOB_BYTES), rng.choice((3, 4, 5, 9))
    if has_room and num_experts * align_up(blob_bytes, SLOT_ALIGNMENT_BYTES) < stride_bytes:
        num_experts = -(-2 * stride_bytes // blob_bytes)
    if rng.random() < 0.15 or is_large:  # more dirty slots than one group of copies has
        num_experts = -(-rng.choice((17, 20, 33)) * stride_bytes // blob_bytes)
    head_bytes = rng.choice(HEAD_BYTES)
    lends_head = is_elastic and head_bytes > 0 and rng.random() < 0.8
    draft_head_bytes = rng.choice(HEAD_BYTES)
    repeats = is_elastic and rng.random() < 0.7  # the core needs neither block nor head for it, whatever switches do
    segment_bytes = rng.choice(SEGMENT_BYTES) if is_elastic else geometry.segment_bytes
    more_bytes = num_experts * align_up(blob_bytes, SLOT_ALIGNMENT_BYTES) + head_bytes + draft_head_bytes + 1024
    return replace(
        geometry,
        arena_bytes=align_up(geometry.arena_bytes + more_bytes, segment_bytes),
        segment_bytes=segment_bytes,
        drafter_experts=num_experts,
        drafter_blob_bytes=blob_bytes,
        draft_head_bytes=draft_head_bytes,
        head_bytes=head_bytes,
        room_min_tokens=rng.choice((0, 0, *THRESHOLDS)) if has_room else -1,
        is_elastic=is_elastic,
        lends_block=lends_block,
        lends_head=lends_head,
        retains_startup=is_elastic and rng.random() < 0.3,
        repeat_min_tokens=rng.choice(THRESHOLDS) if repeats else -1,
    )


def sites_in(geometry: Geometry) -> tuple[str, ...]:
    """Where a failure can be aimed at; () where no more than slots of the cache are lent."""
    if not geometry.drafter_experts:
        return ()
    absent = {OF_SWAP} if not geometry.num_swaps else set()
    if geometry.room_min_tokens == NEVER:
        absent |= {ROOM_OPENS, ROOM_CLOSES}
    if not geometry.is_elastic:
        absent |= MOVES | {GROWS, SHRINKS, INTO_HEAD}
    lent = {"verifier": True, "block": geometry.lends_block, "draft head": geometry.lends_block}
    for part, is_lent in (lent | {"head": geometry.lends_head}).items():
        if not (geometry.is_elastic and is_lent):
            absent |= {goes(part), comes(part)}
    return tuple(site for site in (*SITES, *RARE_SITES) if site not in absent)
