"""What a server was told, through the core as it is: requests of its trace, token by token, on a twin without bytes.

The trace says what the model chose (experts, tokens), so neither its file nor its arithmetic is needed; the core plans,
lends, reads and refills as it does today, and every check of the twin looks on. Where the core does something else than
it did then, it cannot be followed any further, and that is said.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

from sim.device import SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from sim.world.bounds import check_served
from sim.world.card import Stalled
from strata.core import programs
from strata.core.errors import Refusal
from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.engine.runner import HasClosed, HasMoved, HasRead, HasSampled, Outcome, Runner
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Noted
from strata.trace.naming import plan_places
from strata.trace.replay import FIRST_LINE, program_names
from strata.trace.values import from_json

OUTCOMES = ("read", "moved", "sampled", "closed")


@dataclass(slots=True)
class Served:
    """`failure`: what the core or the twin said now. `departure`: where the core does not do what it did then, ""
    nowhere. `left_out`: requests that could not be played, and why."""

    num_requests: int = 0
    num_steps: int = 0
    failure: Exception | None = None
    departure: str = ""
    left_out: list[str] = field(default_factory=list)


class Departed(Exception):
    """The core does something else than it did when the trace was recorded."""


def is_served(trace: CommandTrace) -> bool:
    """Whether the trace has requests of a server, and says what it served."""
    has_requests = any(isinstance(entry, Noted) and entry.what == "begin" for entry in trace.entries)
    return has_requests and {"inventory", "options", "dense_reads"} <= trace.serving.keys()


def replay_served(trace: CommandTrace) -> Served:
    """Raises ValueError for a head that is not what `strata serve` writes."""
    plan = _plan_of(trace)
    if plan.staged:
        return Served(left_out=["windows of this server staged experts layer by layer; its requests are not followed"])
    served = Served()
    try:
        player = _Player(trace, plan, served)
        for line, note in _notes(trace):
            player.play(line, note)
    except Departed as departed:
        served.departure = str(departed)
    except Exception as error:  # whatever the core raises is what a trace is kept for
        served.failure = error
    return served


def _plan_of(trace: CommandTrace) -> Plan:
    inventory = from_json(ModelInventory, trace.serving["inventory"])
    options = from_json(PlanOptions, trace.serving["options"])
    check_served(inventory, options, max_pairs=len(trace.places.manifest()))
    try:
        plan = plan_card(inventory, trace.sizes.arena_bytes, options)
    except Exception as error:  # numbers out of a file may be some that nothing was written for
        raise ValueError(f"of what was served no plan can be made: {type(error).__name__}: {error}") from error
    if isinstance(plan, Refusal):
        raise ValueError(f"the planner of today refuses this card: {plan.reason}")
    return plan


def _notes(trace: CommandTrace) -> Iterator[tuple[int, Noted]]:
    """From the first request on whose ids are there: what is before it happened to a request that was cut off."""
    has_begun = False
    for line, entry in enumerate(trace.entries, FIRST_LINE):
        if isinstance(entry, Noted):
            has_begun = has_begun or (entry.what == "begin" and "prompt_ids" in entry.facts)
            if has_begun:
                yield line, entry


class _Player:
    def __init__(self, trace: CommandTrace, plan: Plan, served: Served) -> None:
        self._plan, self._served = plan, served
        self._payload, self._runner = _make_card(trace, plan)
        self._behind = {line: note for (line, _), (_, note) in pairwise(_notes(trace))}
        self._last = ""
        self._read_from = 0
        self._experts: tuple[int, ...] | None = None
        self._ids: tuple[int, ...] = (0,)
        self._is_cancelled = self._is_skipping = False

    def play(self, line: int, note: Noted) -> None:
        what, facts = note.what, note.facts
        if what == "begin":
            self._begin(line, facts)
        elif self._is_skipping:
            return
        elif what == "reuses":
            self._compare(line, f"reuses {self._read_from}", f"reuses {facts['tokens']}")
        elif what == "routed":
            self._experts = tuple(facts["experts"])
        elif what == "gave":
            self._ids = tuple(facts["ids"])
        elif what == "counted":
            self._play_reads(line, facts["reads"])
        elif what == "cancelled":
            self._is_cancelled = True
        elif what in OUTCOMES:
            self._advance(line, what, facts)
        elif what == "goes on":
            self._go_on(line, facts["ids"])
        elif what == "ended":
            self._runner.end(num_taken=facts["taken"])
        elif what == "failure" and self._last in ("reuses", "read", "moved", "routed", "gave", "cancelled", "goes on"):
            self._step()  # what failed then, and need not now
        elif what == "recovers":
            self._runner.recover()
        self._last = what

    def _play_reads(self, line: int, reads: Sequence[int]) -> None:
        """How often the windows since the last time read each expert."""
        staged = self._payload.host(self._plan.staging.usage)
        self._compare(line, f"reads of {len(staged) // 4} experts", f"reads of {len(reads)} experts")
        staged[:] = struct.pack(f"<{len(reads)}i", *reads)

    def _go_on(self, line: int, ids: Sequence[int]) -> None:
        """With the drafts that were worth a row then; a failure may have come before that was known."""
        behind = self._behind.get(line)
        then = behind.facts["drafts"] if behind and behind.what == "worthy" else None
        self._find_worthy(then or 0)
        self._runner.resume(*ids)
        now = self._runner.num_found
        is_like_then = now is None if then is None else now is not None and then <= now
        if behind and behind.what != "failure" and not is_like_then:
            self._depart(line, f"{_found(now)} drafts found", f"{_found(then)} drafts worthy")

    def _begin(self, line: int, facts: Mapping[str, Any]) -> None:
        self._is_skipping = "prompt_ids" not in facts
        if self._is_skipping:
            self._served.left_out.append(f"line {line}: the ids of this prompt were not kept")
            return
        sampling = from_json(SamplingParams, facts["sampling"])
        request = GenerationRequest("r", tuple(facts["prompt_ids"]), facts["max_tokens"], sampling)
        if self._served.num_requests == 0 and facts["request"] > 1:
            behind = self._behind.get(line)
            num_reused = behind.facts["tokens"] if behind and behind.what == "reuses" else 0
            self._warm_up(request.prompt_ids[:num_reused], but_not=request.prompt_ids)
        self._served.num_requests += 1
        self._is_cancelled, self._experts = False, None
        self._read_from = self._runner.begin(request)

    def _warm_up(self, ids: tuple[int, ...], *, but_not: tuple[int, ...]) -> None:
        """Stands for the requests before: what start-up lent is home, and the session holds `ids` and goes on in
        another way than the request does, so that `ids` is all that can be reused."""
        other = (but_not[len(ids)] + 1) % self._plan.inventory.vocab_size
        self._runner.begin(GenerationRequest("warm up", (*ids, other), 1))
        while not isinstance(self._step(), HasSampled):
            pass
        self._runner.end()

    def _advance(self, line: int, what: str, facts: Mapping[str, Any]) -> None:
        self._served.num_steps += 1
        then = " ".join(str(word) for word in (what, *facts.values()))
        match self._step():
            case HasRead(tokens):
                self._compare(line, f"read {tokens}", then)
            case HasMoved():
                self._compare(line, "moved", then)
            case HasSampled(ids):
                self._compare(line, f"sampled {list(ids)}", then)
            case HasClosed():
                self._compare(line, "closed", then)

    def _step(self) -> Outcome:
        """With what the programs would have left in staging: the experts that the router chose, the sampled tokens."""
        staging, num_experts = self._plan.staging, self._plan.inventory.num_experts
        chosen = range(num_experts) if self._experts is None else self._experts
        if staging.router_counts.size_bytes:
            counts = struct.pack(f"<{num_experts}i", *(int(expert in chosen) for expert in range(num_experts)))
            self._payload.host(staging.router_counts)[: len(counts)] = counts
        words = self._payload.host(staging.result).cast("q")
        for row, token_id in enumerate(self._ids):
            words[row] = token_id
        words[programs.SAMPLED_WORD] = len(self._ids)
        outcome = self._runner.advance(is_cancelled=self._is_cancelled)
        self._experts = None
        return outcome

    def _find_worthy(self, num_drafts: int) -> None:
        """What the drafter would have left in staging: as many drafts that it is sure of."""
        found = [1.0] * num_drafts + [0.0] * (programs.MAX_WINDOW_ROWS - 1 - num_drafts)
        place = self._payload.host(self._plan.staging.result)
        struct.pack_into(f"<{len(found)}d", place, 8 * programs.PROBABILITY_WORD, *found)

    def _compare(self, line: int, now: str, then: str) -> None:
        if now != then:
            self._depart(line, now, then)

    def _depart(self, line: int, now: str, then: str) -> NoReturn:
        raise Departed(f"line {line}: {then} when it was recorded, {now} now; what follows cannot be compared")


def _found(num_drafts: int | None) -> str:
    return "no" if num_drafts is None else str(num_drafts)


class _Follower(Runner):
    """`num_found`: drafts of the window begun last, None where no drafter was asked how sure it is."""

    num_found: int | None = None

    def resume(self, *token_ids: int) -> None:
        self.num_found = None
        super().resume(*token_ids)

    def _num_worthy(self, num_drafts: int) -> int:
        self.num_found = num_drafts
        return super()._num_worthy(num_drafts)


def _make_card(trace: CommandTrace, plan: Plan) -> tuple[SymbolicPayload, _Follower]:
    description = describe_twin(
        arena_bytes=trace.sizes.arena_bytes,
        segment_bytes=trace.sizes.segment_bytes,
        pack_bytes=plan.pack.size_bytes,
        pageable_pack_bytes=plan.pack.pageable_bytes,
        staging_bytes=plan.staging.size_bytes,
        behind_bytes=plan.behind_bytes,
        parked_bytes=trace.sizes.parked_bytes,
    )
    known = {value for name, value in vars(programs).items() if name.isupper() and isinstance(value, str)}
    bodies = dict.fromkeys(known | program_names(trace), lambda memory, args: None)
    payload = SymbolicPayload(description)
    device = SimDevice(description, bodies, payload, manifest=plan_places(plan).manifest())
    device.seal()
    reads = {(program, layer): tuple(names) for program, layer, names in trace.serving["dense_reads"]}
    terminators = tuple(trace.serving.get("terminators", ()))
    # Without bytes every digest is 0, of the card and of the pack.
    heat = tuple(trace.serving.get("heat", ()))
    runner = _Follower(device, Recipe(plan, reads), terminators, pause=_pause, digest=lambda data: 0, heat=heat)
    runner.start()
    return payload, runner


def _pause() -> None:
    raise Stalled("the core waits for a notice that nobody will give")
