"""First-token logits of a prompt of 15,000 tokens on a card: the same bits with each loan and without.
`python -m pytest -m gpu tests/cuda/test_loans_on_card.py`"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from bench.synth import QUANTS, SHAPES, write_model
from strata.config.values import Mtp
from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.cuda.model_on_fake import ModelOnCard, block_is_home
from tests.cuda.test_programs_on_card import model_on_card
from tests.device.cuda_bodies import why_no_card

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

NUM_TOKENS, CONTEXT = 15_000, 15_104
IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(NUM_TOKENS))
ARENA_BYTES, SEGMENT_BYTES, NUM_SLOTS = 216 * MIB, 2 * MIB, 100
ELASTIC = LendingPolicy(is_elastic=True, repeat_min_tokens=256, is_verified=True)


@dataclass(frozen=True)
class Way:
    """How a card lends; with `is_plain` nothing at all is lent, not even cache slots."""

    policy: LendingPolicy = NO_LENDING
    is_plain: bool = False

    def options(self) -> PlanOptions:
        segment_bytes = SEGMENT_BYTES if self.policy.is_elastic else 0
        num_slots = NUM_SLOTS if self.is_plain else None
        least = NUM_SLOTS if self.is_plain else 16
        return PlanOptions(
            CONTEXT,
            window_rows=8,
            policy=self.policy,
            segment_bytes=segment_bytes,
            num_cache_slots=num_slots,
            min_cache_slots=least,
        )


WAYS = {
    "nothing": Way(is_plain=True),
    "cache slots": Way(),
    "room": Way(LendingPolicy(room_min_tokens=0)),
    "verifier": Way(ELASTIC),
    "verifier, block": Way(replace(ELASTIC, lends_block=True)),
    "verifier, head": Way(replace(ELASTIC, lends_head=True)),
    "all, and the room": Way(replace(ELASTIC, lends_block=True, lends_head=True, room_min_tokens=0)),
}


def write_lending_model(path: Path) -> Path:
    shape = replace(
        SHAPES["qwen3moe-tiny"],
        layers=4,
        hidden=512,
        heads=8,
        ffn=256,
        experts=64,
        used=4,
        vocab=151_936,
        context=16_384,
        nextn=1,
    )
    write_model(path, shape, QUANTS["q4_k"], own_head=True)
    return path


def first_logits(card: ModelOnCard, way: Way) -> list[torch.Tensor]:
    """Of the first request, and of another one behind it; each loan was really out and is home."""
    seen = []
    for ids in (IDS, IDS[:0:-1]):
        card.serve(ids, max_tokens=2)
        seen.append(card.logits[0])
        facts, policy = card.runner.read_facts(), way.policy
        assert (facts.lent_slots > 0) is not way.is_plain or policy.is_elastic
        assert (facts.moved_segments > 0) is policy.is_elastic
        assert (facts.room_bytes > 0) is (policy.room_min_tokens == 0 and not policy.lends_block)
        assert block_is_home(card)
    assert (card.runner.snapshot().counts.num_verified > 0) is way.policy.is_verified
    return seen


def test_no_loan_changes_a_bit_of_the_first_token_of_a_long_prompt(tmp_path: Path):
    path = write_lending_model(tmp_path / "model.gguf")
    expected: list[torch.Tensor] = []
    for name, way in WAYS.items():
        with model_on_card(path, way.options(), arena_bytes=ARENA_BYTES, mtp=Mtp()) as card:
            seen = first_logits(card, way)
        expected = expected or seen
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(seen, expected, strict=True)), name
    assert not torch.equal(expected[0], expected[1])
