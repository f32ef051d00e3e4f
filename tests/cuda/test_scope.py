"""Declared bytes as runs, and the digest without a kernel."""

import random
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strata.core.extent import Extent
from strata.cuda import digest as digest_module
from strata.cuda.digest import torch_digest
from strata.cuda.scope import Spans
from tests.device.bench import naive_digest

extents = st.builds(Extent, st.integers(0, 40), st.integers(0, 12))


@pytest.mark.slow
@given(declared=st.lists(extents, max_size=8), asked=extents)
def test_spans_hold_an_extent_exactly_when_they_hold_each_of_its_bytes(declared: list[Extent], asked: Extent) -> None:
    held = {at for extent in declared for at in range(extent.offset_bytes, extent.end_bytes)}
    wanted = set(range(asked.offset_bytes, asked.end_bytes))
    spans = Spans(declared)
    assert spans.contains(asked) == (wanted <= held)
    runs = spans.extents()
    assert {at for run in runs for at in range(run.offset_bytes, run.end_bytes)} == held
    assert all(left.end_bytes < right.offset_bytes for left, right in pairwise(runs))


def test_many_spans_are_shown_short() -> None:
    assert str(Spans([])) == "nothing" and str(Spans([Extent(1, 2)])) == "[1, 3)"
    assert str(Spans(Extent(4 * i, 1) for i in range(20))).endswith("[28, 29), ...")


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 65, 200])
def test_the_digest_is_what_its_definition_says_at_any_offset_and_block(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(digest_module, "WORDS_AT_ONCE", 8)
    data = random.Random(size).randbytes(size)
    for offset in (0, 3):
        source = torch.frombuffer(bytearray(bytes(offset) + data + b"!"), dtype=torch.uint8)[offset : offset + size]
        assert int(torch_digest(source)) % (1 << 64) == naive_digest(data)
