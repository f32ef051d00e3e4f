"""What happens to the state of recurrent layers beside being moved on by a pass: it is cleared, and it follows those
rows of a window that were accepted.

    before position 0      clear_state                         state(0)
    window of several rows, journaled  ->  commit k rows       state(p) -> state(p + k)

A window that fails, or that nobody accepts a row of, leaves the state where it was.
"""

from strata.core import programs
from strata.core.commands import Access, Fill, Launch, Stream
from strata.core.memory.planner import Plan
from strata.core.programs import CommitArgs
from strata.core.serving.launches import Recipe, window_lane


def clear_state(plan: Plan, stream: Stream) -> tuple[Fill, ...]:
    """Recurrent layers as they are before the first token of a conversation."""
    return tuple(Fill(stream, Access(layer, "state"), 0) for layer in plan.state if layer.size_bytes)


def commit_launches(recipe: Recipe, *, rows: int) -> tuple[Launch, ...]:
    """The first `rows` rows of a window of several were accepted: every recurrent layer moves on by them. Nothing is
    launched where no layer is recurrent: cells of rows that were taken back are written anew."""
    plan, verifier, lane = recipe.plan, recipe.plan.verifier, window_lane(recipe.plan)
    assert 1 <= rows <= verifier.max_rows, (rows, verifier.max_rows)
    launches = []
    layers = plan.state[: plan.inventory.num_layers]
    for layer, (extent, journal) in enumerate(zip(layers, verifier.journals, strict=True)):
        if journal.size_bytes:
            state = Access(extent, "state")
            args = CommitArgs(layer, rows, verifier.max_rows, extent, journal)
            launches.append(Launch(lane.stream, programs.COMMIT, args, (lane.whole(journal), state), (state,)))
    return tuple(launches)
