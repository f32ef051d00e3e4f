"""What a campaign wants to have seen in worlds of several stages. Judges nothing."""

from collections import Counter

from sim.world.staged.watch import Borders
from strata.core.serving.pipeline import Pipelined
from strata.core.serving.states import Reading, ShortReading, Windowing


def note_stages(notes: Counter[str], state: Pipelined, borders: Borders) -> None:
    passes = [each.at.num_passes for each in state.stages]
    notes["staged: two passes in flight"] += max(passes) - min(passes) > 1
    notes["staged: chunks of two stages at once"] += sum(isinstance(each, Reading) for each in state.stages) > 1
    notes["staged: windows read on two stages at once"] += sum(
        isinstance(each, ShortReading) for each in state.stages
    ) > 1 and max(passes) > min(passes)
    notes["staged: window beside a read"] += isinstance(state.stages[0], Windowing) and any(
        isinstance(each, Reading) for each in state.stages
    )
    notes["staged: rows wait at a border"] += borders.num_full > 0
