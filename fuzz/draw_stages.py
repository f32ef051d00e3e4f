"""Draws worlds of two or three stages, and who of them is heard first. One world in seven is such a world, drawn apart,
so that the others are the same without.
"""

from dataclasses import replace
from enum import StrEnum
from random import Random

from fuzz.draw_scratch import BLOB_FACTOR, ROW_BYTES
from sim.world.card import FaultKind
from sim.world.decisions import Advance, Begin, Cancel, Decision, Fault, Favour, Stop, Turn
from sim.world.geometry import SLOT_GRID_BYTES, Delivery, Geometry
from sim.world.staged.driver import StagedDriver
from sim.world.worlds import AnyDriver
from strata.core.errors import Refusal
from strata.core.memory.shapes import STREAM_ALL_TOKENS

SHARE = 0.15
SLAB_SHARE = 0.15
LONG_SHARE = 0.12
LONG_TOKENS, LONG_ROW_BYTES = 2400, 200
SEGMENT_BYTES = 1 << 14
BLOB_BYTES = (0, 2053, 3001, 4096, 4099)
FRESH = (1, 2, 5, 17, 80, 200, 257, 300, 520, 600)
SHARED = (0, 0, 1, 100, 256, 5000)
TIMES = (1, 1, 2, 3, 5, 9, 30)
HASTY_SHARE, HASTY_FRESH, HASTY_SHARED = 0.5, (80, 300, 300, 520), (0, 0, 1, 5000)
HASTY_TIMES = (2, 3, 4, 5, 60)
PARKED_FRESH, PARKED_SHARED, PARKED_TIMES = (2, 80, 200, 300), (0, 0, 0, 5000), (9, 60, 60)
FAULT_AFTER = (0, 1, 2, 3, 5, 8, 13, 21, 40)
TRIES = 40


def is_staged(seed: int) -> bool:
    return Random(f"stages of {seed}").random() < SHARE


def draw_stages(rng: Random) -> Geometry:
    """Every stage has a plan."""
    for _ in range(TRIES):
        geometry = _any(rng)
        if not any(isinstance(part.plan(), Refusal) for part in geometry.parts()):
            return geometry
    return two_stages()


def two_stages(delivery: Delivery = Delivery.ALL) -> Geometry:
    """The plainest one: two layers each, a ring of three slots, a part of the blobs resident."""
    return Geometry(
        (4097, 0, 5003, 4099),
        num_experts=12,
        context_tokens=700,
        arena_bytes=1 << 17,
        arenas=(1 << 17,),
        segment_bytes=SEGMENT_BYTES,
        splits=(2,),
        max_chunk_tokens=256,
        ring_slots=3,
        min_cache_slots=2,
        delivery=delivery,
    )


def _any(rng: Random) -> Geometry:
    splits = rng.choice(((1,), (2,), (1, 2), (1, 3), (2, 3)))
    num_layers = splits[-1] + rng.choice((1, 2))
    blob_bytes = tuple(rng.choice(BLOB_BYTES) for _ in range(num_layers))
    num_experts = rng.choice((5, 8, 12))
    recurrent = tuple(layer for layer in range(num_layers) if rng.random() < 0.5) if rng.random() < 0.5 else ()
    if recurrent and rng.random() < 0.5:  # the first stage alone has state that cannot be rewound
        recurrent = tuple(range(splits[0]))
    geometry = Geometry(
        blob_bytes,
        num_experts=num_experts,
        context_tokens=700,
        arena_bytes=SEGMENT_BYTES,
        segment_bytes=SEGMENT_BYTES,
        splits=splits,
        arenas=(SEGMENT_BYTES,) * len(splits),
        max_chunk_tokens=rng.choice((None, 256, 512)),
        ring_slots=rng.choice((None, 1, 3, 5)),
        min_cache_slots=rng.choice((1, 2)),
        parked_bytes=rng.choice((0, 500, 1500)) * 8 * num_layers,
        is_reread=rng.random() < 0.08,
        delivery=rng.choice(list(Delivery)),
        recurrent=recurrent,
        num_checkpoints=rng.choice((0, 1, 2, 5)) if recurrent else 0,
        short_read_tokens=rng.choice((0, 0, 17, 64, 255)),
        window_rows=rng.choice((1, 1, 3)),
    )
    if rng.random() < 0.4:
        geometry = _with_drafter(geometry, rng)
    if rng.random() < SLAB_SHARE:
        geometry = _with_slab(geometry, rng)
    if Random(repr(geometry)).random() < LONG_SHARE:  # drawn apart too
        geometry = _with_streaming(geometry)
    sizes = [_arena_bytes(part, rng) for part in geometry.parts()]
    return replace(geometry, arena_bytes=sizes[0], arenas=tuple(sizes[1:]))


def _with_drafter(geometry: Geometry, rng: Random) -> Geometry:
    """On the last card, and a head of its own; windows have one row where something drafts."""
    return replace(
        geometry,
        window_rows=1,
        drafter_experts=rng.choice((3, 5, 9)),
        drafter_blob_bytes=rng.choice((2500, 5003, 7001)),
        draft_head_bytes=rng.choice((0, 3001)),
        head_bytes=rng.choice((0, 3001)),
        room_min_tokens=rng.choice((0, 0, 64, 300)),
    )


