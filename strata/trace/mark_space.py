"""How much a watched replay of a trace may note: counted before it, since a card cannot be given memory meanwhile."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from strata.core.commands import Copy, Digest, GraphLaunch, Launch, TableRead
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Captured, Refused
from strata.trace.looks import lane_of_graph

HEADER_WORDS = 2
SPAN_WORDS = 2


@dataclass(frozen=True, slots=True)
class MarkSpace:
    """`row_words`: numbers that say what launches and looks read and write, two for each and two for each extent.
    `marks`: by lane. Never too few of either."""

    row_words: int
    marks: Mapping[str, int]


def mark_space_of(trace: CommandTrace) -> MarkSpace:
    asked = [entry.asked if isinstance(entry, Refused) else entry for entry in trace.entries]
    most_entries = max((len(e.publishes.entries) for e in asked if isinstance(e, Copy) and e.publishes), default=0)
    marks: Counter[str] = Counter()
    nodes: dict[str, int] = {}
    words = 0
    for each in asked:
        match each:
            case Launch():
                marks[each.stream] += 2
                words += _row(len(each.reads) + len(each.writes)) + _row(_num_tables(each) * most_entries)
            case GraphLaunch():
                marks[each.stream] += 1
                marks[lane_of_graph(each.graph)] += nodes.get(each.graph, 0)
                words += _row(most_entries)
            case Copy():
                marks[each.stream] += 2
                words += 2 * _row(len(each.pairs) + most_entries)
            case Digest():
                marks[each.stream] += 1
                words += _row(1)
            case Captured(name, launches):
                nodes[name] = max(len(launches), nodes.get(name, 0))
                words += sum(_row(len(launch.reads) + len(launch.writes)) for launch in launches)
                marks[lane_of_graph(name)] += 0
            case _:
                pass
    return MarkSpace(words, dict(marks))


def _row(num_extents: int) -> int:
    return HEADER_WORDS + SPAN_WORDS * num_extents


def _num_tables(launch: Launch) -> int:
    return sum(isinstance(read, TableRead) for read in launch.reads)
