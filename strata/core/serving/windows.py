"""Commands of decode windows: what a request's first one is given, and drafts and window of a round.

    first round     inputs -> window 1
    later rounds    commit r, wait window_done -> draft r -> draft_done -> window T      r rows of the last window stand

Without a drafter every window has one row. A window is one launch, whatever its rows; so are the drafts behind it.
"""

import struct

from strata.core.commands import Access, Command, Copy, CopyPair, Fill, GraphLaunch, Record, Stream, Wait
from strata.core.memory.layout import INT32_BYTES
from strata.core.memory.planner import Plan
from strata.core.serving.drafting import draft_graph
from strata.core.serving.inputs import copy_to_verifier, pack_header, sampler_inputs
from strata.core.serving.recurrent_state import clear_state
from strata.core.serving.request import GenerationRequest
from strata.core.serving.steps import Orders, Upload


def window_graph(rows: int) -> str:
    return f"window {rows}"


def commit_graph(taken_rows: int) -> str:
    return f"commit {taken_rows}"


def graph_rows(plan: Plan) -> range:
    """How many rows a window may have."""
    return range(1, 1 + (plan.options.window_rows if plan.draft else 1))


def next_rows(plan: Plan, *, position: int, num_left: int) -> int:
    """Rows of a window behind the first, whose first row is at `position`, of a reply that has `num_left` tokens to
    come. The drafter always drafts for a whole window, and its last step writes the cell of two positions before that
    of the last row: it stays off where the context ends before."""
    most = graph_rows(plan)[-1]
    has_cells = position + most - 3 < plan.options.context_tokens
    return min(num_left, most) if has_cells else 1


def first_inputs(plan: Plan, request: GenerationRequest) -> Orders:
    """Sampler inputs go up here and not when the request begins: a read that is given up then leaves no copy behind
    that nobody waited for, while the next request writes its staging."""
    staging, verifier, position = plan.staging, plan.verifier, len(request.prompt_ids) - 1
    token = staging.window_tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
    uploads, commands = sampler_inputs(plan, request)
    uploads += (
        Upload(staging.window_header, pack_header(position)),
        Upload(token, struct.pack("<i", request.prompt_ids[-1])),
    )
    target = verifier.buffers.tokens.part(offset_bytes=0, size_bytes=INT32_BYTES)
    commands += clear_state(plan, Stream.VERIFIER) if position == 0 else ()
    commands += (copy_to_verifier((staging.window_header, verifier.buffers.header), (token, target)),)
    return Orders(uploads, commands)


def window(plan: Plan, *, rows: int, table_version: int, is_counted: bool) -> Orders:
    """A window of `rows` rows, and its result on the way to the host. `is_counted`: with the reads of blobs since they
    came last; the card counts from 0 again."""
    result, usage = (Access(extent, "verifier") for extent in (plan.verifier.window.result, plan.verifier.window.usage))
    counts = (CopyPair(usage, plan.staging.usage),) if is_counted else ()
    commands: tuple[Command, ...] = (
        GraphLaunch(Stream.VERIFIER, window_graph(rows), table_version),
        Copy(Stream.VERIFIER, (CopyPair(result, plan.staging.result), *counts)),
        *((Fill(Stream.VERIFIER, usage, 0),) if is_counted else ()),
    )
    done = (Record(Stream.VERIFIER, "window_done"),) if plan.draft else ()
    return Orders((), (*commands, *done))


def commit(plan: Plan, *, rows: int, taken_rows: int, table_version: int) -> Orders:
    """What cannot be rewound follows the first `taken_rows` of a window of `rows`. One row has moved it already."""
    if rows == 1 or not any(journal.size_bytes for journal in plan.verifier.journals):
        return Orders()
    return Orders((), (GraphLaunch(Stream.VERIFIER, commit_graph(taken_rows), table_version),))


def drafts(*, standing_rows: int, table_version: int) -> Orders:
    """Drafts behind a window of which `standing_rows` rows stand; the block is at home."""
    return Orders(
        (),
        (
            Wait(Stream.DRAFTER, "window_done"),
            GraphLaunch(Stream.DRAFTER, draft_graph(standing_rows), table_version),
            Record(Stream.DRAFTER, "draft_done"),
            Wait(Stream.VERIFIER, "draft_done"),
        ),
    )
