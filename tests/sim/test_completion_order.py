"""Commands that are over later than they are submitted, in drawn orders, over real bytes: what the clocks call right
reads the same in every order, and where an order makes a read wrong the clocks have said so.
"""

from collections.abc import Callable
from random import Random
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.device import SimDevice, describe_twin
from sim.errors import OrderError, TwinError
from sim.queues import Queues
from sim.streams import Clocks
from sim.world.plain_bytes import POISON, PlainBytes
from strata.core.commands import Access, Copy, CopyPair, Fill, Launch, Map, Notify, Record, Stream, Transfer, Wait
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import Memory

ARENA, SEGMENT, STAGING = 32, 8, 16
STREAMS = (Stream.PROMPT, Stream.COPY, Stream.VERIFIER)
NUM_STEPS = 40


class ReportingClocks(Clocks):
    """Says what is out of order, and lets it happen."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []

    def check_read(self, *arguments: object) -> None:
        self._report(super().check_read, *arguments)

    def check_write(self, *arguments: object) -> None:
        self._report(super().check_write, *arguments)

    def _report(self, check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except OrderError as error:
            self.reports.append(str(error))


class Bytes:
    """A card whose programs keep what they read, by the number of their launch. `picks` says which stream goes on."""

    def __init__(self, queues: Queues | None, picks: Random, clocks: Clocks | None = None) -> None:
        description = describe_twin(arena_bytes=ARENA, segment_bytes=SEGMENT, pack_bytes=0, staging_bytes=STAGING)
        self.seen: dict[int, bytes] = {}
        self.queues, self.picks = queues, picks
        self.payload = PlainBytes(description)
        self.card = SimDevice(description, {"work": self.work}, self.payload, queues=queues)
        if clocks is not None:
            self.card._shadow.clocks = clocks
        self.card.submit([Map(at, Extent(at * SEGMENT, SEGMENT)) for at in range(ARENA // SEGMENT)])
        self.card.submit([Transfer(Extent(0, ARENA), "", "a"), Fill(Stream.PROMPT, Access(Extent(0, ARENA), "a"), 1)])
        self.card.host(HostExtent(HostSpace.STAGING, 0, STAGING))[:] = bytes(range(STAGING))
        self.take(Stream.PROMPT)

    def work(self, memory: Memory, args: tuple[int, Extent, Extent]) -> None:
        number, source, target = args
        self.seen[number] = bytes(memory.read(source))
        out = memory.write(target)
        out[:] = (crc32(self.seen[number]) + number).to_bytes(8, "little")[: len(out)]

    def take(self, step: object) -> str:
        """One step of a drawn run; the class of its refusal, or ""."""
        try:
            match step:
                case Stream():
                    self.wait_for(step)
                case (int(number), HostExtent() as extent):
                    self.seen[number] = bytes(self.card.host(extent))
                    self.card.host(extent)[:] = (number % 251).to_bytes(1, "little") * extent.size_bytes
                case tuple():
                    self.card.submit(step)
                case _:
                    self.card.submit([step])
        except TwinError as error:
            return type(error).__name__
        return ""

    def wait_for(self, stream: Stream) -> None:
        self.card.submit([Notify(stream, "here")])
        while Reached("here") not in self.card.completions():
            self.go_on()

    def go_on(self) -> None:
        assert self.queues is not None
        self.queues.run(self.picks.choice(self.queues.streams()))

    def finish(self) -> tuple[dict[int, bytes], bytes, bytes]:
        """All that was read, and what lies on the card and in staging when everything is over."""
        while self.queues:
            self.go_on()
        staging = self.payload.host(HostExtent(HostSpace.STAGING, 0, STAGING))
        return self.seen, bytes(self.payload.arena(Extent(0, ARENA))), bytes(staging)


def draw(random: Random) -> list[object]:
    return [_step(random, number) for number in range(NUM_STEPS)]


def _step(random: Random, number: int) -> object:
    stream, event = random.choice(STREAMS), random.choice("pq")
    extent, other = _extent(random), _extent(random)
    host = HostExtent(HostSpace.STAGING, random.randrange(STAGING - 4), extent.size_bytes)
    kind = random.choice(("fill", "in", "out", "work", "work", "work", "record", "wait", "host", "know", "pass on"))
    match kind:
        case "fill":
            return Fill(stream, Access(extent, "a"), number)
        case "in":
            return Copy(stream, (CopyPair(host, Access(extent, "a")),))
        case "out":
            return Copy(stream, (CopyPair(Access(extent, "a"), host),))
        case "work":
            args = (number, extent, other)
            return Launch(stream, "work", args, (Access(extent, "a"),), (Access(other, "a"),))
        case "record":
            return (Record(stream, event),)
        case "wait":
            return Wait(stream, event)
        case "host":
            return (number, host)
        case "know":
            return stream
    in_place = random.random() < 0.5
    return (Transfer(extent, "a", "b", in_place), Transfer(extent, "b", "a", in_place))


def _extent(random: Random) -> Extent:
    return Extent(random.randrange(ARENA - 4), random.randint(1, 4))


@pytest.mark.slow
@settings(max_examples=120)
@given(drawn=st.integers(0, 1 << 32), picks=st.integers(0, 1 << 32))
def test_what_the_clocks_accept_reads_the_same_in_every_order(drawn: int, picks: int) -> None:
    """The contrapositive of the other test, with the twin's refusals as they are: a refused command does not happen."""
    at_once, later = Bytes(None, Random(0)), Bytes(Queues(), Random(picks))
    for step in draw(Random(drawn)):
        assert at_once.take(step) == later.take(step)
    assert at_once.finish() == later.finish()


