"""Drafts on the CUDA body: what is drafted and what stands is as on the CPU reference, and a reply with drafts has the
bits of the reply without, whatever was lent while its prompt was read. In triton's interpreter, as `test_programs.py`.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from strata.config.values import Mtp
from strata.core.kv import KvFormat
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import PROBABILITY_WORD
from strata.core.serving.request import SamplingParams
from strata.engine.updates import DraftFacts
from tests.cuda.builders import SEGMENT_BYTES
from tests.cuda.model_on_fake import ModelOnCard, block_is_home, model_on_fake
from tests.cuda.test_programs import BOUND, BOUND_OF_BLOCKS, SMALL, assert_near
from tests.end_to_end.dictated_drafts import Drafted
from tests.end_to_end.real_card import real_card
from tests.fixtures.drafting_models import write_random_drafter

pytestmark = pytest.mark.slow

SOAK = pytest.mark.soak
IDS = tuple((7 * i * i + 3 * i) % 256 for i in range(6))
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen35moe": {},
    "qwen3next": {"quant": "BF16"},
    "qwen3moe": {"expert_quants": ("Q4_0", "Q8_0", "Q5_0")},
    "glm4moe": {"quant": "F16"},
}
CASES = [("qwen35moe", 3, KvFormat.F16, 4)]
RARER = [("qwen3next", 4, KvFormat.F16, 9), ("qwen3moe", 8, KvFormat.F16, 12), ("glm4moe", 2, KvFormat.K8V4, 9)]
PENALTIES = {"repetition_penalty": 1.1, "presence_penalty": 0.3, "frequency_penalty": 0.2}
SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.7, seed=3, **PENALTIES),
    SamplingParams(temperature=1.0, seed=5, top_p=0.9, logit_bias=((7, 1.5),)),
)


def write(folder: Path, family: str, **change: Any) -> Path:
    shape = {**SMALL, "seed": 1, "experts": 4, **FAMILIES[family], **change}
    return write_random_drafter(folder / "model.gguf", arch=family, **shape)


@contextmanager
def drafting(path: Path, options: PlanOptions, **change: Any) -> Iterator[ModelOnCard]:
    options = replace(options, chunk_tokens=16)
    with model_on_fake(path, options, is_touched=False, mtp=Mtp(), **change) as card:
        yield card


@pytest.mark.parametrize(
    ("family", "rows", "kv_format", "max_tokens"), [*CASES, *(pytest.param(*case, marks=SOAK) for case in RARER)]
)
def test_drafts_and_reply_are_those_of_the_reference(
    tmp_path: Path, family: str, rows: int, kv_format: KvFormat, max_tokens: int
):
    path, drafted = write(tmp_path, family), Drafted()
    options = PlanOptions(64, kv_format, window_rows=rows)
    with real_card(path, options, mtp=Mtp(), change=drafted.change) as card:
        sampled, expected, facts = card.serve(IDS, max_tokens=max_tokens), list(card.logits), card.runner.draft_facts()
    likely = drafted.probabilities[1 - rows :]
    last_drafts = [logits for logits, _ in drafted.said][rows - 2 :: rows - 1]
    assert 0 < facts.num_accepted < facts.num_drafts
    bound = BOUND if kv_format is KvFormat.F16 else BOUND_OF_BLOCKS
    with drafting(path, options) as card:
        assert card.serve(IDS, max_tokens=max_tokens) == sampled
        assert card.runner.draft_facts() == facts
        assert_near(card.logits, expected, bound)
        assert_near(card.drafted, last_drafts, 2 * bound)
        word = 8 * PROBABILITY_WORD
        found = card.bytes_at(card.planned.plan.verifier.window.result)[word : word + 8 * (rows - 1)]
        assert struct.unpack(f"<{rows - 1}d", found) == pytest.approx(likely, rel=0.05)


def said(
    card: ModelOnCard, sampling: SamplingParams, *, max_tokens: int, ids: tuple[int, ...] = IDS
) -> tuple[object, DraftFacts]:
    """All that a reply is and leaves: ids, bits of logits, recurrent state."""
    sampled = card.serve(ids, max_tokens=max_tokens, sampling=sampling)
    logits = [row.view(torch.int32).tolist() for row in card.logits]
    plan = card.planned.plan
    states = [card.bytes_at(extent) for extent in plan.state[: plan.inventory.num_layers]]
    return (sampled, logits, states), card.runner.draft_facts()


@SOAK
@pytest.mark.parametrize("family", ["qwen35moe", "qwen3moe"])
def test_a_reply_with_drafts_has_the_ids_logits_and_state_of_one_without(tmp_path: Path, family: str):
    path, options = write(tmp_path, family), PlanOptions(64)
    with drafting(path, options) as card:
        plain = [said(card, sampling, max_tokens=7) for sampling in SAMPLINGS]
        assert all(facts.num_drafts == 0 for _, facts in plain)
    with drafting(path, replace(options, window_rows=3)) as card:
        drafted = [said(card, sampling, max_tokens=7) for sampling in SAMPLINGS]
    assert [reply for reply, _ in drafted] == [reply for reply, _ in plain]
    accepted = [facts.num_accepted for _, facts in drafted]
    assert sum(accepted) > 2 and sum(accepted) < sum(facts.num_drafts for _, facts in drafted)


LONGER = tuple((5 * i * i + 3 * i) % 256 for i in range(20))
LOANS = {
    "none": (60, LendingPolicy()),
    "room": (41, LendingPolicy(room_min_tokens=0, is_verified=True)),
    "elastic": (41, LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=2)),
}


@SOAK
def test_what_is_drafted_behind_a_loan_has_the_bits_of_no_loan(tmp_path: Path):
    path = write(tmp_path, "qwen3moe", layers=1, experts=32, vocab=800)
    seen = []
    for way, (num_segments, policy) in LOANS.items():
        lent = {"min_cache_slots": 3, "policy": policy, "segment_bytes": SEGMENT_BYTES}
        options = PlanOptions(64, window_rows=3, **(lent if way != "none" else {"num_cache_slots": 8}))
        with drafting(path, options, arena_bytes=num_segments * SEGMENT_BYTES) as card:
            reply, facts = said(card, SAMPLINGS[0], max_tokens=4, ids=LONGER)
            seen.append((reply, [row.view(torch.int32).tolist() for row in card.drafted], facts))
            assert block_is_home(card)
            counts = card.runner.snapshot().counts
            assert (counts.room_bytes > 0, counts.num_segment_loans > 0) == (way == "room", way == "elastic")
    assert seen[0][2].num_drafts > 0
    assert seen[1:] == seen[:1] * 2


@SOAK
@pytest.mark.parametrize("family", ["qwen35moe", "glm4moe"])
def test_a_prompt_that_windows_read_is_near_one_that_the_reference_reads_in_a_chunk(tmp_path: Path, family: str):
    """Tier E3: several rows a window, recurrent state that moves on without a journal, the drafter's K/V filled."""
    path, options = write(tmp_path, family), PlanOptions(64, window_rows=3)
    with real_card(path, options, mtp=Mtp()) as card:
        sampled, expected, facts = card.serve(IDS, max_tokens=3), list(card.logits), card.runner.draft_facts()
    with drafting(path, replace(options, policy=LendingPolicy(short_read_tokens=64))) as card:
        assert card.serve(IDS, max_tokens=3) == sampled
        assert (card.runner.read_facts().window_rows, card.runner.draft_facts()) == (3, facts)
        assert_near(card.logits, expected, BOUND)
