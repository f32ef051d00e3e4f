"""In which order the streams of a card go on while a trace is replayed. Pure: says whose turn it is, and holds nothing.

    given             every command as soon as it is submitted, so in the order of the trace
    copy late         the copy stream goes on only where something waits for it; the others as soon as they can
    all late          so does every stream

What a stream may be made to wait for is what the trace itself orders: an event that another stream waits for, a notice
that the host was told of next. So a trace without a race leaves the same bytes in each of these orders, and a wait that
is missing lets somebody read too early in one where the writer is late, or write too early in one where the reader is.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from strata.core.commands import Command, Notify, Record, Stream, Wait

MAX_HELD = 24
"""Commands that are held at once: a card's own queues are finite (about a thousand entries), whoever submits to a full
one waits, and a group of 16 copies may be 40 entries. Beyond it the oldest goes on, which is a legal order too."""

Late = frozenset[Stream]
"""Streams that go on only where something waits for them."""

ORDERS: dict[str, Late] = {
    "given": frozenset(),
    "all late": frozenset(Stream),
    **{f"{stream} late": frozenset({stream}) for stream in Stream},
}


def orders_for(used: frozenset[Stream]) -> dict[str, Late]:
    """Those that may differ for a trace which uses these streams, and never less than two: what nobody may read differs
    from one to the next."""
    if len(used) > 1:
        return {name: late for name, late in ORDERS.items() if late <= used or late == frozenset(Stream)}
    return {name: ORDERS[name] for name in ("given", "all late")}


@dataclass(slots=True, eq=False)
class _Step:
    index: int
    stream: Stream
    command: Command | None
    after: "_Step | None"
    is_over: bool = False


class Order:
    """Whoever submits a command asks `add` for the streams whose next command is let go on then, one after the other;
    each is over before the next one begins."""

    def __init__(self, late: Late) -> None:
        self._late = late
        self._queues: dict[Stream, deque[_Step]] = {stream: deque() for stream in Stream}
        self._records: dict[str, _Step] = {}
        self._notices: dict[str, _Step] = {}
        self._num_steps = 0

    def add(self, stream: Stream, command: Command | None) -> Iterator[Stream]:
        """`command` was submitted; None: something that takes a turn and does nothing."""
        after = self._records[command.event] if isinstance(command, Wait) else None
        step = _Step(self._num_steps, stream, command, after)
        self._num_steps += 1
        self._queues[stream].append(step)
        if isinstance(command, Record):
            self._records[command.event] = step
        elif isinstance(command, Notify):
            self._notices[command.tag] = step
        yield from self._eager()
        while self._num_held() > MAX_HELD:
            yield from self._need(min((queue[0] for queue in self._queues.values() if queue), key=lambda s: s.index))

    def learn(self, tag: str) -> Iterator[Stream]:
        """The host is about to be told of this notice, so everything before it goes on; nothing for an unknown one."""
        if tag in self._notices:
            yield from self._need(self._notices[tag])

    def rest(self) -> Iterator[Stream]:
        """Everything that is held, stream after stream."""
        for queue in self._queues.values():
            if queue:
                yield from self._need(queue[-1])

    def held(self) -> Iterator[Command]:
        """Commands that were submitted and may not go on yet."""
        for queue in self._queues.values():
            yield from (step.command for step in queue if step.command is not None)

    def is_over(self, tag: str) -> bool:
        return tag in self._notices and self._notices[tag].is_over

    def _eager(self) -> Iterator[Stream]:
        """Streams that are not late, as far as they get, whichever of them was submitted to first."""
        while True:
            heads = [queue[0] for stream, queue in self._queues.items() if queue and stream not in self._late]
            ready = [step for step in heads if step.after is None or step.after.is_over]
            if not ready:
                return
            yield self._go(min(ready, key=lambda step: step.index))

    def _need(self, step: _Step) -> Iterator[Stream]:
        """All of the stream up to `step`, and before a wait what it waits for. A wait names an event that was recorded
        before it was submitted, so this ends."""
        queue = self._queues[step.stream]
        while not step.is_over:
            head = queue[0]
            if head.after is not None and not head.after.is_over:
                yield from self._need(head.after)
                continue  # this stream may have gone on meanwhile
            yield self._go(head)
            yield from self._eager()

    def _go(self, step: _Step) -> Stream:
        first = self._queues[step.stream].popleft()
        assert first is step, "a stream goes on in its order"
        step.is_over = True
        return step.stream

    def _num_held(self) -> int:
        return sum(map(len, self._queues.values()))
