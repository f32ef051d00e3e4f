"""Draws worlds from a seed: sites, clients, failures, signals. Nothing here judges."""

from dataclasses import replace
from random import Random

from sim.world.geometry import Delivery, Geometry
from sim.world.server.asks import Ask, Turn, right_reply
from sim.world.server.caller import AT_ONCE, Pace
from sim.world.server.odd import PADDED, odd_requests
from sim.world.server.site import SiteOptions
from sim.world.server.text import LETTERS
from sim.world.server.visits import Act, Call, Failure, Framing, Look, Manner, Pipeline, Try, Visit
from sim.world.server.world import WorldPlan
from strata.server.ports import ServerLimits

SEGMENT_BYTES = 1 << 14
PAGES = ("/health", "/ready", "/metrics", "/v1/models", "/v1/models/world")
MANNERS = (Manner.STAY,) * 6 + tuple(Manner)
RARELY = 0.15
MAX_BODY_BYTES = 16 * 1024
"""More than any good request has."""
WATCHER = Visit(0.0, (Look("/ready"),) * 8, think_s=9.0)


def draw_world(seed: int) -> WorldPlan:
    rng = Random(f"{seed} world")
    options = _options(rng)
    num_visits = rng.choice((1, 3, 6, 10, 16))
    span_s = rng.choice((0.0, 0.5, 3.0, 20.0))
    visitor = _Visitors(rng, options)
    visits = tuple(visitor.draw(rng.uniform(0.0, span_s)) for _ in range(num_visits))
    if options.limits.max_total_body_bytes == MAX_BODY_BYTES and rng.random() < 0.5:
        visits += tuple(visitor.heavy(rng.uniform(0.0, span_s)) for _ in range(2))
    if options.slow_step_s > options.limits.progress_deadline_s:
        visits += (WATCHER,)
    failures: tuple[Failure, ...] = ()
    if rng.random() < 0.35:
        failures = _burst(rng, span_s) if rng.random() < RARELY else _failures(rng, span_s)
    signals_s: tuple[float, ...] = ()
    if rng.random() < 0.4:
        first = rng.uniform(0.0, span_s + 2.0)
        signals_s = (first, first + rng.uniform(0.0, 5.0)) if rng.random() < 0.3 else (first,)
    start_failure = rng.randrange(30) if rng.random() < 0.02 else None
    return WorldPlan(str(seed), options, visits, failures, start_failure, signals_s)


def _failures(rng: Random, span_s: float) -> tuple[Failure, ...]:
    moments = [rng.uniform(0.0, span_s + 1.0) for _ in range(rng.choice((1, 1, 2, 4)))]
    return tuple(Failure(at_s, rng.choice((0, 1, 3, 8, 21, 55)), is_refused=rng.random() < 0.5) for at_s in moments)


def _burst(rng: Random, span_s: float) -> tuple[Failure, ...]:
    """So many in a row that no mending gets through: the device is lost."""
    at_s, first = rng.uniform(0.0, span_s + 1.0), rng.choice((0, 8, 21))
    return tuple(Failure(at_s, first + index, is_refused=True) for index in range(rng.choice((4, 12))))


def _options(rng: Random) -> SiteOptions:
    limits = ServerLimits(
        api_key="secret" if rng.random() < RARELY else None,
        max_connections=rng.choice((2, 5, 64, 64)),
        max_body_bytes=MAX_BODY_BYTES,
        max_total_body_bytes=rng.choice((MAX_BODY_BYTES, 1 << 26)),
        write_deadline_s=rng.choice((3.0, 30.0)),
        shutdown_grace_s=rng.choice((0.0, 1.0, 20.0)),
        keep_alive_comment_s=rng.choice((0.2, 5.0)),
        idle_connection_s=rng.choice((10.0, 75.0)),
        body_deadline_s=rng.choice((5.0, 60.0)),
    )
    return SiteOptions(
        replace(_geometry(rng), num_swaps=rng.choice((0, 2)), swap_windows=2),
        limits,
        max_queued=rng.choice((0, 1, 3, 16)),
        step_s=rng.choice(((0.0, 0.0), (0.0005, 0.02), (0.0005, 0.02), (0.01, 0.3))),
        text_s=rng.choice(((0.0, 0.0), (0.0, 0.02), (0.0, 1.0))),
        slow_step_s=rng.choice((0.0, 0.0, 2.0, 40.0)),
    )


def _geometry(rng: Random) -> Geometry:
    """One of three that lend: to short reads, to whole chunks of a long context, to nobody."""
    delivery = rng.choice(list(Delivery))
    kind = rng.randrange(3)
    if kind == 0:
        return Geometry(
            (4097, 0, 5003),
            num_experts=12,
            context_tokens=700,
            arena_bytes=1 << 17,
            segment_bytes=SEGMENT_BYTES,
            max_chunk_tokens=256,
            ring_slots=3,
            min_cache_slots=2,
            delivery=delivery,
        )
    if kind == 1:
        return Geometry(
            (3001, 4099),
            num_experts=17,
            context_tokens=2400,
            arena_bytes=16 * SEGMENT_BYTES,
            segment_bytes=SEGMENT_BYTES,
            chunk_tokens=1024,
            ring_slots=9,
            min_cache_slots=2,
            delivery=delivery,
        )
    return Geometry(
        (2053, 4096),
        num_experts=5,
        context_tokens=700,
        arena_bytes=8 * SEGMENT_BYTES,
        segment_bytes=SEGMENT_BYTES,
        max_chunk_tokens=256,
        delivery=delivery,
    )


