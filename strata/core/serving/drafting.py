"""Launches of the drafter: its K/V for the tokens of a session, and one graph of drafts between two windows.

    prompt stream    ... last layer of a chunk | draft input, draft kv over (hidden row p, token p + 1)
    drafter stream   wait window_done | rows that the last window had, then one row a step | record draft_done

Cell p is made of the hidden row of token p and of token p + 1. So of a session of n tokens the drafter has n - 1 true
cells, whatever follows, and cell n - 1 is made when the next token is known:

    read again       state that can be rewound: the next read begins one token earlier (`prefix.py`)
    hidden row       state that cannot: the row of the last token is kept as a part of it, with a checkpoint and a
                     parked conversation too, and whoever reads on makes that cell first (`open_pair`)

The first step of a draft takes in as many pairs as rows of the last window stand, with the trunk's true hidden rows, so
cells of drafts that were not accepted are overwritten before anything reads them; where nothing drafts behind a window,
`take_in` does it. Which rows stand is known to the host, so there is one graph for each number of them. Drafts are
greedy: what is accepted is the sampler's business alone.
"""

from dataclasses import replace

from strata.core import programs
from strata.core.commands import Access, Launch, Stream
from strata.core.memory.fixed import BLOCK, DRAFT
from strata.core.memory.layout import INT32_BYTES, INT64_BYTES, DraftLayout
from strata.core.programs import DraftHeadArgs, DraftInputArgs, LayerArgs
from strata.core.serving import launches as of_pass
from strata.core.serving.inputs import copy_to_verifier, pack_header
from strata.core.serving.launches import Lane, Recipe
from strata.core.serving.masters import block_blobs
from strata.core.serving.steps import Orders, Upload


def draft_graph(rows: int) -> str:
    """The graph that drafts behind a window of which `rows` rows stand."""
    return f"draft {rows}"


def draft_lane(draft: DraftLayout) -> Lane:
    return Lane(Stream.DRAFTER, DRAFT, draft.buffers)


def fill_draft_kv(recipe: Recipe, lane: Lane, *, rows: int) -> tuple[Launch, ...]:
    """Cells of the drafter for the rows of a pass, whose hidden rows the last layer has left; they are overwritten.
    Nothing of the block is read, so the block may be lent."""
    tokens, hidden = (lane.rows_of(extent, rows) for extent in (lane.buffers.next_tokens, lane.buffers.hidden))
    return _fill(recipe, lane, tokens, hidden, rows=rows)


def open_pair(recipe: Recipe, lane: Lane, *, start: int) -> tuple[Launch, ...]:
    """Ahead of a pass from `start` on, with header and tokens in place: the cell before its rows, if the hidden row of
    the token before is kept. It has the bits that it would have among the rows of the pass before, so it may be made
    twice."""
    token, kept = lane.rows_of(lane.buffers.tokens, 1), _kept(recipe)
    return _fill(recipe, lane, token, *kept, rows=1, behind=1) if start and kept else ()


def take_in(recipe: Recipe, *, position: int, rows: int) -> Orders:
    """Cells for the first `rows` of the last window, the next of which is at `position`, where nothing drafts behind
    them. The host gives it to the header: the reply may have taken fewer rows than the sampler found right."""
    plan, lane, staged = recipe.plan, of_pass.window_lane(recipe.plan), recipe.plan.staging.window_header
    if plan.draft is None:
        return Orders()
    tokens, hidden = lane.rows_of(plan.verifier.window.sampled, rows), lane.rows_of(lane.buffers.hidden, rows)
    put = copy_to_verifier((staged, lane.buffers.header))
    filled = _fill(recipe, lane, tokens, hidden, rows=rows, behind=rows)
    return Orders((Upload(staged, pack_header(position)),), (put, *filled))


def _fill(
    recipe: Recipe, lane: Lane, tokens: Access, hidden: Access, *, rows: int, behind: int = 0
) -> tuple[Launch, Launch]:
    """Cells for `rows` pairs from the header's position on, or `behind` it: that position stands in the drafter's."""
    source, header = None, lane.whole(lane.buffers.header)
    if behind:
        source, header = header, _own_header(recipe)
        lane = replace(lane, buffers=replace(lane.buffers, header=header.extent))
    kv, filling = Access(recipe.plan.kv[-1], "kv"), lane.of(programs.DRAFT_KV)
    args = LayerArgs(recipe.plan.inventory.num_layers, rows, filling.buffers, kv.extent)
    reads = (header, lane.rows_of(lane.buffers.hidden, rows), kv, *recipe.reads[programs.DRAFT_KV, args.layer])
    writes = (kv, lane.rows_of(lane.buffers.attention, rows), *filling.scratch)
    fill = Launch(lane.stream, programs.DRAFT_KV, args, reads, writes)
    return _launch_input(recipe, lane, tokens, hidden, rows=rows, source=source, behind=behind), fill


