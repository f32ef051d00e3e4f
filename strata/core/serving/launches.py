"""Which program runs on which extents: the launches of one pass over the layers.

A `Lane` is a stream with its buffers: prompt chunks run in one, decode windows in another, with the same programs.
Every launch declares exactly the rows it touches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from strata.core import programs
from strata.core.commands import Access, Launch, Stream, TableRead
from strata.core.extent import Extent, HostExtent
from strata.core.memory.fixed import DRAFT
from strata.core.memory.layout import INT32_BYTES, INT64_BYTES, PromptLayout
from strata.core.memory.planner import Plan
from strata.core.programs import EmbedArgs, ExpertsArgs, HeadArgs, LayerArgs, PassBuffers, SampleArgs

Table = TypeVar("Table", Extent, HostExtent)
DenseReads = Mapping[tuple[str, int | None], tuple[str, ...]]
"""(program, layer) -> names of the dense tensors it reads; layer None for embed, head and sample."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The plan, and what each program of this model reads beside its buffers; `reads`: where that lies, of programs
    for which it is on this card."""

    plan: Plan
    dense_reads: DenseReads
    reads: Mapping[tuple[str, int | None], tuple[Access, ...]] = field(init=False)

    def __post_init__(self) -> None:
        owners, weights = self.plan.owners, self.plan.weights.items()
        places = {name: Access(extent, owners[name], weight_content(name)) for name, extent in weights}
        here = {key: names for key, names in self.dense_reads.items() if places.keys() >= {*names}}
        object.__setattr__(self, "reads", {key: tuple(places[name] for name in names) for key, names in here.items()})

    def is_moe(self, layer: int) -> bool:
        return self.plan.inventory.blob_bytes[layer] > 0

    def has_shared_expert(self, layer: int) -> bool:
        return (programs.SHARED, layer) in self.dense_reads


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a pass runs. `owner` owns every buffer of it, but for what programs of a chunk work in: `work`, a buffer
    for each program that needs one. In other passes all programs work in `buffers.scratch`. `block_runs`: see
    `LayerArgs`."""

    stream: Stream
    owner: str
    buffers: PassBuffers
    work: Mapping[str, Access] = field(default_factory=dict)
    scratch_owner: str = ""
    block_runs: tuple[int, ...] = (0,)

    def of(self, program: str) -> "Lane":
        """As `program` sees it: with what it works in among the buffers."""
        place = self.work.get(program)
        if place is None:
            return self
        return replace(self, buffers=replace(self.buffers, scratch=place.extent), scratch_owner=place.owner)

    def rows_of(self, extent: Extent, rows: int) -> Access:
        """The first `rows` of the buffer's max_rows rows."""
        assert rows <= self.buffers.max_rows, (rows, self.buffers)
        size_bytes = rows * (extent.size_bytes // self.buffers.max_rows)
        return _access(extent.offset_bytes, size_bytes, self.owner)

    def whole(self, extent: Extent) -> Access:
        return _access(extent.offset_bytes, extent.size_bytes, self.owner)

    @property
    def scratch(self) -> tuple[Access, ...]:
        """() where the program needs none."""
        owner = self.scratch_owner or self.owner
        return (Access(self.buffers.scratch, owner),) if self.buffers.scratch.size_bytes else ()


@lru_cache(1 << 12)
def _access(offset_bytes: int, size_bytes: int, owner: str) -> Access:
    """The programs of all layers touch the same rows."""
    return Access(Extent(offset_bytes, size_bytes), owner)


def prompt_lane(layout: PromptLayout, block_runs: tuple[int, ...] = (0,)) -> Lane:
    return Lane(Stream.PROMPT, "prompt", layout.buffers, layout.scratch, block_runs=block_runs)


def window_lane(plan: Plan) -> Lane:
    """The drafter's programs work in its own scratch."""
    scratch = (Access(plan.draft.buffers.scratch, DRAFT),) if plan.draft else ()
    work = {name: place for place in scratch for name in (programs.DRAFT_INPUT, programs.DRAFT_KV)}
    return Lane(Stream.VERIFIER, "verifier", plan.verifier.buffers, work)


def blob_content(layer: int, expert: int) -> str:
    return f"blob {layer} {expert}"


def weight_content(name: str) -> str:
    return f"weight {name}"


def launch_embed(recipe: Recipe, lane: Lane, *, rows: int) -> Launch:
    args, writes = EmbedArgs(rows, lane.buffers), (lane.rows_of(lane.buffers.hidden, rows),)
    reads = (lane.rows_of(lane.buffers.tokens, rows), *recipe.reads[programs.EMBED, None])
    return Launch(lane.stream, programs.EMBED, args, reads, writes)


def launch_mixer(recipe: Recipe, lane: Lane, *, layer: int, rows: int, are_kept: bool = True) -> Launch:
    """What lets the rows see the tokens before them: attention, or the recurrent layer in its place."""
    if recipe.plan.inventory.is_recurrent(layer):
        return launch_recurrent(recipe, lane, layer=layer, rows=rows, are_kept=are_kept)
    return launch_attention(recipe, lane, layer=layer, rows=rows)


def launch_recurrent(recipe: Recipe, lane: Lane, *, layer: int, rows: int, are_kept: bool) -> Launch:
    """The state is read and written whole; it must stand at the position of the first row. Rows behind the first that
    are not surely `are_kept` may be taken back, so they go to the layer's journal instead."""
    plan, lane = recipe.plan, lane.of(programs.RECURRENT)
    state = Access(plan.state[layer], "state")
    hidden = lane.rows_of(lane.buffers.hidden, rows)
    journal = None if are_kept or rows == 1 else plan.verifier.journals[layer]
    args = LayerArgs(layer, rows, lane.buffers, None, plan.state[layer], journal, lane.block_runs)
    reads = (lane.whole(lane.buffers.header), hidden, state, *recipe.reads[programs.RECURRENT, layer])
    moved, attention = lane.whole(journal) if journal else state, lane.rows_of(lane.buffers.attention, rows)
    return Launch(lane.stream, programs.RECURRENT, args, reads, (moved, attention, hidden, *lane.scratch))


def launch_attention(recipe: Recipe, lane: Lane, *, layer: int, rows: int) -> Launch:
    """K/V count as read and written whole: they are filled once at start, and which cells a row attends to is the
    header's business, which a captured launch cannot know."""
    lane = lane.of(programs.ATTENTION)
    kv = Access(recipe.plan.kv[layer], "kv")
    hidden = lane.rows_of(lane.buffers.hidden, rows)
    args = LayerArgs(layer, rows, lane.buffers, recipe.plan.kv[layer])
    reads = (lane.whole(lane.buffers.header), hidden, kv, *recipe.reads[programs.ATTENTION, layer])
    writes = (kv, lane.rows_of(lane.buffers.attention, rows), hidden, *lane.scratch)
    return Launch(lane.stream, programs.ATTENTION, args, reads, writes)


def launch_ffn(recipe: Recipe, lane: Lane, *, layer: int, rows: int) -> Launch:
    lane = lane.of(programs.FFN)
    hidden, normed = (lane.rows_of(extent, rows) for extent in (lane.buffers.hidden, lane.buffers.normed))
    args, writes = LayerArgs(layer, rows, lane.buffers), (normed, hidden, *lane.scratch)
    return Launch(lane.stream, programs.FFN, args, (hidden, *recipe.reads[programs.FFN, layer]), writes)


def launch_router(recipe: Recipe, lane: Lane, *, layer: int, rows: int) -> Launch:
    lane = lane.of(programs.ROUTER)
    buffers = lane.buffers
    reads = (lane.rows_of(buffers.hidden, rows), *recipe.reads[programs.ROUTER, layer])
    of_rows = (buffers.normed, buffers.router_ids, buffers.router_weights)
    writes = (*(lane.rows_of(extent, rows) for extent in of_rows), lane.whole(buffers.router_counts), *lane.scratch)
    return Launch(lane.stream, programs.ROUTER, LayerArgs(layer, rows, buffers), reads, writes)


def launch_shared_expert(recipe: Recipe, lane: Lane, *, layer: int, rows: int) -> Launch:
    lane = lane.of(programs.SHARED)
    hidden, normed = (lane.rows_of(extent, rows) for extent in (lane.buffers.hidden, lane.buffers.normed))
    args, reads = LayerArgs(layer, rows, lane.buffers), (normed, hidden, *recipe.reads[programs.SHARED, layer])
    return Launch(lane.stream, programs.SHARED, args, reads, (hidden, *lane.scratch))


def launch_placed_experts(
    lane: Lane, *, layer: int, rows: int, experts: tuple[int, ...] | None, row: Extent, blobs: tuple[Access, ...]
) -> Launch:
    """Experts whose blobs lie where `blobs` says: a group of a chunk in cache slots or in ring slots, or, `experts`
    being None, whichever of the drafter's its router chose, in the block. `row` is the lane's address row of it."""
    lane = lane.of(programs.EXPERTS)
    buffers = lane.buffers
    args = ExpertsArgs(layer, rows, buffers, experts, row)
    normed, ids = lane.rows_of(buffers.normed, rows), lane.rows_of(buffers.router_ids, rows)
    writes = (lane.rows_of(buffers.expert_rows, rows), *lane.scratch)
    return Launch(lane.stream, programs.EXPERTS, args, (normed, ids, lane.whole(row), *blobs), writes)


def launch_window_experts(
    recipe: Recipe, lane: Lane, *, layer: int, rows: int, table_version: int, is_counted: bool
) -> Launch:
    """Every expert that the router chose, read through the address table: a hit from its slot, a miss from the pack.
    `is_counted`: which it reads, and whether from a slot."""
    row = address_row(recipe.plan.table, recipe.plan, layer=layer)
    buffers = lane.buffers
    window = recipe.plan.verifier.window
    result, usage = (window.result, window.usage) if is_counted else (None, programs.NO_SCRATCH)
    counters = tuple(lane.whole(extent) for extent in (result, usage) if extent and extent.size_bytes)
    args = ExpertsArgs(layer, rows, buffers, None, row, result, usage)
    normed, ids = lane.rows_of(buffers.normed, rows), lane.rows_of(buffers.router_ids, rows)
    table: tuple[Access | TableRead, ...] = (Access(row, "table"), *counters, TableRead(table_version))
    writes = (lane.rows_of(buffers.expert_rows, rows), *counters, *lane.scratch)
    return Launch(lane.stream, programs.EXPERTS, args, (normed, ids, *table), writes)


def launch_combine(recipe: Recipe, lane: Lane, *, layer: int, rows: int) -> Launch:
    buffers = lane.buffers
    summed = (buffers.expert_rows, buffers.router_weights, buffers.hidden)
    reads = tuple(lane.rows_of(extent, rows) for extent in summed)
    return Launch(lane.stream, programs.COMBINE, LayerArgs(layer, rows, buffers), reads, reads[-1:])


def launch_head(recipe: Recipe, lane: Lane, *, rows: int) -> Launch:
    window = recipe.plan.verifier.window
    reads = (lane.rows_of(lane.buffers.hidden, rows), *recipe.reads[programs.HEAD, None])
    writes = (lane.rows_of(lane.buffers.normed, rows), lane.rows_of(window.logits, rows))
    return Launch(lane.stream, programs.HEAD, HeadArgs(rows, lane.buffers, window), reads, writes)


def launch_sample(recipe: Recipe, lane: Lane, *, rows: int) -> Launch:
    window, buffers = recipe.plan.verifier.window, lane.buffers
    state = tuple(lane.whole(extent) for extent in (window.counts, window.result, buffers.header))
    sampled = lane.rows_of(window.sampled, rows)
    drafts = buffers.tokens.part(offset_bytes=INT32_BYTES, size_bytes=(rows - 1) * INT32_BYTES)
    inputs = (window.params, window.bias, window.seen, window.terminators)
    first = lane.whole(buffers.tokens.part(offset_bytes=0, size_bytes=INT32_BYTES))
    reads = (lane.rows_of(window.logits, rows), *(lane.whole(extent) for extent in inputs), *state)
    writes = (*state, first, *((sampled,) if sampled.extent.size_bytes else ()), *lane.scratch)
    reads += (lane.whole(drafts),) if rows > 1 else ()
    return Launch(lane.stream, programs.SAMPLE, SampleArgs(rows, buffers, window), reads, writes)


def feed_forward_launches(
    recipe: Recipe, lane: Lane, *, layer: int, rows: int, experts: Launch | None
) -> tuple[Launch, ...]:
    """All behind the mixer of a layer in a captured pass; `experts` is the launch of its routed ones, None where its
    FFN is dense."""
    if experts is None:
        return (launch_ffn(recipe, lane, layer=layer, rows=rows),)
    has_shared = recipe.has_shared_expert(layer)
    shared = (launch_shared_expert(recipe, lane, layer=layer, rows=rows),) if has_shared else ()
    router = launch_router(recipe, lane, layer=layer, rows=rows)
    return (router, *shared, experts, launch_combine(recipe, lane, layer=layer, rows=rows))


def window_launches(recipe: Recipe, *, rows: int, table_version: int) -> tuple[Launch, ...]:
    """One decode window from tokens to sampled ids: what is captured as a graph. Of a stage with the head."""
    lane = window_lane(recipe.plan)
    layers = layer_launches(recipe, rows=rows, table_version=table_version, are_kept=False)
    return (*layers, launch_head(recipe, lane, rows=rows), launch_sample(recipe, lane, rows=rows))


def layer_launches(recipe: Recipe, *, rows: int, table_version: int, are_kept: bool) -> tuple[Launch, ...]:
    """From tokens, or from rows of the stage before, through all layers, in the verifier's buffers. Rows that are
    surely `are_kept` are a prompt's, and their reads of experts count for no reply and no swap."""
    lane = window_lane(recipe.plan)
    launches = [] if recipe.plan.inventory.first_layer else [launch_embed(recipe, lane, rows=rows)]
    for layer in range(recipe.plan.inventory.num_layers):
        experts = None
        if recipe.is_moe(layer):
            experts = launch_window_experts(
                recipe, lane, layer=layer, rows=rows, table_version=table_version, is_counted=not are_kept
            )
        launches.append(launch_mixer(recipe, lane, layer=layer, rows=rows, are_kept=are_kept))
        launches += feed_forward_launches(recipe, lane, layer=layer, rows=rows, experts=experts)
    return tuple(launches)


def address_row(table: Table, plan: Plan, *, layer: int) -> Table:
    """Row `layer` of an address table: int64 [num_experts]."""
    row_bytes = plan.inventory.num_experts * INT64_BYTES
    return table.part(offset_bytes=layer * row_bytes, size_bytes=row_bytes)
