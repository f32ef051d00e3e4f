"""The model that comes with strata: what its card claims, through the engine, and that llama.cpp says the same."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from recipes.strata_tiny.evaluation import file_weights
from recipes.strata_tiny.export import write_gguf
from recipes.strata_tiny.shape import TinyShape
from recipes.strata_tiny.vocabulary import Vocabulary
from strata.config.values import Mtp
from strata.core.kv import KvFormat
from strata.core.memory.shapes import PlanOptions
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.end_to_end.real_card import real_card
from tests.kernels.tiny_drafter import TinyDrafter
from tests.recipes.strata_tiny_chat import MODEL, first_questions

pytestmark = pytest.mark.slow

NUM_PROMPTS, NUM_TOKENS = 3, 32


@pytest.fixture(scope="module")
def f32_form(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights with nothing quantized: no other rounding of activations can come in between."""
    metadata = open_model(MODEL).metadata
    words = Vocabulary(tuple(metadata["tokenizer.ggml.tokens"]), tuple(metadata["tokenizer.ggml.merges"]))
    arrays = {name: value.numpy() for name, value in file_weights(MODEL, "cpu").items()}
    path = tmp_path_factory.mktemp("tiny") / "strata-tiny.F32.gguf"
    write_gguf(path, TinyShape(), arrays, words, is_q8=False)
    return path


def options(window_rows: int, kv_format: KvFormat = KvFormat.F16) -> PlanOptions:
    return PlanOptions(512, kv_format, window_rows=window_rows)


def greedy(
    path: Path, prompts: Sequence[tuple[int, ...]], rows: int, num_tokens: int = NUM_TOKENS
) -> tuple[list[list[int]], int, int]:
    """Replies, and drafts made and accepted."""
    with real_card(path, options(rows, KvFormat.F32), mtp=Mtp() if rows > 1 else None, arena_bytes=96 << 20) as card:
        replies = [card.serve(ids, max_tokens=num_tokens) for ids in prompts]
        counts = card.runner.snapshot().counts
    return replies, counts.num_drafts, counts.num_drafts_accepted


def test_the_file_is_small_and_most_of_it_are_experts() -> None:
    spec = spec_of(open_model(MODEL))
    assert MODEL.stat().st_size <= 15_000_000
    assert (spec.num_layers, spec.num_experts, spec.num_experts_used, spec.context_tokens) == (8, 32, 4, 8192)
    experts = sum(tensor.size_bytes for tensor in open_model(MODEL).tensors.values() if "_exps." in tensor.name)
    assert 2 * experts > MODEL.stat().st_size


def test_first_drafts_are_right_most_of_the_time_and_change_no_token() -> None:
    """The bounds that the model was made for; its card says what was measured on 128 prompts."""
    prompts = first_questions(NUM_PROMPTS)
    alone, none, _ = greedy(MODEL, prompts, 1)
    pairs, num_drafts, num_accepted = greedy(MODEL, prompts, 2)
    assert none == 0 and pairs == alone
    assert num_accepted >= 0.6 * num_drafts > 0
    threes, num_drafts, num_accepted = greedy(MODEL, prompts, 3)
    assert threes == alone
    num_windows = NUM_PROMPTS * NUM_TOKENS - num_accepted
    assert 1.3 * num_windows <= NUM_PROMPTS * NUM_TOKENS


@pytest.mark.oracle
def test_llama_cpp_says_the_same_greedy_text_and_drafts_the_same(f32_form: Path) -> None:
    from tests.oracle.llama_cpp import LlamaCpp

    (prompt,) = first_questions(1)
    ((reply,), _, _) = greedy(f32_form, [prompt], 1, num_tokens=64)
    ids = [*prompt, *reply]
    engine = TinyDrafter(spec_of(open_model(f32_form)))
    drafts = torch.stack([engine.first_draft(ids[at : at + 2], position=at) for at in range(len(ids) - 1)])
    with LlamaCpp(f32_form, has_drafter=True) as model:
        logits = model.logits(ids)
        assert np.argmax(logits[len(prompt) - 1 : -1], axis=-1).tolist() == reply
        with model.drafting(ids) as drafting:
            theirs, _ = drafting.read(ids[1:], drafting.hidden[:-1], position=1)
    assert np.abs(drafts.numpy() - theirs).max() < 1e-3
    assert drafts.argmax(-1).tolist() == np.argmax(theirs, axis=-1).tolist()


@pytest.mark.oracle
def test_llama_cpp_runs_the_served_file_unchanged() -> None:
    """It rounds activations to 8 bits there, so logits are near and not equal."""
    from tests.oracle.llama_cpp import LlamaCpp

    (prompt,) = first_questions(1)
    with real_card(MODEL, options(1, KvFormat.F32), arena_bytes=96 << 20) as card:
        card.serve(prompt, max_tokens=1)
        ours = np.frombuffer(card.logits[0], np.float32)
    with LlamaCpp(MODEL) as model:
        theirs = model.logits(list(prompt))[-1]
    assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()
    assert ours.argmax() == theirs.argmax()
