"""What only a card can show of whole requests: `python -m pytest -m gpu tests/cuda`. Kernels as compiled, windows as
graphs, the pack read over the link; models of a few layers in shapes that real ones have."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from strata.boot_card import open_card
from strata.card_speed import CardSpeed, measure_card
from strata.config.values import Mtp
from strata.core.kv import KvFormat
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.cuda.model_on_fake import ModelOnCard, plan_on_card, started
from tests.device.cuda_bodies import why_no_card
from tests.end_to_end.real_card import real_card
from tests.fixtures.gguf_file import LinearShape
from tests.fixtures.models import write_random_model

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(700))
SHAPE: dict[str, Any] = {
    "hidden": 512,
    "heads": 8,
    "kv_heads": 2,
    "head_dim": 64,
    "ffn": 256,
    "layers": 3,
    "context": 1024,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3moe": {
        "arch": "qwen3moe",
        "quant": "Q8_0",
        "expert_quants": ("Q4_0", "Q4_1", "Q5_0"),
        "experts": 32,
        "used": 4,
    },
    "glm4moe": {"arch": "glm4moe", "quant": "Q8_0", "experts": 16},
    "mixtral": {"arch": "mixtral", "quant": "MXFP4", "experts": 8},
    "qwen2": {"arch": "qwen2", "quant": "F16", "tied": True},
    "qwen35moe": {
        "arch": "qwen35moe",
        "quant": "Q8_0",
        "experts": 32,
        "used": 4,
        "layers": 4,
        "linear": LinearShape(key_heads=4, value_heads=8, head_width=64, interval=4),
    },
    "qwen3next": {
        "arch": "qwen3next",
        "quant": "F16",
        "experts": 8,
        "layers": 2,
        "linear": LinearShape(key_heads=2, value_heads=6, head_width=128),
    },
}
BOUND = 1e-2
"""Of the largest logit, against a reference in f32: a chunk multiplies in f16, and random weights amplify."""


@contextmanager
def model_on_card(
    path: Path, options: PlanOptions, *, arena_bytes: int = 128 * MIB, mtp: Mtp | None = None
) -> Iterator[ModelOnCard]:
    planned = plan_on_card(path, options, arena_bytes=arena_bytes, segment_bytes=2 * MIB, mtp=mtp)
    with started(planned, open_card(planned), is_touched=True) as model:
        yield model


def write(folder: Path, family: str) -> Path:
    return write_random_model(folder / "model.gguf", **{**SHAPE, **FAMILIES[family]})


def bits(model: ModelOnCard) -> list[list[int]]:
    return [row.view(torch.int32).tolist() for row in model.logits]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_reference(tmp_path: Path, family: str):
    path, options = write(tmp_path, family), PlanOptions(1024)
    with real_card(path, options, arena_bytes=256 * MIB) as card:
        sampled, expected = card.serve(IDS, max_tokens=4), list(card.logits)
    cache = {} if family == "qwen2" else {"num_cache_slots": 9}
    with model_on_card(path, PlanOptions(1024, chunk_tokens=256, **cache)) as card:
        ours = card.serve(IDS, max_tokens=4)
        # Behind a near tie that falls the other way, two replies are replies to two prompts.
        num_alike = next((i for i in range(4) if ours[i] != sampled[i]), 3) + 1
        for one, row in zip(card.logits[:num_alike], expected, strict=False):
            theirs = torch.frombuffer(bytearray(row), dtype=torch.float32)
            assert (one - theirs).abs().max() < BOUND * theirs.abs().max()


@pytest.mark.parametrize(
    ("family", "kv_format"),
    [("qwen3moe", KvFormat.F16), ("qwen3moe", KvFormat.K8V4), ("qwen35moe", KvFormat.F16)],
)
def test_logits_have_the_same_bits_whatever_the_chunk_ring_and_cache(tmp_path: Path, family: str, kv_format: KvFormat):
    path, seen = write(tmp_path, family), []
    for chunk, ring, slots in ((256, 8, 3), (512, 1, 40), (768, 20, 96)):
        options = PlanOptions(1024, kv_format, chunk_tokens=chunk, ring_slots=ring, num_cache_slots=slots)
        with model_on_card(path, options) as card:
            seen.append((card.serve(IDS, max_tokens=8), bits(card)))
    assert seen[1:] == seen[:1] * 2


def test_a_reply_repeats_and_lent_slots_come_home(tmp_path: Path):
    path = write(tmp_path, "qwen3moe")
    with model_on_card(path, PlanOptions(1024, min_cache_slots=4), arena_bytes=24 * MIB) as card:
        assert card.planned.plan.lendable is not None
        first = (card.serve(IDS, max_tokens=6), bits(card))
        card.serve((5, *IDS), max_tokens=3)
        assert (card.serve(IDS, max_tokens=6), bits(card)) == first
        assert card.runner.snapshot().counts.num_loans >= 3


def test_nothing_is_allocated_while_requests_are_served(tmp_path: Path):
    """By torch either: its own memory is the programs' constants and the code of kernels."""
    with model_on_card(write(tmp_path, "glm4moe"), PlanOptions(1024, chunk_tokens=256, num_cache_slots=9)) as card:
        card.serve(IDS, max_tokens=2)
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        card.serve((9, *IDS), max_tokens=8)
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_the_doctor_measures_this_card():
    speed = measure_card(0)
    assert isinstance(speed, CardSpeed), speed
    print(speed)
    assert speed.link_gb_s > 1 and speed.hbm_gb_s > 10
