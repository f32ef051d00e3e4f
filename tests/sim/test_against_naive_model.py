"""The twin against a model with one object a byte: the same verdict on every command, whatever came before.

Tiny geometry without common factors. A refused command must leave no mark, since both go on after it.
"""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.device import SimDevice, describe_twin
from sim.errors import TwinError
from sim.symbolic import SymbolicPayload
from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    TableRead,
    TableVersion,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.extent import Extent, HostExtent, HostSpace
from tests.sim.naive_card import NaiveCard
from tests.sim.player import NUM_SEGMENTS, PACK, PARKED, RANGE, SEGMENT, SIZES, STAGING, Player

OWNERS, NAMES = ("a", "b"), (None, "x", "y")
NUM_LONG_RUNS = 60

streams = st.sampled_from([Stream.PROMPT, Stream.COPY, Stream.VERIFIER])
lengths = st.integers(1, 6)
starts = st.integers(0, RANGE - 6)
extents = st.builds(Extent, starts, lengths)
segments = st.sampled_from([Extent(at, SEGMENT) for at in range(0, RANGE, SEGMENT)])
accesses = st.builds(Access, extents, st.sampled_from(("a", "a", "a", "b", "")), st.sampled_from(NAMES))
versions = st.integers(0, 4)
names = st.sampled_from(("p", "q"))


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    access = draw(accesses)
    space = draw(st.sampled_from(HostSpace))
    limit = SIZES[space] - access.extent.size_bytes
    host = HostExtent(space, draw(st.integers(0, limit)), access.extent.size_bytes)
    if space is not HostSpace.PACK and draw(st.booleans()):
        return Copy(draw(streams), (CopyPair(access, host),))
    publishes = None
    if draw(st.booleans()):
        publishes = TableVersion(draw(versions), tuple(draw(st.lists(accesses, max_size=3))))
    return Copy(draw(streams), (CopyPair(host, access),), publishes)


reads = st.lists(st.one_of(accesses, st.builds(TableRead, versions)), max_size=2).map(tuple)
writes = st.lists(accesses, max_size=2).map(tuple)
launches = st.builds(Launch, streams, st.just("work"), st.none(), reads, writes)
table_launches = st.builds(
    Launch, streams, st.just("work"), st.none(), st.tuples(st.builds(TableRead, versions)), writes
)
commands = st.one_of(
    st.builds(Fill, streams, accesses, st.just(0)),
    copies(),
    launches,
    table_launches,
    st.builds(Transfer, extents, st.sampled_from((*OWNERS, "")), st.sampled_from((*OWNERS, "")), st.booleans()),
    st.builds(Map, st.integers(0, NUM_SEGMENTS), segments),
    st.builds(Unmap, segments),
    st.builds(Record, streams, names),
    st.builds(Wait, streams, names),
    st.builds(Notify, streams, st.just("t")),
    st.builds(GraphLaunch, streams, names, versions),
)
host_extents = st.tuples(st.sampled_from((HostSpace.STAGING, HostSpace.PARKED)), st.integers(0, STAGING - 1)).flatmap(
    lambda at: st.integers(1, STAGING - at[1]).map(lambda size: HostExtent(*at, size))
)
steps = st.one_of(
    commands,
    commands,
    commands,
    st.just("completions"),
    host_extents,
    st.tuples(names, st.lists(launches, min_size=1, max_size=2).map(tuple)),
    st.just("quiesce"),
)


def take(card: SimDevice, step: object) -> str:
    """Hand the step to the twin; the kind of its refusal, or ""."""
    try:
        match step:
            case HostExtent():
                card.host(step)
            case (str(name), launched):
                card.capture(name, launched)
            case _:
                card.submit([step])
    except TwinError as error:
        return type(error).__name__
    return ""


def judge(naive: NaiveCard, step: object) -> set[str]:
    match step:
        case HostExtent():
            return naive.host(step)
        case (str(name), launched):
            return naive.capture(name, launched)
        case _:
            return naive.judge(step)


