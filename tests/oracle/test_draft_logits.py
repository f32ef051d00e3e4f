"""Logits of the drafter against llama.cpp's NextN graph: behind every token, behind windows, along its own chain; and
that this would see each of the mistakes that a drafter hides well, since a wrong one only drafts worse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from strata.core.programs import DRAFT_HEAD, DraftHeadArgs
from strata.device import Memory
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.spec import ModelSpec
from tests.fixtures.models import write_random_model
from tests.kernels.tiny_drafter import TinyDrafter
from tests.oracle.llama_cpp import LlamaCpp

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOLERANCE = 1e-4
SEEN = 100 * TOLERANCE
NUM_TOKENS = 48
IDS = [int(token) for token in np.random.default_rng(21).integers(0, 320, NUM_TOKENS)]
CHAIN = 3
"""Drafts behind the last token, the first included."""
FAMILIES = ("qwen3next", "qwen35moe", "qwen35", "glm4moe")


@dataclass(frozen=True)
class Expected:
    """llama.cpp's logits: [NUM_TOKENS - 1, V] of every pair, [CHAIN, V] of the chain behind the last one. `chain_ids`
    are what the chain took in."""

    spec: ModelSpec
    pairs: np.ndarray
    chain: np.ndarray
    chain_ids: list[int]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Expected]:
    known: dict[str, Expected] = {}

    def of(family: str) -> Expected:
        if family not in known:
            path = write_random_model(tmp_path_factory.mktemp(family) / "model.gguf", arch=family, nextn=1, seed=8)
            known[family] = ask_llama_cpp(path)
        return known[family]

    return of


def ask_llama_cpp(path: Path) -> Expected:
    with LlamaCpp(path, has_drafter=True) as model, model.drafting(IDS) as drafting:
        pairs, own = drafting.read(IDS[1:], drafting.hidden[:-1], position=1)
        logits, ids = [pairs[-1]], []
        for step in range(1, CHAIN):
            ids.append(int(logits[-1].argmax()))
            row, own = drafting.read([ids[-1]], own[-1:], position=NUM_TOKENS + step - 1)
            logits.append(row[0])
    return Expected(spec_of(open_model(path)), pairs, np.stack(logits), ids)


def filled(spec: ModelSpec, cuts: Sequence[int], *, missing_pairs: int = 0) -> tuple[TinyDrafter, int]:
    """A drafter that has seen the prompt in chunks of `cuts`; `missing_pairs` at the end of each chunk."""
    engine, position = TinyDrafter(spec), 0
    for rows in cuts:
        ids = IDS[position : position + rows + 1]
        engine.fill(ids, position=position, num_pairs=rows - missing_pairs)
        position += rows
    return engine, position


def chain_error(engine: TinyDrafter, position: int, theirs: Expected) -> list[float]:
    """Of the first draft behind a window over what is left of the ids, and of those that follow it."""
    ours = [engine.first_draft(IDS[position:], position=position)]
    ours += [engine.next_draft(token, step=step) for step, token in enumerate(theirs.chain_ids, 1)]
    return [error_of(mine, expected) for mine, expected in zip(ours, theirs.chain, strict=True)]


def error_of(ours: torch.Tensor, theirs: np.ndarray) -> float:
    return float(np.abs(ours.numpy() - theirs).max())


@pytest.mark.parametrize("family", FAMILIES)
def test_draft_logits_equal_llama_cpp_token_by_token(family: str, expected: Callable[[str], Expected]) -> None:
    theirs = expected(family)
    engine = TinyDrafter(theirs.spec)
    assert np.ptp(theirs.pairs) > 1.0
    for at in range(NUM_TOKENS - 1):
        assert error_of(engine.first_draft(IDS[at : at + 2], position=at), theirs.pairs[at]) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cuts", [(46,), (1, 2, 37, 4), (20, 20)])
def test_a_chain_of_drafts_equals_llama_cpp_behind_a_prompt_in_chunks(
    family: str, cuts: tuple[int, ...], expected: Callable[[str], Expected]
) -> None:
    theirs = expected(family)
    assert len({tuple(row) for row in theirs.chain}) == CHAIN
    assert max(chain_error(*filled(theirs.spec, cuts), theirs)) < TOLERANCE


@pytest.mark.parametrize("family", ["qwen35moe", "glm4moe"])
def test_the_hidden_row_on_the_wrong_side_of_the_output_norm_is_seen(
    family: str, expected: Callable[[str], Expected]
) -> None:
    theirs = expected(family)
    wrong = replace(theirs.spec, drafts_behind_output_norm=not theirs.spec.drafts_behind_output_norm)
    assert min(chain_error(*filled(wrong, (40,)), theirs)) > SEEN


def test_a_chain_that_goes_on_before_the_norm_is_seen(expected: Callable[[str], Expected]) -> None:
    """The first draft is right then."""
    theirs = expected("qwen35moe")
    engine, position = filled(theirs.spec, (40,))
    draft_head, hidden_size = engine.programs[DRAFT_HEAD], theirs.spec.hidden_size

    def before_the_norm(memory: Memory, args: DraftHeadArgs) -> None:
        hidden = memory.write(args.buffers.hidden).view(torch.float32).view(-1, hidden_size)
        last = hidden[args.rows - 1].clone()
        draft_head(memory, args)
        hidden[0] = last

    engine.programs = {**engine.programs, DRAFT_HEAD: before_the_norm}
    first, *rest = chain_error(engine, position, theirs)
    assert first < TOLERANCE and min(rest) > SEEN


def test_embedding_and_hidden_row_in_the_other_order_are_seen(expected: Callable[[str], Expected]) -> None:
    theirs = expected("qwen35moe")
    engine, position = filled(theirs.spec, (40,))
    name = f"blk.{theirs.spec.num_layers}.nextn.eh_proj.weight"
    weight = engine.memory.raw(engine.dense[name]).view(torch.float32).view(theirs.spec.hidden_size, 2, -1)
    weight.copy_(weight.flip(1))
    assert min(chain_error(engine, position, theirs)) > SEEN


@pytest.mark.parametrize("behind_error", [-1, 1])
def test_positions_that_are_one_off_are_seen(behind_error: int, expected: Callable[[str], Expected]) -> None:
    theirs = expected("qwen35moe")
    engine, position = filled(theirs.spec, (40,))
    engine.behind_error = behind_error
    assert min(chain_error(engine, position, theirs)) > SEEN


@pytest.mark.parametrize(
    ("cuts", "missing_pairs"), [((40,), 40), ((20, 20), 1)], ids=["whole prompt", "last pair of each chunk"]
)
def test_cells_of_the_prompt_that_were_not_filled_are_seen(
    cuts: tuple[int, ...], missing_pairs: int, expected: Callable[[str], Expected]
) -> None:
    theirs = expected("qwen35moe")
    assert min(chain_error(*filled(theirs.spec, cuts, missing_pairs=missing_pairs), theirs)) > SEEN