def _launch_input(
    recipe: Recipe, lane: Lane, tokens: Access, hidden: Access, *, rows: int, source: Access | None, behind: int
) -> Launch:
    """The drafter's header becomes `behind` that of `source`, if one is given. The trunk's last hidden row is kept."""
    lane, own = lane.of(programs.DRAFT_INPUT), lane.rows_of(lane.buffers.hidden, rows)
    is_own = hidden.owner == DRAFT
    kept = () if is_own or hidden in _kept(recipe) else _kept(recipe)
    header = (_own_header(recipe),) if source else ()
    places = (source.extent if source else None, behind, kept[0].extent if kept else None)
    args = DraftInputArgs(rows, lane.buffers, tokens.extent, hidden.extent, is_own, *places)
    reads = (tokens, hidden, *((source,) if source else ()), *recipe.reads[programs.DRAFT_INPUT, None])
    writes = (own, lane.rows_of(lane.buffers.normed, rows), *header, *kept, *lane.scratch)
    return Launch(lane.stream, programs.DRAFT_INPUT, args, reads, writes)


def _own_header(recipe: Recipe) -> Access:
    assert recipe.plan.draft is not None
    return Access(recipe.plan.draft.buffers.header, DRAFT)


def _kept(recipe: Recipe) -> tuple[Access, ...]:
    """Where the hidden row of the last token is kept; () where nobody needs it."""
    row = recipe.plan.state[-1]
    return (Access(row, "state"),) if recipe.plan.draft is not None and row.size_bytes else ()


def draft_launches(recipe: Recipe, *, rows: int) -> tuple[Launch, ...]:
    """All drafts of one window: as many as a window has rows beside its first."""
    plan, trunk = recipe.plan, of_pass.window_lane(recipe.plan)
    assert plan.draft is not None
    lane, header = draft_lane(plan.draft), trunk.whole(trunk.buffers.header)
    tokens, hidden = trunk.rows_of(plan.verifier.window.sampled, rows), trunk.rows_of(trunk.buffers.hidden, rows)
    launches: list[Launch] = []
    for step in range(plan.options.window_rows - 1):
        behind = rows if step == 0 else 1 - step
        if step:
            rows, tokens, hidden = 1, _token(trunk, step), lane.rows_of(lane.buffers.hidden, 1)
        taken_in = _launch_input(recipe, lane, tokens, hidden, rows=rows, source=header, behind=behind)
        layer = _drafter_layer(recipe, lane, rows=rows)
        launches += (taken_in, *layer, _draft_head(recipe, plan.draft, step=step, rows=rows))
    return tuple(launches)


def _drafter_layer(recipe: Recipe, lane: Lane, *, rows: int) -> tuple[Launch, ...]:
    """Experts are read from the block, where it is at home."""
    plan, layer = recipe.plan, recipe.plan.inventory.num_layers
    assert plan.draft is not None
    experts = None
    if plan.block.size_bytes:
        blobs = tuple(Access(blob, BLOCK, of_pass.blob_content(layer, i)) for i, blob in enumerate(block_blobs(plan)))
        row = plan.draft.draft.addresses
        experts = of_pass.launch_placed_experts(lane, layer=layer, rows=rows, experts=None, row=row, blobs=blobs)
    attention = of_pass.launch_attention(recipe, lane, layer=layer, rows=rows)
    return (attention, *of_pass.feed_forward_launches(recipe, lane, layer=layer, rows=rows, experts=experts))


def _draft_head(recipe: Recipe, draft: DraftLayout, *, step: int, rows: int) -> Launch:
    lane, trunk = draft_lane(draft), of_pass.window_lane(recipe.plan)
    token, word = _token(trunk, step + 1), (programs.PROBABILITY_WORD + step) * INT64_BYTES
    probability = recipe.plan.verifier.window.result.part(offset_bytes=word, size_bytes=INT64_BYTES)
    hidden, normed = (lane.rows_of(extent, rows) for extent in (lane.buffers.hidden, lane.buffers.normed))
    args = DraftHeadArgs(rows, lane.buffers, draft.draft, token.extent, probability)
    reads = (hidden, *recipe.reads[programs.DRAFT_HEAD, None])
    writes = (token, trunk.whole(probability), hidden, normed, lane.whole(draft.draft.logits), *lane.scratch)
    return Launch(lane.stream, programs.DRAFT_HEAD, args, reads, writes)


def _token(trunk: Lane, index: int) -> Access:
    """Token `index` of the next window; 0 is what was sampled last."""
    return trunk.whole(trunk.buffers.tokens.part(offset_bytes=index * INT32_BYTES, size_bytes=INT32_BYTES))
