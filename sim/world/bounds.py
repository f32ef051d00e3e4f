"""What a file may ask a card of this host to be, before anything is planned or made of it.

A trace comes from anywhere. The planner and the core take their numbers from code that has checked them, so whoever
reads them out of a file checks them here: that they fit each other, and that nothing made of them is larger than the
file gives reason for. Does not judge whether there is a plan.
"""

from dataclasses import asdict

from sim.world.geometry import MAX_EXPERTS, Geometry
from strata.core.commands import MAX_COPY_GROUP
from strata.core.inventory import ModelInventory
from strata.core.memory.shapes import PlanOptions

MAX_WORLD_NUMBER = 1 << 24
MAX_WORLD_LAYERS = 64
MAX_WORLD_SEGMENTS = 1 << 12
"""Worlds are small: the ones that are drawn have tens of segments and some hundred thousand bytes."""
MAX_TOKENS = 1 << 24
MAX_RING_SLOTS = 1 << 20
MAX_WINDOW_ROWS = 8
MAX_DRAFTER_EXPERTS = 1024


def check_geometry(geometry: Geometry) -> None:
    """Raises ValueError for what is no small world."""
    numbers = [value for value in asdict(geometry).values() if type(value) is int]
    numbers += [*geometry.blob_bytes, *geometry.recurrent, *geometry.splits, *geometry.arenas]
    _require(all(type(n) is int and -1 <= n <= MAX_WORLD_NUMBER for n in numbers), "a number that is none of a world")
    _require(all(size >= 0 for size in geometry.blob_bytes), "a blob of negative size")
    _require(1 <= geometry.num_layers <= MAX_WORLD_LAYERS, f"{geometry.num_layers} layers")
    _require(all(0 <= layer < geometry.num_layers for layer in geometry.recurrent), "a recurrent layer that is none")
    _require(1 <= geometry.num_experts <= MAX_EXPERTS, f"num_experts={geometry.num_experts}, 1 to {MAX_EXPERTS}")
    _require(0 <= geometry.drafter_experts <= MAX_DRAFTER_EXPERTS, f"drafter_experts={geometry.drafter_experts}")
    _require(1 <= geometry.window_rows <= MAX_WINDOW_ROWS, f"window_rows={geometry.window_rows}")
    _require(not (geometry.drafts and geometry.splits), "drafts over several stages")
    fits = not geometry.drafts or geometry.drafter_experts <= MAX_EXPERTS
    _require(
        fits, f"a drafter of {geometry.drafter_experts} experts, of which one that drafts has {MAX_EXPERTS} at most"
    )
    _require(0 <= geometry.least_draft_percent <= 100, f"least_draft_percent={geometry.least_draft_percent}, 0 to 100")
    _require(geometry.context_tokens > 2, f"context_tokens={geometry.context_tokens}, 3 or more")
    _require(geometry.parked_bytes >= 0, f"parked_bytes={geometry.parked_bytes}")
    _require(min(geometry.mixer_work_bytes, geometry.moe_work_bytes, geometry.ffn_work_bytes) >= 0, "negative work")
    _require(geometry.short_read_tokens >= 0, f"short_read_tokens={geometry.short_read_tokens}")
    _require(geometry.num_checkpoints >= 0, f"num_checkpoints={geometry.num_checkpoints}")
    _require(0 <= geometry.num_swaps <= MAX_COPY_GROUP, f"num_swaps={geometry.num_swaps}, 0 to {MAX_COPY_GROUP}")
    _require(geometry.swap_windows >= 1, f"swap_windows={geometry.swap_windows}, 1 or more")
    pinned_bytes = geometry.pinned_bytes
    _require(pinned_bytes is None or pinned_bytes >= 0, f"pinned_bytes={pinned_bytes}")
    starts, sizes = (0, *geometry.splits), (geometry.arena_bytes, *geometry.arenas)
    ends = (*geometry.splits, geometry.num_layers)
    _require(len(starts) == len(sizes), f"{len(starts)} runs of layers on {len(sizes)} cards")
    are_runs = all(start < end for start, end in zip(starts, ends, strict=True))
    _require(are_runs, f"layers are split at {geometry.splits}")
    is_for_one = geometry.is_elastic or geometry.num_swaps > 0 or pinned_bytes is not None
    _require(not (geometry.splits and is_for_one), "stages that move segments, exchange blobs or stage them")
    _require(geometry.first_layer == 0 and geometry.has_head, "a part of a model")
    for arena_bytes in sizes:
        segments, rest = divmod(arena_bytes, max(1, geometry.segment_bytes))
        _require(
            geometry.segment_bytes > 0 and not rest and 1 <= segments <= MAX_WORLD_SEGMENTS,
            f"arena_bytes={arena_bytes} that is not 1 to {MAX_WORLD_SEGMENTS} whole segments",
        )


def check_served(inventory: ModelInventory, options: PlanOptions, *, max_pairs: int) -> None:
    """`max_pairs`: blobs that the trace has places for. Raises ValueError for what no server has served."""
    counts = [value for value in asdict(inventory).values() if type(value) is int]
    _require(all(count >= 0 for count in counts), "a negative number of something")
    layers = len(inventory.blob_bytes)
    _require(inventory.num_layers == layers, f"num_layers={inventory.num_layers}, and sizes of blobs for {layers}")
    _require(len(inventory.state_bytes) in (0, layers), f"sizes of state for {len(inventory.state_bytes)} layers")
    _require(all(size >= 0 for size in (*inventory.blob_bytes, *inventory.state_bytes)), "a negative size")
    _require(inventory.num_pairs <= max_pairs, f"{inventory.num_pairs:,} blobs, and places for {max_pairs:,} items")
    drafted = inventory.drafter.num_experts if inventory.drafter else 0
    _require(0 <= drafted <= max_pairs, f"a drafter of {drafted:,} experts, and places for {max_pairs:,} items")
    _require(1 <= options.context_tokens <= min(inventory.context_tokens, MAX_TOKENS), "a context that is none")
    for value, most in (
        (options.chunk_tokens, MAX_TOKENS),
        (options.max_chunk_tokens, MAX_TOKENS),
        (options.window_rows, MAX_WINDOW_ROWS),
    ):
        _require(value is None or 1 <= value <= most, f"{value} tokens, 1 to {most:,} are possible")
    ring_slots = options.ring_slots
    _require(ring_slots is None or 0 <= ring_slots <= MAX_RING_SLOTS, f"a ring of {ring_slots} slots")
    _require(0 <= options.num_swaps <= MAX_COPY_GROUP and options.swap_windows >= 1, "swaps that are none")
    _require(0 <= options.num_staged <= max_pairs, f"{options.num_staged} slots for pageable blobs")
    sizes = (options.parked_bytes, options.checkpoint_bytes, options.segment_bytes, options.pinned_bytes or 0)
    _require(all(size >= 0 for size in sizes), "a negative size")
    areas = [area for work in inventory.prompt_work for area in work.areas]
    sizes_bytes = [size for area in areas for size in (area.row_bytes, area.fixed_bytes)]
    _require(all(size >= 0 for size in sizes_bytes), "a negative size of what programs work in")


def _require(is_so: bool, what: str) -> None:
    if not is_so:
        raise ValueError(f"this can be no card: {what}")
