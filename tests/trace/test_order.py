"""The order in which streams are let go on is legal, ends, and is another one where streams are late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Access, Command, Fill, Notify, Record, Stream, Wait
from strata.core.extent import Extent
from strata.trace.order import MAX_HELD, ORDERS, Order, orders_for

PROMPT, COPY, VERIFIER = Stream.PROMPT, Stream.COPY, Stream.VERIFIER


def work(stream: Stream) -> Fill:
    return Fill(stream, Access(Extent(0, 1), "owner"), 1)


class Card:
    """Does what it is let do, and refuses what no card could do in this order."""

    def __init__(self, order: str) -> None:
        self.order = Order(ORDERS[order])
        self.submitted: dict[Stream, list[Command]] = {stream: [] for stream in Stream}
        self.records: dict[str, Command] = {}
        self.waits: dict[int, Command] = {}
        self.done: list[Command] = []

    def submit(self, command: Command) -> None:
        stream = command.stream  # type: ignore[union-attr]
        if isinstance(command, Wait):
            self.waits[id(command)] = self.records[command.event]
        if isinstance(command, Record):
            self.records[command.event] = command
        self.submitted[stream].append(command)
        self.go(self.order.add(stream, command))

    def go(self, streams) -> None:  # type: ignore[no-untyped-def]
        for stream in streams:
            command = self.submitted[stream].pop(0)
            awaited = self.waits.get(id(command))
            assert awaited is None or any(awaited is each for each in self.done), f"{command} runs before {awaited}"
            self.done.append(command)

    def left(self) -> int:
        return sum(map(len, self.submitted.values()))


@st.composite
def programs(draw: st.DrawFn) -> list[Command]:
    commands: list[Command] = []
    events: list[str] = []
    for number in range(draw(st.integers(0, 40))):
        stream = draw(st.sampled_from(Stream))
        kinds = ["work", "record", "notify", *(["wait"] if events else [])]
        match draw(st.sampled_from(kinds)):
            case "work":
                commands.append(work(stream))
            case "record":
                commands.append(Record(stream, draw(st.sampled_from("abc"))))
                events.append(commands[-1].event)  # type: ignore[union-attr]
            case "wait":
                commands.append(Wait(stream, draw(st.sampled_from(events))))
            case _:
                commands.append(Notify(stream, f"tag {number}"))
    return commands


@given(programs(), st.sampled_from(sorted(ORDERS)))
def test_any_order_is_one_that_a_card_may_take_and_ends(commands: list[Command], name: str) -> None:
    card = Card(name)
    for command in commands:
        card.submit(command)
    for command in commands:
        if isinstance(command, Notify):
            card.go(card.order.learn(command.tag))
            assert card.order.is_over(command.tag) and any(command is done for done in card.done)
    card.go(card.order.rest())
    assert card.left() == 0 and len(card.done) == len(commands)
    assert list(card.order.held()) == []


@given(programs())
def test_the_given_order_is_that_of_the_trace(commands: list[Command]) -> None:
    card = Card("given")
    for command in commands:
        card.submit(command)
    assert all(a is b for a, b in zip(card.done, commands, strict=True))


def test_a_late_stream_goes_on_only_where_something_waits_for_it() -> None:
    card = Card("copy late")
    copied, used = work(COPY), work(PROMPT)
    card.submit(copied)
    card.submit(used)  # nothing says that it comes after the copy
    assert card.done == [used]
    assert list(card.order.held()) == [copied]
    for command in (Record(COPY, "copied"), Wait(PROMPT, "copied")):
        card.submit(command)
    assert [type(done) for done in card.done] == [Fill]  # the wait itself is no reason until the host asks
    after = work(PROMPT)
    for command in (after, Notify(PROMPT, "read")):
        card.submit(command)
    card.go(card.order.learn("read"))
    assert [type(done) for done in card.done] == [Fill, Fill, Record, Wait, Fill, Notify]
    assert card.done[1] is copied and card.done[4] is after


def test_a_notice_does_not_move_streams_that_nothing_ties_to_it() -> None:
    card = Card("all late")
    for command in (work(COPY), Notify(VERIFIER, "window")):
        card.submit(command)
    card.go(card.order.learn("window"))
    assert [type(done) for done in card.done] == [Notify]
    card.go(card.order.learn("never submitted"))
    assert len(card.done) == 1


def test_no_more_is_held_than_a_card_can_queue() -> None:
    card = Card("all late")
    first = work(COPY)
    card.submit(first)
    for _ in range(MAX_HELD + 5):
        card.submit(work(PROMPT))
    assert card.left() == MAX_HELD and card.done[0] is first


@pytest.mark.parametrize(
    ("used", "names"),
    [
        ((), ["given", "all late"]),
        ((PROMPT,), ["given", "all late"]),
        ((PROMPT, COPY), ["given", "all late", "prompt late", "copy late"]),
        (tuple(Stream), list(ORDERS)),
    ],
)
def test_only_orders_that_differ_are_played(used: tuple[Stream, ...], names: list[str]) -> None:
    assert list(orders_for(frozenset(used))) == names
