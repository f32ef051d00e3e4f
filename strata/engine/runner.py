"""Drives the serving machine over a device, one awaited point at a time. Synchronous: it runs in the device's thread.

Decides nothing: the machine says what to submit and what to wait for, the caller says whether a reply goes on. Counts
what it submits, for the statistics.
"""

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from strata.core.errors import DeviceError, DeviceLost
from strata.core.events import Failed, Reached
from strata.core.lending.ledger import Ledger
from strata.core.programs import HIT_WORD, MISSED_WORD, RESULT_BYTES, SAMPLED_WORD
from strata.core.serving.checkpoints import Checkpoints
from strata.core.serving.chunk import Addresses
from strata.core.serving.conversations import ParkedConversations
from strata.core.serving.launches import Recipe
from strata.core.serving.machine import Machine
from strata.core.serving.parking import Restoring
from strata.core.serving.request import GenerationRequest
from strata.core.serving.standing import HOME, forgetful
from strata.core.serving.startup import start_up
from strata.core.serving.states import (
    Closing,
    Homing,
    Idle,
    Reading,
    ShortReading,
    State,
    Windowing,
    first_state,
    landed,
)
from strata.core.serving.steps import (
    Arrived,
    Began,
    Broke,
    Check,
    Continued,
    Drafted,
    Ended,
    Orders,
    Routed,
    ServingEvent,
    Started,
)
from strata.core.serving.swapping import brings_reads
from strata.core.serving.windows import most_drafts
from strata.core.units import MIB
from strata.device import Device, DeviceStatistics
from strata.engine.counts import CacheFacts, RunnerCounts, cache_facts, with_acts, with_commands, with_window
from strata.engine.graphs import start_graphs, touching
from strata.engine.lookup import LOOK_BACK_TOKENS, look_up
from strata.engine.read_facts import with_geometry, with_takeover
from strata.engine.recovery import until_mended
from strata.engine.results import DigestOf, num_worthy, routed_experts, verify
from strata.engine.updates import NO_READ, DraftFacts, ReadFacts

TOLD_SCRATCH_BYTES = 4 * MIB
"""A class of at least so much that a slab would have saved is told of (`lending.md` 3.3)."""
log = logging.getLogger(__name__)
START_PARTS = ("load", "graphs", "touch")
"""What a start does behind the weights: copies to the card, windows captured, a first request of its own."""


@dataclass(frozen=True, slots=True)
class HasRead:
    """`read_tokens` prompt tokens are through all layers, those that the session had included."""

    read_tokens: int


@dataclass(frozen=True, slots=True)
class HasMoved:
    """A conversation is safe in host memory, and another one is on its way back from it. Nothing was read yet."""


@dataclass(frozen=True, slots=True)
class HasSampled:
    """A window is done and gave one token or more; the caller answers with `resume` or `end`."""

    token_ids: tuple[int, ...]

    @property
    def token_id(self) -> int:
        """Of a window that gave one."""
        (token_id,) = self.token_ids
        return token_id


@dataclass(frozen=True, slots=True)
class HasClosed:
    """Nothing is open any more."""


Outcome = HasRead | HasMoved | HasSampled | HasClosed


@dataclass(frozen=True, slots=True)
class RunnerSnapshot:
    """One moment: the runner's counts, the device's, who owns which bytes by the books, what is parked, which states of
    the live session are kept, and how often each blob is read."""

    counts: RunnerCounts
    device: DeviceStatistics
    ledger: Ledger
    parked: ParkedConversations
    checkpoints: Checkpoints
    heat: tuple[int, ...]


