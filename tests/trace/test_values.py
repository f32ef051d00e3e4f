"""What the core's values are as JSON is read back as what they were, and nothing else is."""

import json
from dataclasses import asdict, dataclass

import pytest

from strata.core.inventory import ModelInventory
from strata.core.kv import KvFormat
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from strata.trace.values import from_json
from tests.engine.symbolic_card import drafting_inventory, lending_inventory, small_inventory


def through_json(value: object) -> object:
    return json.loads(json.dumps(asdict(value)))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "value",
    [
        small_inventory(),
        lending_inventory(),
        drafting_inventory(),
        PlanOptions(100, KvFormat.F32, chunk_tokens=512, min_cache_slots=3),
        PlanOptions(7),
        SamplingParams(temperature=0.5, logit_bias=((1, 2.0), (4, -3.0))),
    ],
)
def test_a_value_comes_back(value: object) -> None:
    assert from_json(type(value), through_json(value)) == value


@dataclass(frozen=True)
class Pair:
    left: int
    right: tuple[int, str] | None = None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "no object of Pair"),
        ({}, "missing"),
        ({"left": 1, "middle": 2}, "Pair has no 'middle'"),
        ({"left": "1"}, "'1' is no int"),
        ({"left": True}, "True is no int"),
        ({"left": 1, "right": 5}, "5 is no list"),
        ({"left": 1, "right": [5]}, "has not 2 values"),
        ({"left": 1, "right": [5, 6]}, "6 is no str"),
    ],
)
def test_what_is_no_such_value_is_refused(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        from_json(Pair, value)


def test_an_enumeration_has_its_members_only() -> None:
    with pytest.raises(ValueError, match="f17"):
        from_json(PlanOptions, {"context_tokens": 9, "kv_format": "f17"})
    assert from_json(ModelInventory, through_json(small_inventory())).blob_bytes == small_inventory().blob_bytes
