"""A read of a hybrid model that goes on from a checkpoint, on the CUDA body: the bits of a cold one that passes that
cut, whatever its chunk, those of the drafter too. In triton's interpreter."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from strata.config.values import Mtp
from strata.core.memory.shapes import PlanOptions, kv_layout_of
from tests.cuda.model_on_fake import ModelOnCard, model_on_fake
from tests.cuda.test_programs import SMALL
from tests.fixtures.drafting_models import write_random_drafter

pytestmark = pytest.mark.soak

END = 7
HISTORY = (*((11 * i * i + 5 * i) % 240 + 10 for i in range(19)), END)
"""A checkpoint stands behind it; the next whole block ends at 84."""
ONE, OTHER = ((*HISTORY, *((7 * i * i + name * i) % 240 + 10 for i in range(90))) for name in (3, 4))
COLD = PlanOptions(128, window_rows=2, chunk_tokens=128)


def said(card: ModelOnCard, ids: tuple[int, ...]) -> object:
    """Reply, bits of the logits and of the drafts, and the drafter's K/V of the prompt."""
    reply = card.serve(ids, max_tokens=3)
    rows = [row.view(torch.int32).tolist() for row in (*card.logits, *card.drafted)]
    plan = card.planned.plan
    layout = kv_layout_of(plan.inventory, plan.options)
    cells = [card.bytes_at(extent) for extent in layout.cells(plan.kv[-1], start=0, end=len(ids) - 1)]
    return reply, rows, cells, card.runner.draft_facts()


def test_a_read_from_a_checkpoint_has_the_bits_of_a_cold_one(tmp_path: Path):
    path = write_random_drafter(tmp_path / "model.gguf", arch="qwen35moe", **{**SMALL, "seed": 1, "experts": 4})
    expected = None
    for chunk_tokens in (128, 96):  # with a cut inside the first chunk, which ends at 84 where it has 96 rows
        with model_on_fake(
            path, replace(COLD, chunk_tokens=chunk_tokens), is_touched=False, mtp=Mtp(), terminators=(END,)
        ) as card:
            seen = said(card, OTHER)
        assert expected in (None, seen)
        expected = seen
    options = replace(COLD, checkpoint_bytes=1 << 20)
    with model_on_fake(path, options, is_touched=False, mtp=Mtp(), terminators=(END,)) as card:
        card.serve(ONE, max_tokens=1)
        assert said(card, OTHER) == expected
        assert card.runner.read_facts().checkpoint_tokens == len(HISTORY)
