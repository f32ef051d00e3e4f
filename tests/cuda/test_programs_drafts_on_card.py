"""What only a card can show of drafts: `python -m pytest -m gpu tests/cuda`. Kernels as compiled, drafts and windows as
graphs; models of a few layers in shapes that real ones have, hybrids with a state among them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from strata.config.values import Mtp
from strata.core.kv import KvFormat
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from strata.core.units import MIB
from strata.engine.updates import DraftFacts
from tests.cuda.model_on_fake import ModelOnCard, block_is_home
from tests.cuda.test_programs_on_card import BOUND, SHAPE, WHY_NO_CARD, bits, model_on_card
from tests.end_to_end.dictated_drafts import Drafted
from tests.end_to_end.real_card import real_card
from tests.fixtures.drafting_models import write_random_drafter
from tests.fixtures.gguf_file import LinearShape
from tests.fixtures.lend_model import write_lend_model, write_lend_pair

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(400))
LINEAR = LinearShape(key_heads=4, value_heads=8, head_width=64, interval=4)
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3moe": {"quant": "Q8_0", "expert_quants": ("Q4_0", "Q4_1", "Q5_0"), "experts": 32, "used": 4},
    "qwen35moe": {
        "quant": "Q8_0",
        "expert_quants": ("Q4_0", "Q4_0", "MXFP4"),
        "experts": 32,
        "used": 4,
        "layers": 4,
        "linear": LINEAR,
    },
    "qwen3next": {"quant": "F16", "layers": 4, "linear": LINEAR},
    "qwen35": {"quant": "Q8_0", "layers": 4, "linear": LINEAR},
    "glm4moe": {"quant": "Q8_0", "experts": 16, "seed": 6},
}
OPTIONS = PlanOptions(1024, chunk_tokens=256)
SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.0, repetition_penalty=1.3, presence_penalty=0.8, frequency_penalty=0.6),
    SamplingParams(temperature=0.7, seed=3, repetition_penalty=1.1, frequency_penalty=0.2),
    SamplingParams(temperature=1.0, seed=5, top_p=0.9, logit_bias=((7, 1.5),)),
)


def write(folder: Path, family: str) -> Path:
    return write_random_drafter(folder / "model.gguf", arch=family, **{**SHAPE, "seed": 1, **FAMILIES[family]})


def options_of(family: str, **change: Any) -> PlanOptions:
    cache = {} if family == "qwen35" else {"num_cache_slots": 9}
    return replace(OPTIONS, **{**cache, **change})


def said(card: ModelOnCard, sampling: SamplingParams, *, max_tokens: int = 40) -> tuple[object, DraftFacts]:
    """All that a reply is and leaves: ids, bits of logits, recurrent state."""
    ids = card.serve(IDS, max_tokens=max_tokens, sampling=sampling)
    plan = card.planned.plan
    states = [card.bytes_at(extent) for extent in plan.state[: plan.inventory.num_layers]]
    return (ids, bits(card), states), card.runner.draft_facts()


def drafts_of(card: ModelOnCard) -> list[list[int]]:
    return [row.view(torch.int32).tolist() for row in card.drafted]


@pytest.mark.parametrize("family", FAMILIES)
def test_drafts_are_those_of_the_reference(tmp_path: Path, family: str):
    """The chain of the first two drafts, behind the drafter's cells of the whole prompt."""
    path, drafted = write(tmp_path, family), Drafted()
    with real_card(
        path, PlanOptions(1024, window_rows=3), mtp=Mtp(), arena_bytes=256 * MIB, change=drafted.change
    ) as card:
        token, *_ = card.serve(IDS, max_tokens=3)
    theirs = torch.frombuffer(bytearray(drafted.said[1][0]), dtype=torch.float32)
    with model_on_card(path, options_of(family, window_rows=3), mtp=Mtp()) as card:
        assert card.serve(IDS, max_tokens=3)[0] == token
        assert (card.drafted[0] - theirs).abs().max() < 2 * BOUND * theirs.abs().max()


@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_reply_with_drafts_has_the_ids_logits_and_state_of_one_without(tmp_path: Path, family: str, rows: int):
    path = write(tmp_path, family)
    with model_on_card(path, options_of(family), mtp=Mtp()) as card:
        plain = [said(card, sampling) for sampling in SAMPLINGS]
    with model_on_card(path, options_of(family, window_rows=rows), mtp=Mtp()) as card:
        drafted = [said(card, sampling) for sampling in SAMPLINGS]
    assert [reply for reply, _ in drafted] == [reply for reply, _ in plain]
    for _, facts in drafted:
        assert 0 < facts.num_accepted < facts.num_drafts


def test_windows_of_eight_rows_over_cells_in_blocks_say_the_same_twice(tmp_path: Path):
    """The widest window there is; its attention is of another size, so it is compared with itself."""
    options = options_of("qwen35moe", window_rows=8, kv_format=KvFormat.K8V4)
    with model_on_card(write(tmp_path, "qwen35moe"), options, mtp=Mtp()) as card:
        first, second = (said(card, SAMPLINGS[2]) for _ in range(2))
        assert first == second
        assert 0 < first[1].num_accepted < first[1].num_drafts


ROOM = LendingPolicy(room_min_tokens=0, is_verified=True)
ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=100, is_verified=True)


@pytest.mark.parametrize("family", ["qwen3moe", "qwen35moe"])
def test_what_is_drafted_behind_a_loan_has_the_bits_of_no_loan(tmp_path: Path, family: str):
    """The block is at home byte for byte, and no bit of a logit or a draft is another; also behind a continuation."""
    path, seen = write(tmp_path, family), []
    plain = options_of(family, window_rows=3)
    for options, arena_bytes in ((plain, 128 * MIB), (lending(ROOM), 34 * MIB), (lending(ELASTIC), 34 * MIB)):
        with model_on_card(path, options, mtp=Mtp(), arena_bytes=arena_bytes) as card:
            talk: list[object] = []
            for ids in (IDS, (*IDS, *range(7)), IDS[::-1]):
                talk += [card.serve(ids, max_tokens=12), bits(card), drafts_of(card), card.runner.draft_facts()]
                assert block_is_home(card)
            seen.append(talk)
            counts = card.runner.snapshot().counts
            assert (counts.room_bytes > 0) == (options.policy is ROOM)
            assert (counts.num_segment_loans > 1) == (options.policy is ELASTIC)
    assert seen[1:] == seen[:1] * 2


def lending(policy: LendingPolicy) -> PlanOptions:
    return replace(OPTIONS, window_rows=3, min_cache_slots=4, policy=policy, segment_bytes=2 * MIB)


def test_a_drafter_in_a_file_of_its_own_drafts_what_it_drafts_in_the_model(tmp_path: Path):
    pair, whole = write_lend_pair(tmp_path), write_lend_model(tmp_path / "model.gguf")
    seen = []
    for path, mtp in ((whole, Mtp()), (pair.trunk, Mtp(str(pair.drafter)))):
        with model_on_card(path, replace(OPTIONS, window_rows=3, num_cache_slots=40), mtp=mtp) as card:
            seen.append((said(card, SAMPLINGS[0]), drafts_of(card)))
            assert block_is_home(card) and seen[-1][1]
    assert seen[0] == seen[1]


def test_nothing_is_allocated_while_drafts_are_made(tmp_path: Path):
    with model_on_card(write(tmp_path, "qwen35moe"), options_of("qwen35moe", window_rows=4), mtp=Mtp()) as card:
        card.serve(IDS, max_tokens=2)
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        card.serve((9, *IDS), max_tokens=20)
        assert card.runner.draft_facts().num_drafts > 0
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