class Runner:
    """`terminators` end a reply, and in a prompt a turn: behind them a read is cut (`strata.core.serving.cuts`).
    `pause` is called while a device has nothing to report yet; the twin always has. With `is_touched`, `start` runs
    every program once: on a card, a kernel is compiled when it runs for the first time. `digest` is the positional
    digest of host bytes, for plans that verify what was lent; `clock` gives seconds, for the time that a loan takes to
    come home; `heat`: how often each blob was read before, () if nobody counted."""

    def __init__(
        self,
        device: Device,
        recipe: Recipe,
        terminators: Sequence[int],
        pause: Callable[[], None],
        *,
        is_touched: bool = False,
        digest: DigestOf | None = None,
        clock: Callable[[], float] = lambda: 0.0,
        heat: tuple[int, ...] = (),
    ) -> None:
        description = device.describe()
        assert digest is not None or not recipe.plan.options.policy.is_verified, "nothing to verify with"
        self._digest, self._clock = digest, clock
        self._reclaim_began_s: float | None = None
        self._device, self._recipe, self._terminators, self._pause = device, recipe, tuple(terminators), pause
        self._places = Addresses(description.arena_address, description.pack_address)
        self._machine = Machine(recipe, self._places, frozenset(terminators))
        self._state: State = first_state(recipe.plan, heat)
        self._awaits: tuple[str, ...] = ()
        self._early: set[str] = set()  # reported since the request began, and not awaited so far
        self._checks: tuple[Check, ...] = ()
        self._num_acts = 0
        self._is_touched = is_touched
        self._counts = self._began = RunnerCounts()
        self._read = NO_READ
        self._sampled: tuple[int, ...] = ()
        self._publish()

    def start(self) -> dict[str, float]:
        """Make the card ready: map, load, publish, capture. Gives the seconds of each part. Raises DeviceError."""
        laps_s = [self._clock()]
        segment_bytes = self._device.describe().segment_bytes
        plan = self._recipe.plan
        cache = self._state.at.cache
        self._order(start_up(plan, self._places, cache, segment_bytes=segment_bytes, terminators=self._terminators))
        self._gather()
        laps_s.append(self._clock())
        for name, launches in start_graphs(self._recipe):
            self._device.capture(name, launches)
        laps_s.append(self._clock())
        self._step(Started())
        if self._is_touched:
            self._touch()
            self._step(Started())  # the touch has brought home what was lent from the start
        laps_s.append(self._clock())
        return {name: end - begin for name, (begin, end) in zip(START_PARTS, pairwise(laps_s), strict=True)}

    def _touch(self) -> None:
        """A request of its own, read in a chunk and answered by a window, and one that windows read where they do; they
        count for nothing."""
        for request in touching(self._recipe.plan):
            self.begin(request)
            while not isinstance(outcome := self.advance(is_cancelled=False), HasClosed):
                if isinstance(outcome, HasSampled):
                    self.end()
        self._counts = self._began = RunnerCounts(scratch_classes=self._counts.scratch_classes)
        self._state = replace(self._state, at=forgetful(self._state.at, self._recipe.plan))
        self._publish()

    def begin(self, request: GenerationRequest) -> int:
        """Submit the first part of a request, and say how many of its tokens the session has already. Only when
        nothing is open."""
        before, had_segments = self._counts, self._state.at.segments is not None
        self._read = NO_READ
        self._early.clear()
        self._step(Began(request))
        facts, plan = with_takeover(self._read, self._state), self._recipe.plan
        fresh_tokens = len(request.prompt_ids) - facts.read_from
        policy, moves_block = plan.options.policy, plan.moves_block
        declined = policy.decline(fresh_tokens, is_out=had_segments, moves_block=moves_block)
        self._began, self._read = before, replace(facts, no_room=declined.room, no_segments=declined.segments)
        return self._read.read_from

    def read_facts(self) -> ReadFacts:
        """How the prompt of the request begun last was read, so far."""
        return replace(
            self._read,
            ring_entries=self._counts.ring_entries - self._began.ring_entries,
            refilled_bytes=self._counts.refilled_bytes - self._began.refilled_bytes,
            room_bytes=self._counts.room_bytes - self._began.room_bytes,
            restored_bytes=self._counts.restored_bytes - self._began.restored_bytes,
            reclaim_ms=1e3 * (self._counts.reclaim_s - self._began.reclaim_s),
            parked_bytes=self._counts.parked_bytes - self._began.parked_bytes,
            unparked_bytes=self._counts.unparked_bytes - self._began.unparked_bytes,
        )

    def draft_facts(self) -> DraftFacts:
        """What drafts did for the request begun last, so far."""
        now, then = self._counts, self._began
        return DraftFacts(now.num_drafts - then.num_drafts, now.num_drafts_accepted - then.num_drafts_accepted)

    def cache_facts(self) -> CacheFacts:
        """Experts that decode windows of the request begun last read, so far, and what was exchanged meanwhile."""
        return cache_facts(self._counts, self._began)

    def advance(self, *, is_cancelled: bool) -> Outcome:
        """Wait for what was submitted last, then submit what follows. Raises DeviceError; then call `recover`."""
        self._gather()
        state = self._state
        if isinstance(state, Windowing):
            self._sampled = self._sampled_tokens(state.rows)
            if not is_cancelled:
                return HasSampled(self._sampled)
            self.end()
        elif is_cancelled and not self._is_idle():
            self._step(Ended())
        elif isinstance(state, Reading) and state.is_routing:
            self._step(Routed(self._routed_experts()))
        elif not self._is_idle():
            self._step(Arrived())
        if self._is_idle():
            return HasClosed()
        return HasMoved() if isinstance(self._state, Restoring) else HasRead(len(self._state.at.session.ids))

    def resume(self, *token_ids: int) -> None:
        """All sampled tokens were taken: run the next window behind the last."""
        assert token_ids == self._sampled, (token_ids, self._sampled)
        self._step(Continued(token_ids, self._looked_up(token_ids), self._expert_reads()))
        while isinstance(self._state, Homing):
            self._gather()
            self._step(Arrived())
        if isinstance(self._state, Windowing) and self._state.is_drafting:
            self._gather()
            self._step(Drafted(self._num_worthy(self._state.rows - 1)))

    def _looked_up(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Drafts behind `token_ids` where windows have rows for them and no drafter to fill these."""
        state, plan = self._state, self._recipe.plan
        assert isinstance(state, Windowing)
        most = most_drafts(plan, num_left=state.num_left - len(token_ids))
        if plan.draft is not None or most < 1:
            return ()
        return look_up((*state.at.session.ids[-LOOK_BACK_TOKENS:], state.token_id, *token_ids), most=most)

    def end(self, *, num_taken: int | None = None) -> None:
        """The reply is over with the first `num_taken` of the tokens that were sampled last, or all of them. All is at
        rest when this returns."""
        self._step(Ended(self._sampled[:num_taken], self._expert_reads()))
        while not self._is_idle():
            self._gather()
            self._step(Arrived())

    def recover(self) -> None:
        """After a DeviceError: drain what is open and take back what is lent, so that the next request finds
        everything at rest. A command that fails on this way too is tried again; a device on which that
        fails too often is lost, and its DeviceError is raised."""
        until_mended(self._recover_once)

    def _recover_once(self) -> None:
        """What is told of while the streams drain failed before, and is mended with the rest."""
        self._awaits, self._checks = (), ()
        self._device.completions()
        if not self._is_idle() or self._state.at.ordered:
            self._step(Broke(self._num_acts))
        while not self._is_idle():
            self._gather(is_draining=isinstance(self._state, Closing))
            self._step(Ended())

    def _is_idle(self) -> bool:
        return isinstance(self._state, Idle)

    def snapshot(self) -> RunnerSnapshot:
        """As it was at the end of the last step. May be asked for from any thread."""
        return self._snapshot

    def _step(self, event: ServingEvent) -> None:
        """A window that must stage blobs is ordered whole before this returns, and waited for in between."""
        self._take(event)
        while isinstance(self._state, ShortReading | Windowing) and self._state.held.commands:
            self._gather()
            self._take(Routed(self._routed_experts()))

    def _take(self, event: ServingEvent) -> None:
        was_restoring = self._state.at.is_restoring
        self._state, orders = self._machine.step(self._state, event)
        if self._state.at.is_restoring and not was_restoring:
            self._reclaim_began_s = self._clock()
        elif was_restoring and not self._state.at.is_restoring:
            self._note_home()
        self._read = with_geometry(self._read, self._state, self._recipe.plan)
        self._order(orders)
        self._state = landed(self._state)
        self._publish()

    def _publish(self) -> None:
        at, device = self._state.at, self._device.statistics()
        self._snapshot = RunnerSnapshot(self._counts, device, at.ledger, at.parked, at.checkpoints, at.cache.heat)

    def _order(self, orders: Orders) -> None:
        self._num_acts = 0
        for upload in orders.uploads:
            self._device.host(upload.target)[:] = upload.data
        try:
            for act in orders.acts:
                self._device.submit((act,))
                self._num_acts += 1
        finally:
            taken = orders.acts[: self._num_acts]
            self._counts = with_acts(self._counts, taken, slab_bytes=self._read.slab_bytes)
        self._device.submit(orders.commands)
        had_classes = self._counts.scratch_classes
        is_lent = self._state.at.loan is not None
        self._counts = with_commands(self._counts, orders.commands, self._recipe.plan, is_lent=is_lent)
        for size_bytes in sorted(self._counts.scratch_classes - had_classes):
            if size_bytes >= TOLD_SCRATCH_BYTES:
                log.info("prefill scratch: device 0 takes a new %d MiB buffer", size_bytes // MIB)
        self._awaits, self._checks = orders.awaits, orders.checks

    def _gather(self, *, is_draining: bool = False) -> None:
        """Until every awaited tag is reached. Raises DeviceError for what failed; with `is_draining` only for what
        takes the device away."""
        missing = set(self._awaits) - self._early
        while missing:
            events = self._device.completions()
            for event in events:
                if isinstance(event, Failed):
                    if is_draining and not event.is_fatal:
                        continue
                    kind = DeviceLost if event.is_fatal else DeviceError
                    raise kind(event.message, event.command)
                assert isinstance(event, Reached)
                self._early.add(event.tag)
                missing.discard(event.tag)
                if event.tag.startswith(f"{HOME} ") and not self._state.at.is_coming_home:
                    self._note_home()
            if missing and not events:
                self._pause()
        self._early.difference_update(self._awaits)
        checks, self._awaits, self._checks = self._checks, (), ()
        for check in checks:
            self._check(check)

    def _note_home(self) -> None:
        """All that was lent is home, as far as the host knows since now."""
        if self._reclaim_began_s is not None:
            reclaim_s = self._counts.reclaim_s + self._clock() - self._reclaim_began_s
            self._counts, self._reclaim_began_s = replace(self._counts, reclaim_s=reclaim_s), None

    def _check(self, check: Check) -> None:
        """Raises DeviceError: what came home wrong is copied again by the recovery."""
        assert self._digest is not None
        verify(check, self._device, self._digest)
        self._counts = replace(self._counts, num_verified=self._counts.num_verified + 1)

    def _routed_experts(self) -> tuple[int, ...]:
        return routed_experts(self._device.host(self._recipe.plan.staging.router_counts))

    def _expert_reads(self) -> tuple[int, ...]:
        """Windows that read each blob since this was not () last: flat [num_layers, num_experts]."""
        plan = self._recipe.plan
        if not brings_reads(plan, self._state.at.cache):
            return ()
        return tuple(self._device.host(plan.staging.usage).cast("i"))

    def _num_worthy(self, num_drafts: int) -> int:
        options, result = self._recipe.plan.options, self._device.host(self._recipe.plan.staging.result)
        return num_worthy(result, num_drafts, least=options.least_probability)

    def _sampled_tokens(self, rows: int) -> tuple[int, ...]:
        """What the window of `rows` rows gave; its first row always stands."""
        words = struct.unpack(f"<{RESULT_BYTES // 8}q", self._device.host(self._recipe.plan.staging.result))
        hits, misses, num_sampled = words[HIT_WORD], words[MISSED_WORD], words[SAMPLED_WORD] if rows > 1 else 1
        self._counts = with_window(
            self._counts,
            hits=hits,
            misses=misses,
            num_drafts=rows - 1,
            num_drafts_accepted=num_sampled - 1,
        )
        if min(words[:num_sampled]) < 0:  # how a card says it: its programs cannot raise
            raise DeviceError("sample: no token can follow: no finite logit, or NaN")
        return tuple(words[:num_sampled])
