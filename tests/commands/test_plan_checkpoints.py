"""What `plan` says of checkpoints: how many there is room for, where a model needs them."""

from strata.commands.plan import plan_json, plan_lines
from strata.core.errors import Refusal
from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from tests.engine.symbolic_card import hybrid_inventory, small_inventory


def plan_of(inventory: ModelInventory) -> Plan:
    plan = plan_card(inventory, 2 << 20, PlanOptions(1024, num_cache_slots=4, parked_bytes=1000, checkpoint_bytes=4000))
    assert not isinstance(plan, Refusal)
    return plan


def test_a_hybrid_has_whole_slots_of_the_budget() -> None:
    plan = plan_of(hybrid_inventory())
    told = plan_json(plan)
    assert (told["checkpoints"], told["checkpoint_bytes"], told["parked_bytes"]) == (5, 5 * 768, 1000)
    assert "          5 checkpoints of recurrent state, 3.8 KiB" in plan_lines(plan)


def test_nothing_is_taken_or_said_where_all_layers_attend() -> None:
    plan = plan_of(small_inventory())
    assert (plan_json(plan)["checkpoints"], plan_json(plan)["checkpoint_bytes"]) == (0, 0)
    assert not any("checkpoint" in line for line in plan_lines(plan))
