"""What streams still have to do, for a twin whose commands are over later than they are submitted.

    prompt     launch #4 | record #5 | launch #9            each stream in turn; a wait stands at the head of its
    copy       wait #6 (on #5) | copy #7 | notify #8        stream until the record that it names has been passed

Whoever owns the queues says which stream goes on next: any choice among `streams()` is an order that a card may take.
Knows nothing of what the entries do, and judges nothing: whether an order may matter is the clocks' question.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from strata.core.commands import Stream


@dataclass(slots=True, eq=False)
class Entry:
    """`index` counts entries in the order of submission; `after` must be over before this one can be."""

    index: int
    effect: Callable[[], None] | None
    after: "Entry | None" = None
    is_over: bool = False


class Queues:
    """One queue a stream, first in first out."""

    def __init__(self) -> None:
        self._queues: dict[Stream, deque[Entry]] = {stream: deque() for stream in Stream}
        self._records: dict[str, Entry] = {}
        self._num_entries = self._num_over = 0

    def __len__(self) -> int:
        """How many entries are not over."""
        return self._num_entries - self._num_over

    def add(self, stream: Stream, effect: Callable[[], None]) -> None:
        self._put(stream, effect)

    def record(self, stream: Stream, event: str) -> None:
        self._records[event] = self._put(stream, None)

    def wait(self, stream: Stream, event: str) -> None:
        """For what `event` stands for now, whatever is recorded under that name later."""
        self._put(stream, None, self._records[event])

    def streams(self) -> list[Stream]:
        """Those that can go on, in the order of their names' definition."""
        return [stream for stream, queue in self._queues.items() if queue and _can_go(queue[0])]

    def oldest(self) -> Stream:
        """The stream that goes on in the order of submission. There must be an entry."""
        return min(self.streams(), key=lambda stream: self._queues[stream][0].index)

    def run(self, stream: Stream) -> None:
        """The first entry of `stream` is over now; what its effect raises is raised."""
        queue = self._queues[stream]
        assert queue and _can_go(queue[0]), stream
        entry = queue.popleft()
        entry.is_over = True
        self._num_over += 1
        if entry.effect is not None:
            entry.effect()

    def _put(self, stream: Stream, effect: Callable[[], None] | None, after: Entry | None = None) -> Entry:
        entry = Entry(self._num_entries, effect, after)
        self._num_entries += 1
        self._queues[stream].append(entry)
        return entry


def _can_go(entry: Entry) -> bool:
    return entry.after is None or entry.after.is_over
