"""A row's bits depend on the row alone: not on which rows are beside it, how many, or where it stands among them."""

import importlib
import pkgutil

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kernels.triton
from tests.kernels_triton.row_ops import OPS, ROWLESS


@st.composite
def rows_of(draw, op):
    """Some rows in any order, or a stretch of neighbours."""
    if op.is_run:
        first = draw(st.integers(0, op.num_rows - 1))
        return list(range(first, draw(st.integers(first, op.num_rows - 1)) + 1))
    return draw(st.lists(st.integers(0, op.num_rows - 1), min_size=1, max_size=op.num_rows, unique=True))


@pytest.mark.slow
@pytest.mark.parametrize("make", OPS, ids=lambda make: make.__name__)
def test_a_row_has_the_same_bits_in_any_company(make):
    torch.manual_seed(20261129)
    op = make()
    together = op.compute(list(range(op.num_rows)))
    assert torch.isfinite(together).all()

    @settings(max_examples=2 if together.device.type == "cpu" else 60)
    @given(rows_of(op))
    @example([0])
    @example([op.num_rows // 2])
    @example([op.num_rows - 1])
    def check(rows):
        assert torch.equal(op.compute(rows), together[rows])

    check()


def test_no_kernel_escapes_the_property():
    named = {kernel for make in OPS for kernel in make().kernels} | set(ROWLESS)
    existing = set()
    for module in pkgutil.iter_modules(kernels.triton.__path__):
        members = vars(importlib.import_module(f"kernels.triton.{module.name}"))
        existing |= {name for name in members if name.endswith("_kernel")}
    assert existing == named
