"""Whole requests on the CUDA body: logits as on the CPU reference, and the same bits whatever chunk, ring and cache.

Kernels run in triton's interpreter; what a compiler makes of them is tested on a card. Models are as small as they can
be, since the interpreter takes milliseconds a program."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from strata.core.errors import DeviceError
from strata.core.kv import KvFormat
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from tests.cuda.builders import SEGMENT_BYTES
from tests.cuda.model_on_fake import model_on_fake
from tests.end_to_end.real_card import real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

IDS = tuple((7 * i * i + 3 * i) % 256 for i in range(18))
SMALL: dict[str, Any] = {"hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 288}
SOAK = pytest.mark.soak
FAMILIES = {
    "qwen3moe": {"arch": "qwen3moe", "quant": "Q8_0", "expert_quants": ("Q4_0", "Q8_0", "Q5_0")},
    "qwen2": {"arch": "qwen2", "quant": "Q4_1", "tied": True, "layers": 1},
    "glm4moe": {"arch": "glm4moe", "quant": "Q8_0", "layers": 2},
    "qwen3next": {"arch": "qwen3next", "quant": "Q8_0", "layers": 4},
    "mixtral": {"arch": "mixtral", "head_dim": 64},
    "llama": {"arch": "llama", "quant": "BF16"},
    "qwen3": {"arch": "qwen3", "quant": "MXFP4", "head_dim": 16},
}
BOUND = 5e-3
"""Of the largest logit. Queries, probabilities and a chunk's activations are f16, and a model of 32 numbers a row has
no crowd in which roundings cancel; a wrong expert, cell or angle is wrong by tenths."""
BOUND_OF_BLOCKS = 2e-2
"""A number that a rounding takes over the edge between two codes of 4 bits is wrong by a sixteenth of its block's
largest."""


def write(folder: Path, family: str, **change: Any) -> Path:
    return write_random_model(folder / "model.gguf", **{**SMALL, **FAMILIES[family], **change})


def assert_near(ours: list[torch.Tensor], theirs: list[bytes], bound: float) -> None:
    assert len(ours) == len(theirs) > 0
    for one, row in zip(ours, theirs, strict=True):
        other = torch.frombuffer(bytearray(row), dtype=torch.float32)
        assert (one - other).abs().max() < bound * other.abs().max()


CASES = [("qwen2", KvFormat.F16), ("glm4moe", KvFormat.K8V4)]
RARER = [("qwen3moe", KvFormat.INT8), ("mixtral", KvFormat.F16), ("llama", KvFormat.Q4_0), ("glm4moe", KvFormat.F16)]
RARER += [("qwen3next", KvFormat.F16)]


@pytest.mark.parametrize(("family", "kv_format"), [*CASES, *(pytest.param(*case, marks=SOAK) for case in RARER)])
def test_logits_are_those_of_the_reference(tmp_path: Path, family: str, kv_format: KvFormat):
    path = write(tmp_path, family)
    with real_card(path, PlanOptions(64, kv_format)) as card:
        sampled, expected = card.serve(IDS, max_tokens=2), list(card.logits)
    is_mixture = family not in ("llama", "qwen2", "qwen3")
    cache = {"num_cache_slots": 7} if is_mixture else {}
    options = PlanOptions(64, kv_format, chunk_tokens=16, **cache)
    with model_on_fake(path, options, is_touched=not is_mixture) as card:
        assert card.serve(IDS, max_tokens=2) == sampled
        assert_near(card.logits, expected, BOUND if kv_format is KvFormat.F16 else BOUND_OF_BLOCKS)
        counts = card.runner.snapshot().counts
        assert (counts.ring_entries > 0, counts.expert_reads_missed > 0) == (is_mixture, is_mixture)


def test_logits_have_the_same_bits_whatever_the_chunk_ring_cache_and_loan(tmp_path: Path):
    """Every blob is at home again before the first window; with a slab the chunk's scratch lies in lent slots too."""
    path = write(tmp_path, "qwen3moe", layers=1, experts=64, ffn=64)
    geometries = {
        PlanOptions(64, chunk_tokens=16, ring_slots=1, num_cache_slots=2): 60,
        PlanOptions(64, chunk_tokens=64, ring_slots=8, num_cache_slots=8): 60,
        PlanOptions(64, chunk_tokens=16, min_cache_slots=3): 20,
        PlanOptions(64, chunk_tokens=16, min_cache_slots=3, has_slab=True): 20,
    }
    seen = []
    for options, num_segments in geometries.items():
        with model_on_fake(path, options, arena_bytes=num_segments * SEGMENT_BYTES, is_touched=False) as card:
            ids = card.serve(IDS, max_tokens=1)
            seen.append((ids, [row.view(torch.int32).tolist() for row in card.logits]))
            counts = card.runner.snapshot().counts
            assert (counts.ring_entries > 0, counts.num_loans) == (True, options.min_cache_slots == 3)
            assert (card.runner.read_facts().slab_bytes > 0) == options.has_slab
    assert seen[1:] == seen[:1] * 3


