"""Launches of the drafter: its K/V while a prompt is read, and one graph of drafts between two windows.

    prompt stream    ... last layer of a chunk | draft input, draft kv over (hidden row p, token p + 1)
    drafter stream   wait window_done | rows that the last window had, then one row a step | record draft_done

The first step takes in as many pairs as rows of the last window stand, with the trunk's true hidden rows, so cells of
drafts that were not accepted are overwritten before anything reads them; only the pairs of a reply's last window are
left out, which costs a continuation some acceptance. Which rows stand is known to the host, so there is one graph for
each number of them. Drafts are greedy: what is accepted is the sampler's business alone.
"""

from strata.core import programs
from strata.core.commands import Access, Launch, Stream
from strata.core.memory.fixed import BLOCK
from strata.core.memory.layout import INT32_BYTES, INT64_BYTES, DraftLayout
from strata.core.programs import DraftHeadArgs, DraftInputArgs, LayerArgs
from strata.core.serving.launches import (
    Lane,
    Recipe,
    blob_content,
    feed_forward_launches,
    launch_attention,
    launch_placed_experts,
    weights_read,
    window_lane,
)
from strata.core.serving.masters import block_blobs


def draft_graph(rows: int) -> str:
    """The graph that drafts behind a window of which `rows` rows stand."""
    return f"draft {rows}"


def draft_lane(draft: DraftLayout) -> Lane:
    return Lane(Stream.DRAFTER, "draft", draft.buffers)


def fill_draft_kv(recipe: Recipe, lane: Lane, *, rows: int) -> tuple[Launch, ...]:
    """Cells of the drafter for the rows of a chunk, whose hidden rows the last layer has left; they are overwritten.
    Nothing of the block is read, so the block may be lent."""
    buffers, layer = lane.buffers, recipe.plan.inventory.num_layers
    hidden = lane.rows_of(buffers.hidden, rows)
    tokens = lane.rows_of(buffers.next_tokens, rows)
    kv = Access(recipe.plan.kv[layer], "kv")
    fusing, filling = lane.of(programs.DRAFT_INPUT), lane.of(programs.DRAFT_KV)
    fuse = Launch(
        lane.stream,
        programs.DRAFT_INPUT,
        DraftInputArgs(rows, fusing.buffers, tokens.extent, hidden.extent),
        reads=(tokens, hidden, *weights_read(recipe, programs.DRAFT_INPUT, None)),
        writes=(hidden, lane.rows_of(buffers.normed, rows), *fusing.scratch),
    )
    fill = Launch(
        lane.stream,
        programs.DRAFT_KV,
        LayerArgs(layer, rows, filling.buffers, recipe.plan.kv[layer]),
        reads=(lane.whole(buffers.header), hidden, kv, *weights_read(recipe, programs.DRAFT_KV, layer)),
        writes=(kv, lane.rows_of(buffers.attention, rows), *filling.scratch),
    )
    return fuse, fill


def draft_launches(recipe: Recipe, *, rows: int) -> tuple[Launch, ...]:
    """All drafts of one window: as many as a window has rows beside its first."""
    plan = recipe.plan
    assert plan.draft is not None
    launches: list[Launch] = []
    for step in range(plan.options.window_rows - 1):
        step_rows, behind = (rows, rows) if step == 0 else (1, 1 - step)
        taken_in = _draft_input(recipe, plan.draft, step=step, rows=step_rows, behind=behind)
        layer = _drafter_layer(recipe, draft_lane(plan.draft), rows=step_rows)
        launches += (taken_in, *layer, _draft_head(recipe, plan.draft, step=step, rows=step_rows))
    return tuple(launches)


def _draft_input(recipe: Recipe, draft: DraftLayout, *, step: int, rows: int, behind: int) -> Launch:
    """`behind`: how far the first pair's position lies before the position of the next window."""
    lane, trunk = draft_lane(draft), window_lane(recipe.plan)
    header = trunk.whole(trunk.buffers.header)
    if step == 0:
        tokens = trunk.rows_of(recipe.plan.verifier.window.sampled, rows)
        hidden = trunk.rows_of(trunk.buffers.hidden, rows)
    else:
        tokens = _token(trunk, step)
        hidden = lane.rows_of(lane.buffers.hidden, 1)
    own = lane.rows_of(lane.buffers.hidden, rows)
    return Launch(
        lane.stream,
        programs.DRAFT_INPUT,
        DraftInputArgs(
            rows,
            lane.buffers,
            tokens.extent,
            hidden.extent,
            is_own=step > 0,
            source_header=header.extent,
            behind=behind,
        ),
        reads=(tokens, hidden, header, *weights_read(recipe, programs.DRAFT_INPUT, None)),
        writes=(own, lane.rows_of(lane.buffers.normed, rows), lane.whole(lane.buffers.header), *lane.scratch),
    )


def _drafter_layer(recipe: Recipe, lane: Lane, *, rows: int) -> tuple[Launch, ...]:
    """Experts are read from the block, where it is at home."""
    plan, layer = recipe.plan, recipe.plan.inventory.num_layers
    assert plan.draft is not None
    experts = None
    if plan.block.size_bytes:
        blobs = tuple(Access(extent, BLOCK, blob_content(layer, i)) for i, extent in enumerate(block_blobs(plan)))
        row = plan.draft.draft.addresses
        experts = launch_placed_experts(lane, layer=layer, rows=rows, experts=None, row=row, blobs=blobs)
    attention = launch_attention(recipe, lane, layer=layer, rows=rows)
    return (attention, *feed_forward_launches(recipe, lane, layer=layer, rows=rows, experts=experts))


def _draft_head(recipe: Recipe, draft: DraftLayout, *, step: int, rows: int) -> Launch:
    lane, trunk = draft_lane(draft), window_lane(recipe.plan)
    token, word = _token(trunk, step + 1), (programs.PROBABILITY_WORD + step) * INT64_BYTES
    probability = recipe.plan.verifier.window.result.part(offset_bytes=word, size_bytes=INT64_BYTES)
    hidden, normed = (lane.rows_of(extent, rows) for extent in (lane.buffers.hidden, lane.buffers.normed))
    return Launch(
        lane.stream,
        programs.DRAFT_HEAD,
        DraftHeadArgs(rows, lane.buffers, draft.draft, token.extent, probability),
        reads=(hidden, *weights_read(recipe, programs.DRAFT_HEAD, None)),
        writes=(token, trunk.whole(probability), hidden, normed, lane.whole(draft.draft.logits), *lane.scratch),
    )


def _token(trunk: Lane, index: int) -> Access:
    """Token `index` of the next window; 0 is what was sampled last."""
    return trunk.whole(trunk.buffers.tokens.part(offset_bytes=index * INT32_BYTES, size_bytes=INT32_BYTES))