class _Visitors:
    def __init__(self, rng: Random, options: SiteOptions) -> None:
        self._rng, self._options = rng, options
        self._odd = odd_requests(
            key=options.limits.api_key,
            max_body_bytes=options.limits.max_body_bytes,
            context_tokens=options.geometry.context_tokens,
        )
        # Clients talk about the same things, so that the session has a part of many prompts.
        self._topics = tuple(self._letters(rng.choice((40, 300, 600))) for _ in range(3))

    def draw(self, start_s: float) -> Visit:
        rng, limits = self._rng, self._options.limits
        is_talk = rng.random() < RARELY
        acts = self._talk() if is_talk else tuple(self._act() for _ in range(rng.choice((1, 1, 2, 3))))
        return Visit(
            start_s,
            acts,
            think_s=rng.choice((0.0, 0.1, 1.0, 1.0, limits.idle_connection_s)),
            capacity_bytes=rng.choice((512, 4096, 65536)),
            is_reset_lossy=rng.random() < 0.5,
        )

    def heavy(self, start_s: float) -> Visit:
        """A body that takes all the room there is for bodies, for a second or two."""
        padded = next(odd for odd in self._odd if odd.name == PADDED)
        return Visit(start_s, (Try(padded, sends=Pace(700, rest_s=0.05)),))

    def _talk(self) -> tuple[Act, ...]:
        """Each turn asks on behind the reply before it, which is known: so the session has nearly all of its prompt."""
        ask, calls = replace(self._ask(), prompt=(("user", self._letters(20)),), max_tokens=6, min_tokens=0), []
        for _ in range(3):
            calls.append(Call(ask))
            turns = (*ask.turns(), ("assistant", right_reply(ask, self._options.geometry).text), ("user", "and?"))
            ask = replace(ask, prompt=turns)
        return tuple(calls)

    def _act(self) -> Act:
        rng = self._rng
        luck = rng.random()
        if luck < 0.14:
            return Try(rng.choice(self._odd), sends=self._pace())
        if luck < 0.26:
            return Look(rng.choice(PAGES))
        if luck < 0.3:
            return Pipeline(rng.choice(PAGES), rng.choice(PAGES))
        limits = self._options.limits
        manner = rng.choice(MANNERS)
        can_pipeline = manner is not Manner.STALL and rng.random() < RARELY
        return Call(
            self._ask(),
            manner,
            after_s=rng.choice((0.0, 0.01, 0.1, 0.5, 2.0, limits.write_deadline_s + 1.0)),
            after_pieces=rng.choice((1, 2, 4)),
            is_reset=rng.random() < 0.5,
            sends=self._pace(),
            reads=self._pace(),
            framing=rng.choice((Framing.LENGTH, Framing.LENGTH, *Framing)),
            behind=rng.choice(PAGES) if can_pipeline else None,
        )

    def _pace(self) -> Pace:
        return AT_ONCE if self._rng.random() > RARELY else Pace(self._rng.choice((100, 700)), rest_s=0.05)

    def _ask(self) -> Ask:
        rng = self._rng
        is_stream = rng.random() < 0.6
        return Ask(
            self._prompt(),
            max_tokens=rng.choice((1, 2, 5, 12, 40)),
            is_stream=is_stream,
            is_usage_wanted=is_stream and rng.random() < 0.5,
            seed=rng.choice((None, 1, rng.randrange(2**63))),
            temperature=rng.choice((0.0, 0.7, 1.0)),
            top_k=rng.choice((0, 40)),
            min_tokens=rng.choice((0, 0, 1)),
            presence_penalty=rng.choice((0.0, 0.5)),
            bias=rng.choice(((), ((7, 1.5),), ((3, -2.0), (250, 100.0)))),
            stop=rng.choice(((), (), tuple(rng.sample(LETTERS, 4)), (self._letters(2), LETTERS[rng.randrange(99)]))),
        )

    def _prompt(self) -> tuple[Turn, ...] | str | tuple[int, ...]:
        rng = self._rng
        topic = rng.choice(self._topics)
        text = topic[: rng.choice((1, 30, 300, 600))] + self._letters(rng.choice((0, 3, 20)))
        kind = rng.randrange(4)
        if kind == 0:
            return text
        if kind == 1:
            return tuple(rng.randrange(len(LETTERS)) for _ in range(rng.choice((1, 2, 257))))
        if kind == 2 and self._options.geometry.context_tokens > 2000:
            return (("user", (topic * 4)[: rng.choice((1025, 1300))]), ("assistant", "ok"), ("user", text))
        return (("system", "be kind"), ("user", text))

    def _letters(self, number: int) -> str:
        return "".join(self._rng.choices(LETTERS, k=number))
