"""Hidden rows at the borders of a stage: how they come in ahead of its layers, and how they go out behind them.

    stage 0   embed, layers -> row buffer p mod 2        the host        row buffer -> layers, head   stage 1
              in its own staging             ---- passes them on ---->   in its own staging

A *pass* is one chunk or one window. It is over once the last stage has told so, and no more than two are under way
(`pipeline.py`), so the buffer of pass p is written again by pass p + 2 only, after its reader. Chunks and windows have
buffers of their own: what a prompt left is never seen by a window (`lending.md` 5, invariant 44). A model in one piece
has no borders, and nothing here happens.
"""

from dataclasses import replace

from strata.core.commands import Copy, CopyPair, Stream
from strata.core.extent import HostExtent
from strata.core.memory.planner import Plan
from strata.core.memory.staging import ROW_BUFFERS
from strata.core.serving.launches import Lane, window_lane
from strata.core.serving.standing import Standing
from strata.core.serving.steps import Orders

MAX_PASSES = 2
"""Under way at once, over all stages."""
TAKEN = 2
"""Behind the pair in which rows are handed over, the buffer in which they are taken in."""


def begin_pass(plan: Plan, before: Plan | None, at: Standing, lane: Lane, *, rows: int) -> tuple[Standing, Orders]:
    """`before`: the plan of the stage before, None for the first one."""
    if not plan.staging.window_rows.size_bytes:
        return at, Orders()
    at = replace(at, num_passes=at.num_passes + 1)
    if before is None:
        return at, Orders()
    source = _buffer(before, lane.stream, at.num_passes % MAX_PASSES, rows=rows)
    target = _buffer(plan, lane.stream, TAKEN, rows=rows)
    copy = Copy(lane.stream, (CopyPair(target, lane.rows_of(lane.buffers.hidden, rows)),))
    return at, Orders((), (copy,), handed=((source, target),))


def end_pass(plan: Plan, at: Standing, lane: Lane, *, rows: int) -> tuple[Copy, ...]:
    """Behind the layers of the pass that was begun last."""
    if plan.inventory.has_head:
        return ()
    target = _buffer(plan, lane.stream, at.num_passes % MAX_PASSES, rows=rows)
    return (Copy(lane.stream, (CopyPair(lane.rows_of(lane.buffers.hidden, rows), target),)),)


def pass_window(plan: Plan, before: Plan | None, at: Standing, given: Orders, *, rows: int) -> tuple[Standing, Orders]:
    """`given` launches a window of `rows` rows."""
    if not plan.staging.window_rows.size_bytes:
        return at, given
    assert not plan.staged, "windows of several stages stage nothing"
    lane = window_lane(plan)
    at, entry = begin_pass(plan, before, at, lane, rows=rows)
    return at, entry.then(given).then(Orders((), end_pass(plan, at, lane, rows=rows)))


def _buffer(plan: Plan, stream: Stream, index: int, *, rows: int) -> HostExtent:
    """Buffer `index` of ROW_BUFFERS of the stage, as far as `rows` rows go."""
    inventory, staging = plan.inventory, plan.staging
    whole = staging.chunk_rows if stream is Stream.PROMPT else staging.window_rows
    size_bytes = rows * inventory.hidden_size * inventory.activation_bytes
    return whole.part(offset_bytes=index * (whole.size_bytes // ROW_BUFFERS), size_bytes=size_bytes)
