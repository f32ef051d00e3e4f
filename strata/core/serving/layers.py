"""A chunk on its way through the layers: what is ordered behind what, and where the host must look.

    asks      mixer, router, counts | host sees them | experts, combine, mixer, router, counts | host ...
    streams   mixer, router, experts, combine | the same of the next layer | the next | host learns of the first ...

A chunk that streams asks nothing of the host. So a few layers are ordered before the first of them is awaited, and the
card goes on while the host learns of that one and orders another. Cancels are seen at every layer's end, in turn.
"""

from dataclasses import replace

from strata.core.commands import Copy, CopyPair, Stream
from strata.core.serving.border import end_pass
from strata.core.serving.borrowing import return_read_slots
from strata.core.serving.chunk import Addresses, read_experts
from strata.core.serving.drafting import fill_draft_kv
from strata.core.serving.launches import Recipe, launch_ffn, launch_mixer, launch_router, prompt_lane
from strata.core.serving.standing import notify
from strata.core.serving.states import Reading
from strata.core.serving.steps import Orders

LAYERS_AHEAD = 2
"""Layers that are ordered behind the one that is awaited: the longest that a cancel waits beyond it."""


def order_layers(recipe: Recipe, places: Addresses, state: Reading, orders: Orders) -> tuple[Reading, Orders]:
    """`orders`, which await the first layer that has not come, if one is ordered, and those layers that may be now."""
    num_ahead = LAYERS_AHEAD if state.chunk.is_streaming else 0
    while len(state.told) <= num_ahead and state.chunk.layer < recipe.plan.inventory.num_layers:
        state, more = _layer(recipe, places, state)
        orders = orders.then(more)
    return state, orders


def routed(recipe: Recipe, places: Addresses, state: Reading, experts: tuple[int, ...]) -> tuple[Reading, Orders]:
    """The router of the layer under way chose `experts` (sorted)."""
    state, orders = _experts(recipe, places, replace(state, told=state.told[1:]), experts)
    if state.chunk.layer < recipe.plan.inventory.num_layers:
        return order_layers(recipe, places, state, orders)
    return _told(recipe, state, orders)


def _layer(recipe: Recipe, places: Addresses, state: Reading) -> tuple[Reading, Orders]:
    """As far as the router whose choice the host must see, or whole."""
    chunk, lane = state.chunk, prompt_lane(state.chunk.layout, state.chunk.block_runs)
    mixer = launch_mixer(recipe, lane, layer=chunk.layer, rows=chunk.rows)
    if not recipe.is_moe(chunk.layer):
        ffn = launch_ffn(recipe, lane, layer=chunk.layer, rows=chunk.rows)
        return _told(recipe, replace(state, chunk=replace(chunk, layer=chunk.layer + 1)), Orders((), (mixer, ffn)))
    router = launch_router(recipe, lane, layer=chunk.layer, rows=chunk.rows)
    if chunk.is_streaming:
        experts = tuple(range(recipe.plan.inventory.num_experts))
        state, read = _experts(recipe, places, state, experts)
        return _told(recipe, state, Orders((), (mixer, router)).then(read))
    counts = CopyPair(lane.whole(lane.buffers.router_counts), recipe.plan.staging.router_counts)
    asked = Orders((), (mixer, router, Copy(lane.stream, (counts,))))
    return _told(recipe, replace(state, is_routing=True), asked)


def _experts(recipe: Recipe, places: Addresses, state: Reading, experts: tuple[int, ...]) -> tuple[Reading, Orders]:
    """All behind the router of the layer under way."""
    chunk, uploads, commands = read_experts(recipe, state.chunk, places, experts)
    at, home = return_read_slots(recipe.plan, state.at, chunk)
    return Reading(at, state.request, chunk, told=state.told), Orders(uploads, commands + home)


def _told(recipe: Recipe, state: Reading, orders: Orders) -> tuple[Reading, Orders]:
    """With a notice, and before it, behind the last layer, with what drafter or next stage has of the chunk."""
    chunk = state.chunk
    if chunk.layer == recipe.plan.inventory.num_layers:
        lane = prompt_lane(chunk.layout)
        drafter = fill_draft_kv(recipe, lane, rows=chunk.rows) if recipe.plan.draft is not None else ()
        orders = orders.then(Orders((), (*drafter, *end_pass(recipe.plan, state.at, lane, rows=chunk.rows))))
    at, notice = notify(state.at, (Stream.PROMPT,))
    orders = orders.then(replace(notice, awaits=()) if state.told else notice)
    return Reading(at, state.request, chunk, state.is_routing, state.told + notice.awaits), orders