@pytest.mark.slow
def test_a_read_that_an_order_makes_wrong_was_reported() -> None:
    """Nothing is kept from happening here but what has nothing to do with order."""
    num_wrong = num_reported = num_clean = 0
    for seed in range(400):
        clocks = ReportingClocks()
        at_once, later = Bytes(None, Random(0), ReportingClocks()), Bytes(Queues(), Random(seed), clocks)
        for step in _with_waits(draw(Random(seed)), every=1 + seed % 4):
            assert at_once.take(step) == later.take(step)
        is_wrong = at_once.finish() != later.finish()
        assert not is_wrong or clocks.reports, seed
        num_wrong += is_wrong
        num_reported += bool(clocks.reports)
        num_clean += not clocks.reports
    assert num_wrong >= 50 and num_clean >= 5, (num_wrong, num_reported, num_clean)


def _with_waits(steps: list[object], *, every: int) -> list[object]:
    """The host waits for everything after each `every` steps, so that some runs have nothing out of order."""
    waits = list(STREAMS)
    return [each for at, step in enumerate(steps) for each in (step, *(waits if at % every == 0 else ()))]


def test_a_wait_is_for_what_its_event_stood_for() -> None:
    queues, done = Queues(), []
    queues.add(Stream.COPY, lambda: done.append("copy"))
    queues.record(Stream.COPY, "copied")
    queues.wait(Stream.PROMPT, "copied")
    queues.add(Stream.PROMPT, lambda: done.append("read"))
    queues.add(Stream.COPY, lambda: done.append("next copy"))
    queues.record(Stream.COPY, "copied")
    assert queues.streams() == [Stream.COPY] and queues.oldest() is Stream.COPY
    queues.run(Stream.COPY)
    assert queues.streams() == [Stream.COPY]
    queues.run(Stream.COPY)
    assert queues.streams() == [Stream.PROMPT, Stream.COPY]
    for _ in range(2):
        queues.run(Stream.PROMPT)
    assert done == ["copy", "read"] and len(queues) == 2 and queues.oldest() is Stream.COPY


def test_a_failure_is_told_when_its_stream_gets_there() -> None:
    made = Bytes(Queues(), Random(1))
    made.card._faults = lambda index, command: Failed("planned", command) if isinstance(command, Fill) else None
    command = Fill(Stream.COPY, Access(Extent(3, 2), "a"), 9)
    made.card.submit([Notify(Stream.COPY, "before"), command, Notify(Stream.COPY, "behind")])
    assert list(made.card.completions()) == []
    made.go_on()
    assert made.card.completions() == [Reached("before")]
    assert bytes(made.payload.arena(Extent(3, 2))) == b"\1\1"
    made.go_on()
    assert made.card.completions() == [Failed("planned", command)]
    assert bytes(made.payload.arena(Extent(2, 4))) == bytes((1, POISON, POISON, 1))
