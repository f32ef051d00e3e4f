"""A model of sizes whose prompt programs need scratch, as a card's do."""

from dataclasses import replace

from strata.core.inventory import ModelInventory
from strata.core.workspace import Work, WorkArea
from tests.engine.symbolic_card import small_inventory

WORK = (
    Work(("attention", "draft kv"), (WorkArea("x", 300),)),
    Work(("router", "shared", "experts"), (WorkArea("counts", 500, 4000), WorkArea("act", 500))),
    Work(("ffn",), (WorkArea("x", 200), WorkArea("gate", 200))),
)
"""Of a chunk of 256 tokens: two classes, of which attention and the dense FFN share the smaller one."""


def working_inventory() -> ModelInventory:
    """120 blobs, of which about a half fits 6 MiB beside the rest."""
    return replace(small_inventory(blob_bytes=(81_920, 0, 70_001, 81_003), num_experts=40), prompt_work=WORK)
