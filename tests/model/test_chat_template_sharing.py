"""A value that shares its parts is small to hold and endless to walk: it is refused while it is small.

The attacks run in a process of their own, so that a mend that broke fails here within seconds.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined

from strata.model.chat_template.sizes import ELEMENT_CHARS, MAX_DEPTH, Size, Sizes
from tests.model.template_attacker import outcomes_of
from tests.model.template_attacks import ATTACKS_BY_SHARING, ATTACKS_ON_TIME, HARMLESS_SHARING

REFUSED = "the model's chat template"


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, str]:
    return outcomes_of({name: source for name, (source, _) in (ATTACKS_BY_SHARING | HARMLESS_SHARING).items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS_BY_SHARING)
def test_shared_structure_is_refused_for_what_it_does(name: str, outcomes: Mapping[str, str]) -> None:
    reason = ATTACKS_BY_SHARING[name][1]
    assert outcomes[name].startswith(REFUSED) and reason in outcomes[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", HARMLESS_SHARING)
def test_a_namespace_is_opaque(name: str, outcomes: Mapping[str, str]) -> None:
    assert outcomes[name] == HARMLESS_SHARING[name][1]


@pytest.mark.slow
def test_an_attack_that_does_not_end_is_told_from_one_that_is_refused() -> None:
    told = outcomes_of({"quick": "x", "endless": ATTACKS_ON_TIME["nested loops"], "last": "y"}, limit_seconds=0.05)
    assert told == {"quick": "x", "endless": "brought its process down: status -27", "last": "y"}


TEXT = st.text(max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
DATA: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda part: st.lists(part) | st.lists(part).map(tuple) | st.dictionaries(TEXT | st.integers(), part),
    max_leaves=10,
)


def written_out(value: Any) -> Size:
    """The definition, walked without a memory."""
    if isinstance(value, str):
        return Size(len(value), 0)
    if not isinstance(value, list | tuple | dict):
        return Size(0, 0)
    parts = [written_out(part) for part in ([*value, *value.values()] if isinstance(value, dict) else value)]
    chars = ELEMENT_CHARS * (len(value) + 1) + sum(part.chars for part in parts)
    return Size(chars, 1 + max((part.depth for part in parts), default=0))


@pytest.mark.slow
@given(DATA)
def test_a_measure_is_what_is_written_out(value: Any) -> None:
    sizes = Sizes()
    shared = [value, (value, {"a": value})]
    assert sizes.of(value) == written_out(value)
    assert sizes.of(shared) == sizes.of(shared) == written_out(shared)


@pytest.mark.slow
@given(st.dictionaries(TEXT, DATA, max_size=3))
def test_a_view_is_no_smaller_than_its_list(value: dict[str, Any]) -> None:
    for view in (value.keys(), value.values(), value.items()):
        size, listed = Sizes().of(view), written_out(list(view))
        assert size.chars >= listed.chars and size.depth >= listed.depth


def test_a_measure_of_shared_parts_takes_no_walk() -> None:
    sizes = Sizes()
    value: list[Any] = ["a"]
    for _ in range(MAX_DEPTH - 1):
        value = [value, value]
        sizes.of(value)
    assert sizes.of(value).depth == MAX_DEPTH
    assert sizes.of(value).chars > 2**MAX_DEPTH


def test_one_level_too_many_is_refused_from_within_and_from_without() -> None:
    value: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    sizes = Sizes()
    assert sizes.of(value).depth == MAX_DEPTH
    for tested in (sizes, Sizes()):
        with pytest.raises(SecurityError, match="100 levels"):
            tested.of([value])


@pytest.mark.parametrize("hidden", [object(), {"a"}, iter([]), [].index, {}.items(), print])
def test_a_container_holds_plain_data(hidden: Any) -> None:
    assert Sizes().of([Undefined(), range(3), 1.5, None]) == Size(9 * ELEMENT_CHARS, 2)
    with pytest.raises(SecurityError, match=f"not a {type(hidden).__name__}"):
        Sizes().of([hidden])
