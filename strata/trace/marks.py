"""What two watched replays of a trace found, step by step.

A *mark* is one number of all that a launch or a look read (`digest.mix_digests`). Programs leave their marks in lanes,
in the order in which they ran; the one who played knows which line of the trace each of them comes from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """The `index`-th mark, counted from 0, that `line` of the trace left in `lane`."""

    line: int
    lane: str
    index: int


@dataclass(frozen=True, slots=True)
class Difference:
    """`found` is what the second replay has where the first one has `expected`; None: it has no such mark."""

    step: Step
    expected: int | None
    found: int | None


Marks = Mapping[Step, int]


def marks_by_step(lines: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]) -> dict[Step, int]:
    """`lines` of a replay and what its programs left in the same lanes. A lane may be short: what was refused did not
    run. A program that left more than it was launched for is a mistake of ours."""
    marks: dict[Step, int] = {}
    assert all(lane in lines for lane, left in found.items() if left), (found.keys(), lines.keys())
    for lane, lines_of_lane in lines.items():
        assert len(found.get(lane, ())) <= len(lines_of_lane), lane
        index, before = 0, -1
        for line, mark in zip(lines_of_lane, found.get(lane, ()), strict=False):
            index = index + 1 if line == before else 0
            before = line
            marks[Step(line, lane, index)] = mark
    return marks


def first_difference(expected: Marks, found: Marks, *, before_line: int | None = None) -> Difference | None:
    """The first step, in the order of the trace, that the replays do not agree on. `before_line`: where the first one
    ended, since it says nothing of what comes from there on."""
    for step in sorted(expected.keys() | found.keys()):
        if before_line is not None and step.line >= before_line:
            return None
        if found.get(step) != expected.get(step):
            return Difference(step, expected.get(step), found.get(step))
    return None
