"""What is trained is what is served: logits of an exported file, of the trunk and of drafts three deep, by this engine
and by llama.cpp, against the functions that training differentiates."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from recipes.strata_tiny.network import DEPTHS
from strata.core.kv import KvFormat
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.text import load_text
from tests.kernels.tiny_drafter import TinyDrafter
from tests.kernels.tiny_engine import TinyEngine
from tests.oracle.llama_cpp import LlamaCpp
from tests.recipes.toy import SHAPE, TEXT, logits_and_drafts, spread_weights, toy_network, toy_tokenizer, write_toy

pytestmark = pytest.mark.slow

NUM_TOKENS = 72
IDS = [int(token) for token in np.random.default_rng(5).integers(0, SHAPE.vocab, NUM_TOKENS)]
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tensor, list[Tensor]]:
    weights = spread_weights(seed=3)
    path = write_toy(tmp_path_factory.mktemp("toy") / "toy.gguf", weights)
    return path, *logits_and_drafts(toy_network(weights, NUM_TOKENS), IDS)


def error_of(ours: Tensor | np.ndarray, theirs: Tensor | np.ndarray) -> float:
    return float(np.abs(np.asarray(ours) - np.asarray(theirs)).max())


def test_logits_are_those_of_training_token_by_token(toy: tuple[Path, Tensor, list[Tensor]]) -> None:
    path, trained, _ = toy
    engine = TinyEngine(spec_of(open_model(path)), kv_format=KvFormat.F32, compares_bytes=False)
    rows = [engine.read_window([token], position=at)[1] for at, token in enumerate(IDS)]
    assert float(trained.max() - trained.min()) > 1.0
    assert error_of(torch.cat(rows), trained) < TOLERANCE


def test_drafts_three_deep_are_those_of_training(toy: tuple[Path, Tensor, list[Tensor]]) -> None:
    """A chain behind every pair: the tokens it takes in are the text's, as in training."""
    path, _, trained = toy
    engine = TinyDrafter(spec_of(open_model(path)))
    for at in range(NUM_TOKENS - DEPTHS):
        drafts = [engine.first_draft(IDS[at : at + 2], position=at)]
        if at % 8:
            continue
        drafts += [engine.next_draft(IDS[at + 1 + step], step=step) for step in range(1, DEPTHS)]
        assert max(error_of(mine, rows[at]) for mine, rows in zip(drafts, trained, strict=True)) < TOLERANCE


@pytest.mark.oracle
def test_llama_cpp_reads_the_file_and_agrees(toy: tuple[Path, Tensor, list[Tensor]]) -> None:
    path, trained, drafts = toy
    with LlamaCpp(path, has_drafter=True) as model:
        assert model.tokenize(TEXT) == toy_tokenizer().encode(TEXT).ids
        assert error_of(model.logits(IDS), trained) < TOLERANCE
        with model.drafting(IDS) as drafting:
            pairs, _ = drafting.read(IDS[1:], drafting.hidden[:-1], position=1)
        assert error_of(pairs[: NUM_TOKENS - DEPTHS], drafts[0]) < TOLERANCE


def test_the_file_tells_its_text_as_training_tokenized_it(toy: tuple[Path, Tensor, list[Tensor]]) -> None:
    text = load_text(open_model(toy[0]).metadata)
    messages = [{"role": "user", "content": TEXT}]
    rendered = f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n"
    assert list(text.render_chat(messages)) == toy_tokenizer().encode(rendered).ids
    assert {text.tokenizer.vocabulary.tokens[each] for each in text.tokenizer.end_ids} == {
        "<|im_end|>",
        "<|endoftext|>",
    }


def test_q8_0_costs_little(toy: tuple[Path, Tensor, list[Tensor]], tmp_path: Path) -> None:
    _, trained, _ = toy
    spec = spec_of(open_model(write_toy(tmp_path / "q8.gguf", spread_weights(seed=3), is_q8=True)))
    engine = TinyEngine(spec, kv_format=KvFormat.F32, compares_bytes=False)
    ours = torch.cat([engine.read_window([token], position=at)[1] for at, token in enumerate(IDS[:16])])
    lost = torch.nn.functional.kl_div(
        ours.log_softmax(-1), trained[:16].log_softmax(-1), reduction="batchmean", log_target=True
    )
    assert 0 < float(lost) < 0.03
