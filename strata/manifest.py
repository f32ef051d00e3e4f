"""The words of a pack: what lies where in it, for whoever holds copies against them."""

from strata.core.extent import HostExtent
from strata.core.memory.planner import Plan
from strata.core.serving.launches import blob_content, weight_content


def pack_manifest(plan: Plan) -> list[tuple[HostExtent, str]]:
    """What lies where in the pack, for the twin to hold copies against."""
    weights = [(home, weight_content(name)) for name, home in plan.pack.weights.items()]
    return weights + [(home, blob_content(layer, expert)) for layer, expert, home in plan.pack.placed_blobs()]
