"""Tier E3, bitwise on this body: what windows read has the bits of what chunks read, in logits, replies and state."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.config.values import Mtp
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

OPTIONS = PlanOptions(192, chunk_tokens=16, ring_slots=3, num_cache_slots=6, min_cache_slots=2)
IDS = tuple((11 * i * i + 5 * i) % 300 for i in range(30))
FAMILIES = {
    "qwen3moe": {"arch": "qwen3moe", "layers": 2},
    "qwen3next": {"arch": "qwen3next", "layers": 4},
    "glm4moe": {"arch": "glm4moe", "layers": 2, "nextn": 1},
}


def talk(path: Path, short_tokens: int, window_rows: int, *, has_drafter: bool) -> list[object]:
    """A cold prompt, a continuation of it, and a longer one: each reply with the bits that it came from."""
    options = replace(OPTIONS, policy=LendingPolicy(short_read_tokens=short_tokens), window_rows=window_rows)
    said: list[object] = []
    with real_card(path, options, mtp=Mtp() if has_drafter else None) as card:
        for ids in (IDS[:17], IDS[:17] + IDS[20:27], IDS):
            reply = card.serve(ids, max_tokens=3)
            said.append((reply, list(card.logits)))
            facts = card.runner.read_facts()
            assert (facts.window_rows, facts.chunk_tokens > 0) == ((window_rows, False) if short_tokens else (0, True))
    return said


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_that_windows_read_has_the_bits_of_one_in_chunks(tmp_path: Path, family: str):
    shape = FAMILIES[family]
    path = write_random_model(tmp_path / "model.gguf", **shape)
    has_drafter = "nextn" in shape
    chunks = talk(path, 0, 3, has_drafter=has_drafter)
    assert all(logits for _, logits in chunks)  # type: ignore[misc]
    for window_rows in (1, 3, 8):
        assert talk(path, 64, window_rows, has_drafter=has_drafter) == chunks
