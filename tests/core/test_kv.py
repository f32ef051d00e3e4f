"""How many bytes K and V take and where they lie, for every format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.kv import VALUES_ALIGNMENT_BYTES, CellType, KvFormat, kv_layout

SHAPES = st.fixed_dictionaries(
    {
        "kv_format": st.sampled_from(KvFormat),
        "context_tokens": st.integers(1, 5_000),
        "num_kv_heads": st.integers(1, 9),
        "head_dim": st.integers(1, 8).map(lambda blocks: 32 * blocks),
    }
)


@pytest.mark.parametrize(
    ("kv_format", "key_bytes", "value_bytes"),
    [
        (KvFormat.F32, 2_048, 2_048),
        (KvFormat.F16, 1_024, 1_024),
        (KvFormat.INT8, 544, 544),
        (KvFormat.Q4_0, 288, 288),
        (KvFormat.K8V4, 544, 288),
    ],
)
def test_a_position_of_four_heads_of_128_takes(kv_format: KvFormat, key_bytes: int, value_bytes: int) -> None:
    layout = kv_layout(kv_format=kv_format, context_tokens=1_000, num_kv_heads=4, head_dim=128)
    assert (layout.key_bytes, layout.value_bytes) == (key_bytes, value_bytes)
    assert layout.position_bytes == key_bytes + value_bytes
    assert (layout.values_start_bytes, layout.size_bytes) == (1_000 * key_bytes, 1_000 * layout.position_bytes)


@given(SHAPES)
def test_k_and_v_lie_behind_each_other_and_v_on_16_bytes(shape: dict[str, int]) -> None:
    layout = kv_layout(**shape)
    keys_bytes, values_bytes = (shape["context_tokens"] * size for size in (layout.key_bytes, layout.value_bytes))
    assert 0 <= layout.values_start_bytes - keys_bytes < VALUES_ALIGNMENT_BYTES
    assert layout.values_start_bytes % VALUES_ALIGNMENT_BYTES == 0
    assert layout.size_bytes == layout.values_start_bytes + values_bytes
    assert layout.key_bytes % 2 == layout.value_bytes % 2 == 0, "or a scale would lie on an odd address"


def test_floats_may_have_heads_of_any_width_and_blocks_may_not() -> None:
    fitting = {kv_format: kv_format.fits(head_dim=80) for kv_format in KvFormat}
    assert {kv_format for kv_format, fits in fitting.items() if fits} == {KvFormat.F16, KvFormat.F32}
    assert all(kv_format.fits(head_dim=96) for kv_format in KvFormat)


def test_q8_0_is_another_name_of_int8_and_nothing_else_is_a_name() -> None:
    assert KvFormat("q8_0") is KvFormat.INT8
    with pytest.raises(ValueError, match="'q8' is not a valid KvFormat"):
        KvFormat("q8")


def test_the_types_are_ggmls() -> None:
    assert {kind.name: int(kind) for kind in CellType} == {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8}
