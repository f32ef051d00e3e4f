"""Kernels against the reference on random inputs, into poisoned outputs. Bounds are on the relative error of the
norm; f16 inputs round weights to 11 bits and bf16 to 8, windows compute in f32."""

import math

import pytest
import torch

from kernels.reference import attention as reference_attention
from kernels.reference import combine as reference_combine
from kernels.reference import digest as reference_digest
from kernels.reference import experts as reference_experts
from kernels.reference import rms_norm as reference_rms_norm
from kernels.reference import rope as reference_rope
from kernels.reference import router as reference_router
from kernels.reference import sample as reference_sample
from kernels.triton import launch
from kernels.triton.packing import BF16, F16, F32, PACKED_TYPES
from kernels.triton.sizes import DOWN_GROUPED, LINEAR_F32, prompt_attention_size, window_attention_size
from strata.core.serving.request import SamplingParams, pack_sampling
from tests.kernels_triton.builders import (
    DEVICE,
    SCRATCH,
    Experts,
    Matrix,
    header_at,
    normal,
    poisoned,
    random_ids,
    relative_error,
)

TYPES = (*PACKED_TYPES, F16, BF16, F32)
Q4_0, Q8_0, Q4_K, Q6_K, IQ4_XS, MXFP4 = 2, 8, 12, 14, 23, 39
MIXES = ((Q4_K, Q4_K, Q6_K), (Q8_0, Q8_0, Q8_0), (Q4_0, Q8_0, F16), (IQ4_XS, IQ4_XS, MXFP4))


