"""What `inspect` and `plan` say of a drafter is what the file holds."""

from pathlib import Path

import pytest

from strata.commands.drafter_text import drafter_json, drafter_line
from strata.commands.inspect import inspect_lines
from strata.commands.plan import plan_json, plan_lines
from strata.core.inventory import DrafterInventory, WeightItem
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.inventory import inventory_of
from tests.fixtures.lend_model import DRAFTER_BLOB_BYTES

WEIGHTS = (WeightItem("norm", 1024), WeightItem("eh_proj", 2048))
BLOCK = DrafterInventory(64, 27_840, WEIGHTS)


@pytest.mark.parametrize(
    ("drafter", "line"),
    [
        (
            BLOCK,
            "block of 64 experts x 27,840 B = 1.7 MiB, 108.8 KiB a token; 3.0 KiB of weights; the model's output head",
        ),
        (
            DrafterInventory(2, 1000, WEIGHTS, (WeightItem("head", 4096),)),
            "block of 2 experts x 1,000 B = 2.0 KiB, 2.0 KiB a token; 3.0 KiB of weights; draft head of its own, "
            "4.0 KiB",
        ),
        (DrafterInventory(0, 0, WEIGHTS), "no block (a dense FFN); 3.0 KiB of weights; the model's output head"),
    ],
)
def test_a_drafter_is_told_in_one_line(drafter: DrafterInventory, line: str) -> None:
    assert drafter_line(drafter, num_experts_used=4) == line


def test_the_numbers_are_those_of_the_line() -> None:
    assert drafter_json(None, num_experts_used=4) is None
    assert drafter_json(BLOCK, num_experts_used=4) == {
        "num_experts": 64,
        "blob_bytes": 27_840,
        "block_bytes": 64 * 27_904,
        "token_bytes": 4 * 27_840,
        "weight_bytes": 3072,
        "head_bytes": 0,
    }


def test_inspect_shows_the_block_and_counts_all_of_it_as_mtp(lend_model: Path) -> None:
    file = open_model(lend_model)
    lines = inspect_lines(file, spec_of(file))
    told, counted = [line for line in lines if line.startswith("MTP  ")]
    assert told.startswith(f"MTP           1 NextN block: block of 64 experts x {DRAFTER_BLOB_BYTES:,} B")
    assert int(counted.split()[1]) == sum(name.startswith("blk.8.") for name in file.tensors)


def test_plan_shows_the_drafter_that_was_asked_for(lend_model: Path) -> None:
    inventory = inventory_of(spec_of(open_model(lend_model)))
    plan = plan_card(inventory, 64 * MIB, PlanOptions(2048))
    assert isinstance(plan, Plan)
    lines = plan_lines(plan)
    [first] = [index for index, line in enumerate(lines) if line.startswith("drafter")]
    assert f"block of 64 experts x {DRAFTER_BLOB_BYTES:,} B = 4.8 MiB" in lines[first]
    assert lines[first + 1].strip() == "the block has room for 303 ring slots"
    told = plan_json(plan)
    assert (told["drafter"], told["room_slots"]) == (drafter_json(inventory.drafter, num_experts_used=4), 303)
