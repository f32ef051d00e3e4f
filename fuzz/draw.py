"""Draws worlds and decisions from one generator: the bare front end, and what it finds worth drawing.

Nothing here judges. Every draw is a value of `sim.world`, so that a trace of them needs no generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from fuzz.draw_loans import sites_in, with_loans
from fuzz.draw_scratch import with_scratch
from fuzz.draw_stages import StagedDrawer, draw_stages, is_staged
from fuzz.scenes import HABITS, MIN_DECISIONS, OPENING_FRESH, Scene, draw_scene, draw_stage
from sim.world.card import FaultKind
from sim.world.decisions import Advance, Begin, Cancel, Decision, Fault, Favour, Restart, Stop
from sim.world.geometry import MAX_EXPERTS, OTHER_OPTIONS, VOCAB_SIZE, Delivery, Geometry
from sim.world.sites import OF_SWAP
from sim.world.worlds import AnyDriver
from strata.core.errors import Refusal
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

SEGMENT_BYTES = 1 << 14
SHORT_CONTEXT, LONG_CONTEXT = 700, 2400
MAX_DECISIONS = 24
HANDOVER_FAULT_RATE = 0.3
"""While bytes change hands, in worlds with failures at all: there a failure has the most to spoil."""
AIMED_SHARE = 0.4
HANDING_OVER = ("Parking", "Restoring", "Lending", "Closing", "Settling")
SHARED: tuple[int, ...] = (0, 0, 1, 100, 256, 300, 5000)
ALL_OR_NOTHING = (0, 300, 5000, 5000, 5000)
"""Recurrent state is taken up at its end or not at all."""
LOANS_SHARE = 0.6
SCRATCH_SHARE = 0.2
SHORT_SHARE = 0.25
SWAP_SHARE = 0.3
WIDE_SHARE = 0.25
BUDGET_SHARE = 0.12
REPLIES, LONGER_REPLIES, WIDE_REPLIES = (1, 1, 2, 4), (2, 4, 7, 12), (4, 9, 16, 30)
"""Tokens of a reply: longer ones where blobs are exchanged between windows, and with drafts so many that what was said
is said again."""
FRESH = (0, 1, 2, 17, 255, 256, 257, 300, 511, 520)
STREAMED_FRESH = (1026, 1300, 2100)
TIMES: tuple[int, ...] = (1, 1, 2, 3, 5, 9, 20)
BUSY_FRESH, BUSY_SHARED, BUSY_BASES, BUSY_TIMES = (1, 2, 17, 80, 200), (0, 100, 150, 5000), (1, 2, 2, 3), (9, 30)
"""Where conversations alternate, many short requests that go on with one of the last few."""
LONG_FRESH = (1, 40, 256, 1024, 1025, 1026, 1300, 2100)


def draw_geometry(rng: Random) -> Geometry:
    """A world with a plan. Three in four lend cache slots."""
    return _planned(rng, wants_loan=rng.random() < 0.75)


def _planned(rng: Random, *, wants_loan: bool, is_long: bool | None = None) -> Geometry:
    for _ in range(40):
        geometry = _any_geometry(rng, wants_loan, is_long)
        plan = geometry.plan()
        if not isinstance(plan, Refusal) and (plan.lendable is not None) == wants_loan:
            return geometry
    return geometry_that_lends()


def geometry_that_lends(delivery: Delivery = Delivery.ALL) -> Geometry:
    """The plainest one: two layers of experts around a dense one, a ring of three slots, half of the blobs resident."""
    return Geometry(
        (4097, 0, 5003),
        num_experts=12,
        context_tokens=SHORT_CONTEXT,
        arena_bytes=1 << 17,
        segment_bytes=SEGMENT_BYTES,
        max_chunk_tokens=256,
        ring_slots=3,
        min_cache_slots=2,
        parked_bytes=1000 * 24,
        delivery=delivery,
    )


def _any_geometry(rng: Random, wants_loan: bool, is_long: bool | None) -> Geometry:
    is_long = rng.random() < 0.35 if is_long is None else is_long
    context_tokens = LONG_CONTEXT if is_long else SHORT_CONTEXT
    blob_bytes = _layers(rng)
    num_experts = rng.choice((5, 8, 12, 17))
    row_bytes = 8 * len(blob_bytes)
    fixed_bytes = 10_000 + context_tokens * row_bytes
    all_bytes = sum(blob_bytes) * num_experts
    chunk_bytes = (1024 if is_long else 256) * 120
    share = rng.uniform(0.3, 0.95) if wants_loan else rng.uniform(0.5, 1.5)
    arena_bytes = fixed_bytes + int(all_bytes * share) + (chunk_bytes if rng.random() < 0.3 or not wants_loan else 0)
    return Geometry(
        blob_bytes,
        num_experts=num_experts,
        context_tokens=context_tokens,
        arena_bytes=-(-arena_bytes // SEGMENT_BYTES) * SEGMENT_BYTES,
        segment_bytes=SEGMENT_BYTES,
        chunk_tokens=1024 if is_long and rng.random() < 0.7 else None,
        max_chunk_tokens=None if is_long else rng.choice((None, 256, 512)),
        ring_slots=rng.choice((None, 1, 2, 3, 5, 9, 20)),
        num_cache_slots=rng.choice((None, None, None, 6)),
        min_cache_slots=rng.choice((1, 2, 4)),
        parked_bytes=rng.choice((0, 90, 330, 800, 3000)) * row_bytes,
        is_reread=rng.random() < 0.08,
        delivery=rng.choice((Delivery.ALL, Delivery.ONE, Delivery.CROSSED)),
    )


def _layers(rng: Random) -> tuple[int, ...]:
    """Sizes that are coprime to every grid; at least one layer has experts."""
    sizes = [rng.choice((0, 2053, 3001, 4096, 4099, 6007)) for _ in range(rng.choice((1, 2, 2, 3, 4)))]
    return tuple(sizes) if any(sizes) else (4099, *sizes)


class Drawer:
    """Decisions that fit what is open: mostly reads and windows, a cancel or a stop in one request of three, a failure
    in one world of two."""

    def __init__(self, rng: Random, geometry: Geometry, scene: Scene = Scene.NONE) -> None:
        self._rng, self._scene = rng, scene
        self._fresh: tuple[int, ...] = FRESH
        is_cut_short = geometry.can_rewind or geometry.num_checkpoints
        self._shared: tuple[int, ...] = SHARED if is_cut_short else ALL_OR_NOTHING
        if geometry.context_tokens > SHORT_CONTEXT:
            self._fresh = STREAMED_FRESH if rng.random() < 0.6 else LONG_FRESH
        self._replies, self._stop_rate = LONGER_REPLIES if geometry.num_swaps else REPLIES, 0.2
        if geometry.window_rows > 1:
            self._replies, self._stop_rate = WIDE_REPLIES, 0.4
        self._times = TIMES
        self._bases: tuple[int, ...] = (0, 1, 2, 3)
        if geometry.parked_bytes and rng.random() < 0.5:
            self._times, self._bases, self._fresh = BUSY_TIMES, BUSY_BASES, BUSY_FRESH
            self._shared = BUSY_SHARED if is_cut_short else ALL_OR_NOTHING
        limits = (geometry.room_min_tokens, geometry.repeat_min_tokens, geometry.short_read_tokens)
        thresholds = [least for least in limits if least > 0]
        self._fresh += tuple(least + step for least in thresholds for step in (-1, 0, 0, 1))
        if geometry.drafter_experts and geometry.context_tokens > SHORT_CONTEXT:
            self._fresh += (1025, 1025, 2049)  # the last chunk streams too, and only then may a room's slot still fly
        self._after: list[Sequence[int]] = [(0, 1, 2, 3, 5, 8, 13, 21, 40)]
        if geometry.drafter_experts:  # as far as the acts of both ways reach, and the acts of a room
            self._after += [range(60), range(4)]
        self._sites = sites_in(geometry)
        if scene is Scene.SWAPS:  # as far as the copies of a swap, or one of them itself
            self._after, self._sites = [range(9)], (OF_SWAP,)
        self._fault_rate = rng.choice((0.0, 0.1, 0.2, 0.3) if geometry.drafter_experts else (0.0, 0.0, 0.08, 0.2))
        self._cancel_rate = rng.choice((0.0, 0.15, 0.3) if geometry.drafter_experts else (0.0, 0.03, 0.15))
        self._favour_rate = rng.choice((0.1, 0.3, 0.5)) if geometry.delivery is Delivery.DRAWN else 0.0
        if scene in HABITS:
            habits = HABITS[scene]
            self._fresh, self._shared, self._bases, self._times = (
                habits.fresh,
                habits.shared,
                habits.bases,
                habits.times,
            )
            self._cancel_rate = self._cancel_rate if habits.cancels is None else habits.cancels
            self._fault_rate = self._fault_rate if habits.faults is None else habits.faults

    def draw(self, driver: AnyDriver) -> Decision:
        rng, luck = self._rng, self._rng.random()
        is_handing_over = driver.where.startswith(HANDING_OVER) or driver.is_handing_over
        if self._fault_rate and luck < (HANDOVER_FAULT_RATE if is_handing_over else self._fault_rate):
            return self._draw_fault(can_aim=not driver.where.startswith("Settling"))
        if self._favour_rate and rng.random() < self._favour_rate:
            return Favour(rng.randrange(4), rng.choice((1, 2, 3, 5, 8, 20, 50)))
        if driver.is_leaving or (is_handing_over and luck < 0.6):
            return Advance()
        restarts = HABITS[self._scene].restarts if self._scene in HABITS else 0.0
        if not driver.is_open and restarts and rng.random() < restarts:
            return Restart(rng.randrange(len(OTHER_OPTIONS)))
        if not driver.is_open:
            fresh, shared, base = (rng.choice(choices) for choices in (self._fresh, self._shared, self._bases))
            if self._scene in (Scene.ALTERNATE, Scene.CUTS) and driver.num_begun < 2:
                fresh, shared = rng.choice(OPENING_FRESH), 0
            if self._scene is Scene.CUTS and driver.checkpoints and rng.random() < 0.6:
                fresh, shared, base = (
                    rng.choice((0, 0, 1)),
                    rng.choice(driver.checkpoints) + rng.choice((-1, 0, 0, 1)),
                    0,
                )
            return Begin(
                fresh=fresh,
                shared=max(0, shared),
                base=base,
                salt=rng.randrange(6),
                max_tokens=rng.choice(self._replies),
                bias=rng.choice((0, 0, 7)),
            )
        if rng.random() < self._cancel_rate * (3 if is_handing_over else 1):
            return Cancel()
        if driver.has_token and rng.random() < self._stop_rate:
            return Stop()
        return Advance(rng.choice(self._times))

    def _draw_fault(self, *, can_aim: bool) -> Fault:
        """Where much is lent, some of them are aimed: at what a client's step seldom comes right before."""
        rng = self._rng
        kind = rng.choice(list(FaultKind))
        if self._sites and can_aim and rng.random() < AIMED_SHARE:
            return Fault(rng.choice((0, 0, 1)), kind, at=rng.choice(self._sites))
        return Fault(rng.choice(rng.choice(self._after)), kind)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The geometry of a seed, what is played in it, and the generator that draws its decisions."""

    geometry: Geometry
    scene: Scene
    rng: Random

    def drawer(self) -> Drawer | StagedDrawer:
        if self.geometry.splits:
            return StagedDrawer(self.rng, self.geometry)
        return Drawer(self.rng, self.geometry, self.scene)

    def num_decisions(self) -> int:
        """Drawn; a scene needs a few."""
        return self.rng.randrange(1 if self.scene is Scene.NONE else MIN_DECISIONS, MAX_DECISIONS)


def draw_world(seed: int, *, with_drawn_order: bool = True, with_all_loans: bool = True) -> Drawn:
    """One world in seven has several stages (`draw_stages.py`). Of the others more than one in three has a drafter and
    lends more than cache slots, in one of four windows have drafts, the drafter's or looked up, in one of four bytes
    change when streams get there, in one of four some layers are recurrent, in one of five programs need scratch, in
    one of four windows read what is short, in three of ten blobs are exchanged, in one of eight of the rest the pack is
    pinned in part, and three of ten have a scene; all are drawn apart, so that the other worlds are the same without. A
    world that lacks what it could have has no scene either; a scene draws its own world (`scenes.py`)."""
    rng = Random(seed)
    if with_all_loans and with_drawn_order and is_staged(seed):
        return Drawn(draw_stages(rng), Scene.NONE, rng)
    scene = draw_scene(seed) if with_all_loans and with_drawn_order else Scene.NONE
    if scene is not Scene.NONE:
        geometry = draw_stage(scene, rng, lambda rng, is_long: _planned(rng, wants_loan=True, is_long=is_long))
        return Drawn(_in_drawn_order(geometry, seed), scene, rng)
    geometry = draw_geometry(rng)
    loans = Random(f"loans of {seed}")
    if with_all_loans and loans.random() < LOANS_SHARE:
        geometry = with_loans(geometry, loans)
    scratch = Random(f"scratch of {seed}")
    if with_all_loans and scratch.random() < SCRATCH_SHARE:
        geometry = with_scratch(geometry, scratch)
    short = Random(f"short reads of {seed}")
    if with_all_loans and short.random() < SHORT_SHARE:
        geometry = replace(geometry, short_read_tokens=short.choice((2, 17, 64, 255)))
    swaps = Random(f"swaps of {seed}")
    if with_all_loans and swaps.random() < SWAP_SHARE:
        num_swaps, swap_windows = swaps.choice((1, 2, 3, 16)), swaps.choice((1, 1, 2, 3))
        swapping = replace(geometry, num_swaps=num_swaps, swap_windows=swap_windows)
        if not isinstance(swapping.plan(), Refusal):  # counts take some bytes
            geometry, scene = swapping, swaps.choice((Scene.NONE, Scene.SWAPS))
    if with_drawn_order:
        geometry = _in_drawn_order(geometry, seed)
    apart = Random(f"state of {seed}")
    if apart.random() < 0.25:
        layers = range(len(geometry.blob_bytes))
        recurrent = tuple(layer for layer in layers if apart.random() < 0.6)
        geometry = replace(
            geometry, recurrent=recurrent, num_checkpoints=apart.choice((0, 1, 2, 2, 5)) if recurrent else 0
        )
    wide = Random(f"windows of {seed}")
    if with_all_loans and geometry.drafter_experts <= MAX_EXPERTS and wide.random() < WIDE_SHARE:
        geometry = _with_wide_windows(geometry, wide.choice((2, 3, 4, 8)))
        if geometry.drafts:
            geometry = replace(geometry, least_draft_percent=wide.choice((0, 0, 50)))
    budget = Random(f"pinned bytes of {seed}")
    if with_all_loans and not geometry.num_swaps and budget.random() < BUDGET_SHARE:
        geometry = _with_budget(geometry, budget)
    return Drawn(geometry, scene, rng)


def _with_budget(geometry: Geometry, budget: Random) -> Geometry:
    """Some of the blobs are pinned, on a card that has as much memory more as windows need to stage the others;
    `geometry` where that has no plan."""
    more_bytes = geometry.num_experts * (align_up(max(geometry.blob_bytes), SLOT_ALIGNMENT_BYTES) + 8)
    share = budget.choice((0.0, 0.1, 0.3, 0.5, 0.8, 0.95))
    pinned = replace(
        geometry,
        pinned_bytes=int(share * geometry.inventory().expert_bytes) + budget.choice((0, 1, 256)),
        arena_bytes=align_up(geometry.arena_bytes + more_bytes, geometry.segment_bytes),
        num_cache_slots=geometry.num_cache_slots or max(2, geometry.inventory().num_pairs * 6 // 10),
    )
    return geometry if isinstance(pinned.plan(), Refusal) else pinned


def _with_wide_windows(geometry: Geometry, window_rows: int) -> Geometry:
    """On a card that has as much memory more as their logits take, and what a drafter works in; `geometry` where those
    have no plan."""
    more_bytes = window_rows * (4 * VOCAB_SIZE + 256)
    if geometry.drafter_experts:
        more_bytes += 8 * geometry.context_tokens + 4 * VOCAB_SIZE + window_rows * 512 + 4096
    arena_bytes = align_up(geometry.arena_bytes + more_bytes, geometry.segment_bytes)
    wide = replace(geometry, window_rows=window_rows, arena_bytes=arena_bytes)
    return geometry if isinstance(wide.plan(), Refusal) else wide


def _in_drawn_order(geometry: Geometry, seed: int) -> Geometry:
    is_drawn = Random(f"order of {seed}").random() < 0.25
    return replace(geometry, delivery=Delivery.DRAWN) if is_drawn else geometry
