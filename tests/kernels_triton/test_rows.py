"""What is done row by row, or byte by byte, against the reference, into poisoned outputs."""

import pytest
import torch

from kernels.reference import combine as reference_combine
from kernels.reference import digest as reference_digest
from kernels.reference import rms_norm as reference_rms_norm
from kernels.reference import router as reference_router
from kernels.triton import launch_rows
from tests.kernels_triton.builders import DEVICE, SCRATCH, normal, poisoned, relative_error


def test_norm_equals_the_reference():
    x, weight, expected, out = normal(5, 576), normal(576), torch.empty(5, 576), poisoned(5, 576)
    reference_rms_norm.rms_norm(x.cpu(), weight.cpu(), 1e-5, expected, SCRATCH)
    launch_rows.rms_norm(x, weight, out, epsilon=1e-5)
    assert relative_error(out, expected) < 1e-6


def test_router_takes_the_lower_id_of_equals():
    logits = normal(40, 24).round()  # many ties
    expected_ids, expected = torch.empty(40, 6, dtype=torch.int32), torch.empty(40, 6)
    reference_router.route(
        logits.cpu(), expected_ids, expected, torch.zeros(24, dtype=torch.int32), SCRATCH, weights_scale=1.5
    )
    ids, weights = poisoned(40, 6, dtype=torch.int32), poisoned(40, 6)
    launch_rows.route(logits, ids, weights, weights_scale=1.5)
    assert torch.equal(ids.cpu(), expected_ids)
    assert relative_error(weights, expected) < 1e-6


@pytest.mark.parametrize("is_sigmoid", [False, True])
@pytest.mark.parametrize("normalizes", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_router_chooses_and_weighs_as_the_reference(is_sigmoid, normalizes, has_bias):
    """The bias changes who is chosen, never with what weight."""
    logits, bias = normal(12, 24).round(decimals=1), normal(24)
    kind = {"is_sigmoid": is_sigmoid, "normalizes": normalizes, "weights_scale": 2.5}
    expected_ids, expected = torch.empty(12, 6, dtype=torch.int32), torch.empty(12, 6)
    counts = torch.zeros(24, dtype=torch.int32)
    known = bias.cpu() if has_bias else None
    reference_router.route(logits.cpu(), expected_ids, expected, counts, SCRATCH, **kind, bias=known)
    ids, weights = poisoned(12, 6, dtype=torch.int32), poisoned(12, 6)
    launch_rows.route(logits, ids, weights, **kind, bias=bias if has_bias else None)
    assert torch.equal(ids.cpu(), expected_ids)
    assert relative_error(weights, expected) < 1e-6


def test_combine_adds_in_router_order():
    parts, weights, hidden = normal(5, 4, 300), normal(5, 4), normal(5, 300)
    expected = hidden.cpu().clone()
    reference_combine.combine(parts.cpu(), weights.cpu(), expected, SCRATCH)
    launch_rows.combine(parts, weights, hidden)
    assert relative_error(hidden, expected) < 1e-6


@pytest.mark.parametrize("size_bytes", [8, 4096, 65_536 + 24])
def test_digest_equals_the_reference_bit_for_bit(size_bytes):
    data = torch.randint(0, 256, (size_bytes,), dtype=torch.uint8)
    parts, out = (torch.zeros(count, dtype=torch.uint64, device=DEVICE) for count in (8, 1))
    launch_rows.digest(data.to(DEVICE), parts, out)
    assert int(out.cpu().view(torch.int64)[0]) & (1 << 64) - 1 == reference_digest.digest(data)


def test_fill_writes_every_byte_and_none_beyond():
    target = torch.zeros(5_000, dtype=torch.uint8, device=DEVICE)
    launch_rows.fill(target[:4_097], 0xA5)
    assert (target[:4_097] == 0xA5).all() and (target[4_097:] == 0).all()
