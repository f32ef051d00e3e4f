"""What a plan calls its bytes, and what it was made from: the head of a trace that is recorded over it."""

from dataclasses import asdict, fields
from typing import Any

from strata.core.extent import HostExtent
from strata.core.memory.planner import Plan
from strata.core.serving.launches import blob_content, weight_content
from strata.trace.places import PACK_PREFIX, Place, Places, space_of


def plan_places(plan: Plan) -> Places:
    """Regions of the arena, blobs and weights of the pack by their content, buffers of the staging memory."""
    places = [Place(region.name, region.extent) for region in plan.regions]
    places += [Place(f"{PACK_PREFIX}{weight_content(name)}", home) for name, home in plan.pack.weights.items()]
    places += [
        Place(f"{PACK_PREFIX}{blob_content(layer, expert)}", home)
        for layer, row in enumerate((*plan.pack.blobs, plan.pack.block))
        for expert, home in enumerate(row)
    ]
    buffers = {field.name: getattr(plan.staging, field.name) for field in fields(plan.staging)}
    places += [Place(f"staging/{name}", where) for name, where in buffers.items() if isinstance(where, HostExtent)]
    return Places(_disjoint(places))


def _disjoint(places: list[Place]) -> list[Place]:
    """Without what is empty, and without what lies over another place: a plan that gives bytes twice is a bug that a
    trace has to show, so such bytes go by the first of their names."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda place: (space_of(place.where), place.where.offset_bytes)):
        before = kept[-1].where if kept and space_of(kept[-1].where) == space_of(place.where) else None
        if place.where.size_bytes and (before is None or before.end_bytes <= place.where.offset_bytes):
            kept.append(place)
    return kept


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Enough to make the same plan again, as plain JSON values."""
    return {"inventory": asdict(plan.inventory), "options": asdict(plan.options)}