@SOAK
def test_segments_moved_behind_the_arena_change_no_bit(tmp_path: Path):
    """An elastic loan: the read works on the verifier's memory, under other addresses."""
    path = write(tmp_path, "qwen3moe", layers=1, experts=32, vocab=800)
    elastic = PlanOptions(
        64,
        chunk_tokens=16,
        min_cache_slots=3,
        policy=LendingPolicy(is_elastic=True),
        segment_bytes=SEGMENT_BYTES,
    )
    seen = []
    for options, num_segments in ((PlanOptions(64, chunk_tokens=16, num_cache_slots=8), 60), (elastic, 20)):
        with model_on_fake(path, options, arena_bytes=num_segments * SEGMENT_BYTES, is_touched=False) as card:
            ids = card.serve(IDS, max_tokens=2)
            seen.append((ids, [row.view(torch.int32).tolist() for row in card.logits]))
            assert (card.runner.snapshot().counts.num_segment_loans > 0) == (options is elastic)
    assert seen[0] == seen[1]


SWAPPING = PlanOptions(64, num_cache_slots=4, ring_slots=4, chunk_tokens=16, num_swaps=2, swap_windows=1)


def test_a_card_counts_the_reads_that_the_reference_counts(tmp_path: Path):
    path = write(tmp_path, "qwen3moe", layers=1, experts=16)
    with real_card(path, SWAPPING) as card:
        card.serve(IDS[:1], max_tokens=2)
        expected = card.runner._state.at.cache.heat
    with model_on_fake(path, SWAPPING, is_touched=False) as card:
        card.serve(IDS[:1], max_tokens=2)
        heat = card.runner._state.at.cache.heat
    assert heat == expected and sum(share > 0 for share in heat) > 1


@SOAK
def test_exchanged_blobs_change_no_bit(tmp_path: Path):
    path, seen, num_swaps = write(tmp_path, "qwen3moe", layers=1, experts=16), [], []
    for options in (replace(SWAPPING, num_swaps=0), SWAPPING):
        with model_on_fake(path, options, is_touched=False) as card:
            ids = card.serve(IDS[:1], max_tokens=6)
            seen.append((ids, [row.view(torch.int32).tolist() for row in card.logits]))
            num_swaps.append(card.runner.snapshot().counts.num_swaps)
    assert seen[0] == seen[1] and num_swaps[0] == 0 < num_swaps[1]


def test_logits_have_the_same_bits_whatever_is_pinned(tmp_path: Path):
    """Kernels follow addresses of the pinned part, and find the rest in slots."""
    path, seen, staged = write(tmp_path, "qwen3moe", layers=1, experts=16), [], []
    options = replace(SWAPPING, num_swaps=0)
    for pinned_bytes in (None, 4096):
        with model_on_fake(path, replace(options, pinned_bytes=pinned_bytes), is_touched=False) as card:
            ids = card.serve(IDS[:1], max_tokens=2)
            seen.append((ids, [row.view(torch.int32).tolist() for row in card.logits]))
            staged.append(card.runner.snapshot().counts.staged_reads)
            pack, device = card.planned.plan.pack, card.device
            assert device.pinned_pack_bytes == pack.pinned_bytes
            assert device.describe().pageable_pack_bytes == pack.size_bytes - pack.pinned_bytes
    assert seen[0] == seen[1] and staged[0] == 0 < staged[1]


@SOAK
def test_a_sampled_reply_is_that_of_the_reference(tmp_path: Path):
    """Same noise, penalties, bias and mask; the seed is one whose draws are not near ties."""
    path = write(tmp_path, "qwen3moe", layers=1)
    wishes = SamplingParams(1.3, 40, 0.95, 0.01, 1.1, 0.2, 0.1, 7, min_tokens=2, logit_bias=((5, 3.0),))
    with real_card(path, PlanOptions(64)) as card:
        expected = card.serve(IDS[:4], max_tokens=4, sampling=wishes)
    with model_on_fake(path, PlanOptions(64, chunk_tokens=16), is_touched=False) as card:
        assert card.serve(IDS[:4], max_tokens=4, sampling=wishes) == expected


@SOAK
def test_logits_that_allow_no_token_are_an_error_and_no_token(tmp_path: Path):
    path = write(tmp_path, "qwen3moe", layers=1)
    wishes = SamplingParams(0.0, logit_bias=tuple((i, float("-inf")) for i in range(288)))
    with model_on_fake(path, PlanOptions(64, chunk_tokens=16), is_touched=False) as card:
        with pytest.raises(DeviceError, match="no token can follow"):
            card.serve(IDS[:2], max_tokens=1, sampling=wishes)
        card.runner.recover()
        assert len(card.serve(IDS[:2], max_tokens=1)) == 1