def _with_slab(geometry: Geometry, rng: Random) -> Geometry:
    """Programs of a chunk work in the tail of what each stage lends; a size class has 128 KiB, so blobs are larger."""
    return replace(
        geometry,
        blob_bytes=tuple(BLOB_FACTOR * size for size in geometry.blob_bytes),
        drafter_blob_bytes=BLOB_FACTOR * geometry.drafter_blob_bytes,
        mixer_work_bytes=rng.choice(ROW_BYTES),
        moe_work_bytes=rng.choice(ROW_BYTES),
        has_slab=True,
    )


def _with_streaming(geometry: Geometry) -> Geometry:
    """Chunks so long that they ask nobody which experts they need: several layers of one are ordered at once."""
    return replace(geometry, context_tokens=LONG_TOKENS, max_chunk_tokens=None, chunk_tokens=STREAM_ALL_TOKENS)


def _arena_bytes(part: Geometry, rng: Random) -> int:
    """From a card that lends nearly all of its slots to one whose layers fit whole."""
    block_bytes = part.drafter_experts * -(-part.drafter_blob_bytes // SLOT_GRID_BYTES) * SLOT_GRID_BYTES
    fixed_bytes = 10_000 + part.context_tokens * 8 * part.num_layers + block_bytes + part.head_bytes
    own_bytes = 256 * 130 if rng.random() < 0.4 else 0
    own_bytes = LONG_ROW_BYTES * part.chunk_tokens if part.chunk_tokens else own_bytes
    wanted = fixed_bytes + int(sum(part.blob_bytes) * part.num_experts * rng.uniform(0.4, 1.3)) + own_bytes
    return -(-wanted // SEGMENT_BYTES) * SEGMENT_BYTES


class Moment(StrEnum):
    """In which a hasty client leaves."""

    NONE = "none"
    ANY = "any"  # stages differ
    LATE = "late"  # the first is done with the prompt, and another one is not
    PARKED = "parked"  # a conversation is parked on some stages, and on its way on others


class StagedDrawer:
    """Decisions that fit what is open, turns and failures of any stage included."""

    def __init__(self, rng: Random, geometry: Geometry) -> None:
        self._rng, self._num_stages = rng, 1 + len(geometry.splits)
        self._is_drawn = geometry.delivery is Delivery.DRAWN
        thresholds = [least for least in (geometry.short_read_tokens, geometry.room_min_tokens) if least > 0]
        self._fresh = FRESH + tuple(least + step for least in thresholds for step in (0, 1))
        self._fresh += (geometry.context_tokens - 100,) * 3 if geometry.chunk_tokens else ()
        self._fault_rate = rng.choice((0.0, 0.0, 0.1, 0.2))
        self._cancel_rate = rng.choice((0.0, 0.05, 0.2))
        self._turn_rate = rng.choice((0.2, 0.4))
        self._shared: tuple[int, ...] = SHARED
        self._times: tuple[int, ...] = TIMES
        self._moment, self._apart_rate = Moment.NONE, 0.0
        if rng.random() < HASTY_SHARE:  # a client that leaves while one stage is ahead of another
            self._fresh, self._shared, self._times = HASTY_FRESH, HASTY_SHARED, HASTY_TIMES
            self._fault_rate, self._cancel_rate, self._turn_rate = 0.0, 0.02, 0.1
            parked = (Moment.PARKED,) * 2 if geometry.parked_bytes else ()
            self._moment = rng.choice((Moment.ANY, Moment.LATE, *parked))
            self._apart_rate = 0.5 if self._moment is Moment.LATE else 0.2
        if self._moment is Moment.PARKED:  # conversations that end, and take turns
            self._fresh, self._shared, self._times = PARKED_FRESH, PARKED_SHARED, PARKED_TIMES

    def _has_come(self, driver: AnyDriver) -> bool:
        """The moment for which a hasty client waits."""
        first, *others = (where.split()[0] for where in driver.where.split(" | "))
        match self._moment:
            case Moment.ANY:
                return any(other != first for other in others)
            case Moment.LATE:
                return first in ("Closing", "Windowing") and any(other.endswith("Reading") for other in others)
            case Moment.PARKED:
                return isinstance(driver, StagedDriver) and driver.is_half_parked
        return False

    def draw(self, driver: AnyDriver) -> Decision:
        rng, luck = self._rng, self._rng.random()
        if luck < self._fault_rate:
            return Fault(rng.choice(FAULT_AFTER), rng.choice(list(FaultKind)), rng.randrange(self._num_stages))
        if luck < self._fault_rate + self._turn_rate:
            if self._is_drawn and rng.random() < 0.4:
                return Favour(rng.randrange(4), rng.choice((1, 3, 8, 20)))
            return Turn(rng.randrange(self._num_stages), rng.choice((1, 2, 3, 8, 30)))
        if driver.is_leaving:
            return Advance()
        if not driver.is_open:
            shared = rng.choice(driver.checkpoints or self._shared) if rng.random() < 0.5 else rng.choice(self._shared)
            return Begin(
                rng.choice(self._fresh),
                shared=shared,
                base=rng.choice((0, 0, 1, 2)),
                salt=rng.randrange(6),
                max_tokens=rng.choice((1, 1, 2, 4)),
                bias=rng.choice((0, 0, 7)),
            )
        if rng.random() < (self._apart_rate if self._has_come(driver) else self._cancel_rate):
            return Cancel()
        if driver.has_token and rng.random() < 0.2:
            return Stop()
        is_parking = self._moment is Moment.PARKED and "Parking" in driver.where
        return Advance(1 if is_parking else rng.choice(self._times))