def expand(step: object) -> list:
    """`quiesce` is everything over and seen, so that runs get deep in spite of random order."""
    return [*(Notify(stream, "q") for stream in Stream), "completions"] if step == "quiesce" else [step]


@settings(max_examples=150)
@given(st.lists(steps, min_size=5, max_size=60))
def test_the_twin_refuses_exactly_what_breaks_a_rule(drawn: list) -> None:
    Pair().run(drawn)


class Pair:
    """The twin and the model side by side, booted: all but the last segment mapped, every address owned by "a"."""

    def __init__(self) -> None:
        description = describe_twin(
            arena_bytes=NUM_SEGMENTS * SEGMENT,
            segment_bytes=SEGMENT,
            pack_bytes=PACK,
            staging_bytes=STAGING,
            behind_bytes=RANGE - NUM_SEGMENTS * SEGMENT,
            parked_bytes=PARKED,
        )
        self.card = SimDevice(description, {"work": lambda memory, args: None}, SymbolicPayload(description))
        self.naive = NaiveCard(arena=RANGE, segment=SEGMENT, staging=STAGING, parked=PARKED, num_segments=NUM_SEGMENTS)
        self.verdicts: Counter[str] = Counter()
        self.card.seal()
        self.run([Map(index, Extent(index * SEGMENT, SEGMENT)) for index in range(NUM_SEGMENTS - 1)])
        self.run([Transfer(Extent(0, RANGE), "", "a"), HostExtent(HostSpace.STAGING, 0, STAGING)])

    def run(self, drawn: list) -> None:
        for step in (one for several in drawn for one in expand(several)):
            if step == "completions":
                self.card.completions()
                self.naive.completions()
                continue
            bad, refusal = judge(self.naive, step), take(self.card, step)
            assert refusal in (bad or {""}), (step, bad, refusal)
            self.verdicts[f"{kind_of(step)} {refusal or 'accepted'}"] += 1
        rows = [(row.offset_bytes + at, row.owner) for row in self.card.card_map() for at in range(row.size_bytes)]
        assert rows == [(at, byte.owner) for at, byte in enumerate(self.naive.arena)]


def kind_of(step: object) -> str:
    if isinstance(step, Launch) and any(isinstance(read, TableRead) for read in step.reads):
        return "Launch through a table"
    if isinstance(step, Transfer) and step.in_place:
        return "Transfer in place"
    return "capture" if isinstance(step, tuple) else type(step).__name__


VERDICTS = """
Fill accepted,OwnershipError,MappingError,OrderError
Copy accepted,OwnershipError,MappingError,OrderError,UndefinedRead,ContentMismatch,TableError
Launch accepted,OwnershipError,MappingError,OrderError,UndefinedRead,ContentMismatch
Launch through a table accepted,OwnershipError,MappingError,OrderError,UndefinedRead,ContentMismatch,TableError
GraphLaunch accepted,GraphError,OrderError,UndefinedRead,TableError
Transfer accepted,OwnershipError,OrderError
Transfer in place accepted,OwnershipError,OrderError
Map accepted,MappingError,OutOfMemory
Unmap accepted,MappingError,OrderError
Wait accepted,EventError
HostExtent accepted,OrderError
capture accepted,OwnershipError,MappingError
"""


@pytest.mark.slow
def test_long_runs_agree_and_reach_every_verdict() -> None:
    reached: Counter[str] = Counter()
    for seed in range(NUM_LONG_RUNS):
        pair = Pair()
        player = Player(seed, pair.naive)
        for _ in range(300):
            pair.run([player.step()])
        reached += pair.verdicts
    for line in VERDICTS.split("\n"):
        kind, _, verdicts = line.rpartition(" ")
        for verdict in filter(None, verdicts.split(",")):
            assert reached[f"{kind} {verdict}"] >= 5, (kind, verdict, reached)