@pytest.mark.parametrize("type_id", TYPES)
@pytest.mark.parametrize("columns", [256, 1024])
def test_window_product_equals_the_weights_times_x(type_id, columns):
    matrix, x = Matrix.random(type_id, rows=20, columns=columns), normal(2, columns)
    out = poisoned(2, 20)
    launch.linear_window(x, matrix.addresses, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-5


@pytest.mark.parametrize("type_id", [Q4_0, Q8_0, MXFP4, F16])
def test_rows_that_end_inside_a_step_are_summed_to_their_end(type_id):
    matrix, x = Matrix.random(type_id, rows=12, columns=352), normal(1, 352)
    out = poisoned(1, 12)
    launch.linear_window(x, matrix.addresses, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-5


@pytest.mark.parametrize("type_id", TYPES)
@pytest.mark.parametrize(("kind", "bound"), [(torch.float16, 1e-3), (torch.bfloat16, 6e-3)])
def test_prompt_product_equals_the_weights_times_x(type_id, kind, bound):
    if kind == torch.bfloat16 and DEVICE == "cpu":
        pytest.skip("the interpreter computes bf16 wrongly: shown on a card only")
    matrix, x = Matrix.random(type_id, rows=20, columns=256), normal(37, 256, dtype=kind)
    out = poisoned(37, 20)
    launch.linear_prompt(x, matrix.addresses, type_id, out)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < bound


def test_prompt_product_in_f32_is_exact_to_f32():
    matrix, x = Matrix.random(F32, rows=20, columns=96), normal(37, 96)
    out = poisoned(37, 20)
    launch.linear_prompt(x, matrix.addresses, F32, out, size=LINEAR_F32)
    assert relative_error(out, x.double().cpu() @ matrix.weights.T) < 1e-6


def _expected_experts(experts, x, ids):
    out = torch.zeros(*ids.shape, experts.shape.hidden_size)
    reference_experts.experts(x.float().cpu(), ids.cpu(), enumerate(experts.reference), out, SCRATCH)
    return out


@pytest.mark.parametrize("types", MIXES)
def test_window_experts_equal_the_reference(types):
    experts = Experts.random(types, hidden=512, ffn=256, count=6, used=3)
    x, ids = normal(3, 512), random_ids(3, 6, 3)
    act, out = poisoned(9, 256), poisoned(3, 3, 512)
    launch.experts_window(x, ids, experts.addresses, experts.shape, act, out)
    assert relative_error(out, _expected_experts(experts, x, ids)) < 2e-5


@pytest.mark.parametrize("types", MIXES)
def test_prompt_experts_equal_the_reference_and_leave_other_experts_alone(types):
    experts = Experts.random(types, hidden=512, ffn=256, count=5, used=2)
    x, ids = normal(70, 512, dtype=torch.float16), random_ids(70, 5, 2)
    ints = {"dtype": torch.int32}
    grouping = launch.Grouping(poisoned(2, 5, **ints), poisoned(6, **ints), poisoned(5, **ints), poisoned(140, **ints))
    launch.group(ids, grouping, num_experts=5)
    assert torch.equal(grouping.sorted_pairs.cpu(), torch.sort(ids.view(-1).cpu(), stable=True).indices.int())
    assert torch.equal(grouping.totals.cpu(), torch.bincount(ids.view(-1).cpu(), minlength=5).int())
    act, out = poisoned(140, 256, dtype=torch.float16), poisoned(70, 2, 512)
    expected = _expected_experts(experts, x, ids)
    for selected in ([1, 0, 1, 0, 0], [0, 1, 0, 1, 1]):
        assert torch.isnan(out).any()
        tiles = launch.Tiles(poisoned(7, 4, **ints), poisoned(1, **ints))
        mask = torch.tensor(selected, dtype=torch.uint8, device=DEVICE)
        launch.make_tiles(grouping.starts, mask, tiles, num_experts=5, block_rows=DOWN_GROUPED.block_rows)
        launch.experts_prompt(x, grouping.sorted_pairs, tiles, experts.addresses, experts.shape, act, out)
        is_written = ~torch.isnan(out).any(dim=2)
        if selected[0]:
            assert torch.equal(is_written.cpu(), torch.isin(ids.cpu(), torch.tensor([0, 2])))
    assert relative_error(out, expected) < 3e-3


@pytest.mark.parametrize("type_id", [Q4_0, Q4_K, Q6_K])
def test_unpacked_matrix_is_the_weights(type_id):
    matrix = Matrix.random(type_id, rows=40, columns=512)
    out = poisoned(1, 40, 512)
    launch.unpack(matrix.addresses, torch.zeros(1, dtype=torch.int32, device=DEVICE), out, type_id, start=0, num_rows=40, columns=512)  # fmt: skip
    assert relative_error(out[0], matrix.weights) < 1e-6


@pytest.mark.parametrize(("position", "rows"), [(0, 70), (45, 20), (129, 3)])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_attention_equals_the_reference(position, rows, head_dim):
    q = normal(rows, 4, head_dim, dtype=torch.float16)
    keys, values = (normal(160, 2, head_dim, dtype=torch.float16) for _ in range(2))
    keys[position + rows :], values[position + rows :] = torch.nan, torch.nan
    expected, scale = torch.empty(rows, 4, head_dim), 1 / math.sqrt(head_dim)
    reference_attention.attention(q.float().cpu(), keys.cpu(), values.cpu(), expected, SCRATCH, position=position, scale=scale)  # fmt: skip
    out = poisoned(rows, 4, head_dim)
    size = prompt_attention_size(head_dim=head_dim, shared_bytes=99 * 1024)
    launch.attention_prompt(q, keys, values, header_at(position), out, scale=scale, size=size)
    assert relative_error(out, expected) < 1e-3
    if rows > 8:
        return
    out = poisoned(rows, 4, head_dim)
    window = window_attention_size(max_rows=8, num_heads=4, num_kv_heads=2, head_dim=head_dim)
    part_out, part_state = poisoned(2, rows * 4, head_dim), poisoned(2, 2, rows * 4)
    launch.attention_window(q, keys, values, header_at(position), part_out, part_state, out, scale=scale, size=window)
    assert relative_error(out, expected) < 1e-3


def test_window_attention_over_several_splits_equals_the_reference():
    q = normal(3, 2, 64, dtype=torch.float16)
    keys, values = (normal(1100, 1, 64, dtype=torch.float16) for _ in range(2))
    expected = torch.empty(3, 2, 64)
    reference_attention.attention(q.float().cpu(), keys.cpu(), values.cpu(), expected, SCRATCH, position=1022, scale=0.125)
    size = window_attention_size(max_rows=3, num_heads=2, num_kv_heads=1, head_dim=64)
    out = poisoned(3, 2, 64)
    launch.attention_window(q, keys, values, header_at(1022), poisoned(3, 6, 64), poisoned(2, 3, 6), out, scale=0.125, size=size)  # fmt: skip
    assert relative_error(out, expected) < 1e-3


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize(("rotated", "has_norm"), [(64, True), (32, True), (64, False)])
def test_heads_are_normed_roped_and_cached(is_neox, rotated, has_norm):
    qkv, weights, position = normal(3, 8, 64), normal(2, 64), 70_001
    expected = qkv.cpu().clone()
    for start, stop, weight in ((0, 4, weights[0]), (4, 6, weights[1])):
        part = expected[:, start:stop].reshape(-1, 64)
        if has_norm:
            reference_rms_norm.rms_norm(part, weight.cpu(), 1e-6, part, SCRATCH)
        part = part.view(3, -1, 64)
        reference_rope.rope(part, position=position, base=1e6, num_dims=rotated, is_neox=is_neox)
        expected[:, start:stop] = part
    frequencies = 1e6 ** -(torch.arange(0, rotated, 2, dtype=torch.float64) / rotated)
    table, header = poisoned(3, 2, rotated // 2), header_at(position)
    launch.angles(header, frequencies.to(DEVICE), table)
    # Only the cells at the end of a long cache exist here: the kernel is given the address that cell 0 would have.
    cells = [poisoned(position + 4, 2, 64, dtype=torch.float16) for _ in range(2)]
    q = poisoned(3, 4, 64)
    norm = (weights[0].contiguous(), weights[1].contiguous()) if has_norm else (None, None)
    launch.heads(qkv, table, *norm, header, q, *cells, epsilon=1e-6, is_neox=is_neox)
    assert relative_error(q, expected[:, :4]) < 1e-6
    assert relative_error(cells[0][position : position + 3], expected[:, 4:6].half()) < 1e-4
    assert torch.equal(cells[1][position : position + 3].cpu(), expected[:, 6:].half())
    for cache in cells:
        assert torch.isnan(cache[:position]).all() and torch.isnan(cache[position + 3 :]).all()


def test_norm_equals_the_reference():
    x, weight, expected, out = normal(5, 576), normal(576), torch.empty(5, 576), poisoned(5, 576)
    reference_rms_norm.rms_norm(x.cpu(), weight.cpu(), 1e-5, expected, SCRATCH)
    launch.rms_norm(x, weight, out, epsilon=1e-5)
    assert relative_error(out, expected) < 1e-6


def test_router_takes_the_lower_id_of_equals():
    logits = normal(40, 24).round()  # many ties
    expected_ids, expected = torch.empty(40, 6, dtype=torch.int32), torch.empty(40, 6)
    reference_router.route(logits.cpu(), expected_ids, expected, torch.zeros(24, dtype=torch.int32), SCRATCH, weights_scale=1.5)  # fmt: skip
    ids, weights = poisoned(40, 6, dtype=torch.int32), poisoned(40, 6)
    launch.route(logits, ids, weights, weights_scale=1.5)
    assert torch.equal(ids.cpu(), expected_ids)
    assert relative_error(weights, expected) < 1e-6


def test_combine_adds_in_router_order():
    parts, weights, hidden = normal(5, 4, 300), normal(5, 4), normal(5, 300)
    expected = hidden.cpu().clone()
    reference_combine.combine(parts.cpu(), weights.cpu(), expected, SCRATCH)
    launch.combine(parts, weights, hidden)
    assert relative_error(hidden, expected) < 1e-6


@pytest.mark.parametrize("type_id", [Q4_0, Q4_K, Q6_K, F16])
def test_embedding_is_the_row_of_the_token(type_id):
    matrix = Matrix.random(type_id, rows=30, columns=512)
    tokens = torch.tensor([29, 0, 7], dtype=torch.int32, device=DEVICE)
    out = poisoned(3, 512)
    launch.embed(tokens, matrix.addresses, type_id, out, vocab_size=30)
    assert relative_error(out, matrix.weights[[29, 0, 7]]) < 1e-6


@pytest.mark.parametrize("size_bytes", [8, 4096, 65_536 + 24])
def test_digest_equals_the_reference_bit_for_bit(size_bytes):
    data = torch.randint(0, 256, (size_bytes,), dtype=torch.uint8)
    parts, out = (torch.zeros(count, dtype=torch.uint64, device=DEVICE) for count in (8, 1))
    launch.digest(data.to(DEVICE), parts, out)
    assert int(out.cpu().view(torch.int64)[0]) & (1 << 64) - 1 == reference_digest.digest(data)


def test_fill_writes_every_byte_and_none_beyond():
    target = torch.zeros(5_000, dtype=torch.uint8, device=DEVICE)
    launch.fill(target[:4_097], 0xA5)
    assert (target[:4_097] == 0xA5).all() and (target[4_097:] == 0).all()


def _sample_inputs(vocab, params):
    words = torch.frombuffer(bytearray(pack_sampling(params, prompt_tokens=3)), dtype=torch.int64).to(DEVICE)
    counts = (torch.rand(vocab) < 0.1).int().to(DEVICE) * 2
    seen, terminators = ((torch.rand(vocab) < 0.1).to(torch.uint8).to(DEVICE) for _ in range(2))
    return words, normal(vocab, scale=0.1), counts, seen, terminators


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.0),
        SamplingParams(temperature=0.7, seed=5),
        SamplingParams(temperature=1.3, seed=2**62 + 1, repetition_penalty=1.3, presence_penalty=0.5, min_tokens=9),
        SamplingParams(temperature=0.0, frequency_penalty=0.9, repetition_penalty=0.8),
    ],
)
def test_sampled_tokens_are_those_of_the_reference(params):
    vocab, rows, position = 2_500, 3, 6
    words, bias, counts, seen, terminators = _sample_inputs(vocab, params)
    logits = normal(rows, vocab, scale=3.0)
    logits[0] = logits[0].round()  # ties
    tables = reference_sample.TokenTables(bias.cpu(), counts.cpu(), seen.cpu(), terminators.cpu())
    wishes = reference_sample.Sampling(
        params.seed, params.temperature == 0.0, params.temperature, 0, 1.0, 0.0, params.repetition_penalty,
        params.presence_penalty, params.frequency_penalty,
    )  # fmt: skip
    expected = [
        reference_sample.sample(
            logits[row].cpu(), tables, wishes, SCRATCH, position=position + row,
            terminators_masked=position + row + 1 - 3 < params.min_tokens,
        )
        for row in range(rows)
    ]  # fmt: skip
    result = poisoned(rows, dtype=torch.int64)
    best, where = poisoned(rows, 3, dtype=torch.float64), poisoned(rows, 3, dtype=torch.int32)
    launch.sample(logits, words, bias, counts, seen, terminators, header_at(position), best, where, result)
    assert result.tolist() == expected


def test_a_row_without_a_token_says_so():
    words, bias, counts, seen, terminators = _sample_inputs(1_500, SamplingParams(temperature=0.0))
    logits = normal(3, 1_500)
    logits[0, 1_200], logits[1] = torch.nan, -torch.inf
    result, best, where = poisoned(3, dtype=torch.int64), poisoned(3, 2, dtype=torch.float64), poisoned(3, 2, dtype=torch.int32)
    launch.sample(logits, words, bias, counts, seen, terminators, header_at(0), best, where, result)
    assert result.tolist()[:2] == [-1, -1] and result.tolist()[2] >= 0
