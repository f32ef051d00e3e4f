"""Commands of decode windows: what a request's first one is given, and drafts and window of a round.

    first round     inputs -> window 1
    later rounds    commit r, wait window_done -> draft r -> draft_done -> window T      r rows of the last window stand
    no drafter      commit r, drafts that the host gives -> window of as many rows more
    least probability       ... -> draft r -> the host looks -> window of as many rows as drafts are worth, and one

A window is one launch, whatever its rows, unless it must stage blobs (`staging.py`); so are the drafts of a drafter
behind it.
"""

from strata.core.commands import Access, Command, Copy, CopyPair, Fill, GraphLaunch, Record, Stream, Wait
from strata.core.memory.planner import Plan
from strata.core.serving.drafting import draft_graph
from strata.core.serving.inputs import copy_to_verifier, pack_header, sampler_inputs, token_rows
from strata.core.serving.launches import Recipe, window_launches
from strata.core.serving.recurrent_state import clear_state
from strata.core.serving.request import GenerationRequest
from strata.core.serving.steps import Orders, Upload


def window_graph(rows: int) -> str:
    return f"window {rows}"


def commit_graph(taken_rows: int) -> str:
    return f"commit {taken_rows}"


def most_drafts(plan: Plan, *, num_left: int) -> int:
    """Drafts that a window has rows for, of a reply that has `num_left` tokens to come."""
    return min(plan.options.window_rows, num_left) - 1


def next_rows(plan: Plan, *, position: int, num_left: int, num_given: int = 0) -> int:
    """Rows of a window behind the first, whose first row is at `position`, of a reply that has `num_left` tokens to
    come: with `num_given` drafts of the host, or with those of the drafter. That one always drafts for a whole window,
    and its last step writes the cell of two positions before that of the last row: it stays off where the context ends
    before."""
    most = most_drafts(plan, num_left=num_left)
    if plan.draft is None:
        assert num_given <= most, (num_given, num_left, most)
        return 1 + num_given
    has_cells = position + plan.options.window_rows - 3 < plan.options.context_tokens
    return 1 + most if has_cells else 1


def first_inputs(plan: Plan, request: GenerationRequest) -> Orders:
    """Sampler inputs go up here and not when the request begins: a read that is given up then leaves no copy behind
    that nobody waited for, while the next request writes its staging."""
    staging, buffers, position = plan.staging, plan.verifier.buffers, len(request.prompt_ids) - 1
    upload, way = token_rows(staging.window_tokens, buffers.tokens, request.prompt_ids[-1:])
    uploads, commands = sampler_inputs(plan, request)
    uploads += (Upload(staging.window_header, pack_header(position)), upload)
    commands += clear_state(plan, Stream.VERIFIER) if position == 0 else ()
    commands += (copy_to_verifier((staging.window_header, buffers.header), way),)
    return Orders(uploads, commands)


def window(recipe: Recipe, *, rows: int, table_version: int, is_counted: bool) -> Orders:
    """A window of `rows` rows, and its result on the way to the host. `is_counted`: with the reads of blobs since they
    came last; the card counts from 0 again."""
    plan = recipe.plan
    usage = Access(plan.verifier.window.usage, "verifier")
    counts = (CopyPair(usage, plan.staging.usage),) if is_counted else ()
    launched: tuple[Command, ...] = (GraphLaunch(Stream.VERIFIER, window_graph(rows), table_version),)
    if plan.staged:
        launched = window_launches(recipe, rows=rows, table_version=table_version)
    cleared = (Fill(Stream.VERIFIER, usage, 0),) if is_counted else ()
    done = (Record(Stream.VERIFIER, "window_done"),) if plan.draft else ()
    return Orders((), (*launched, _copy_result(plan, Stream.VERIFIER, *counts), *cleared, *done))


def commit(plan: Plan, *, rows: int, taken_rows: int, table_version: int) -> Orders:
    """What cannot be rewound follows the first `taken_rows` of a window of `rows`. One row has moved it already."""
    if rows == 1 or not any(journal.size_bytes for journal in plan.verifier.journals):
        return Orders()
    return Orders((), (GraphLaunch(Stream.VERIFIER, commit_graph(taken_rows), table_version),))


def drafts(plan: Plan, given: tuple[int, ...], *, standing_rows: int, table_version: int) -> Orders:
    """Drafts behind a window of which `standing_rows` stand: those `given`, or the drafter's; its block is at home."""
    if plan.draft is None:
        upload, way = token_rows(plan.staging.window_tokens, plan.verifier.buffers.tokens, given, first_row=1)
        return Orders((upload,), (copy_to_verifier(way),))
    begin, end = Wait(Stream.DRAFTER, "window_done"), Wait(Stream.VERIFIER, "draft_done")
    graph = GraphLaunch(Stream.DRAFTER, draft_graph(standing_rows), table_version)
    looked_at = (_copy_result(plan, Stream.DRAFTER),) if plan.options.least_probability else ()
    return Orders((), (begin, graph, *looked_at, Record(Stream.DRAFTER, "draft_done"), end))


def _copy_result(plan: Plan, stream: Stream, *more: CopyPair) -> Copy:
    return Copy(stream, (CopyPair(Access(plan.verifier.window.result, "verifier"), plan.staging.result), *more))
