"""The programs of a model, run over a memory that shows them only what was declared.

Tiers (`docs/design.md`): E1 a prompt leaves the same bits in any chunks; E2 a row of a window has the bits of a window
of one; E3 prompt path and windows have the same bits.
"""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from strata.core.errors import DeviceError
from strata.core.kv import KvFormat
from strata.core.programs import ATTENTION, EMBED, FFN, HEAD, ROUTER, HeadArgs
from strata.core.serving.request import SamplingParams
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.program_reads import dense_reads
from strata.model.spec import ModelSpec
from tests.fixtures.models import FAMILIES, HYBRIDS, write_random_model
from tests.kernels.tiny_engine import NUM_DRAFTS, TinyEngine

pytestmark = pytest.mark.slow

MIXTURES = ("mixtral", "qwen3moe")
NUM_TOKENS = 26


@cache
def spec(arch: str, quant: str = "F32") -> ModelSpec:
    return spec_of(open_model(write_random_model(Path(mkdtemp()) / "model.gguf", arch=arch, quant=quant, vocab=320)))


@cache
def prompt(count: int = NUM_TOKENS) -> tuple[int, ...]:
    return tuple(int(token) for token in np.random.default_rng(5).integers(0, 320, count))


@cache
def by_windows_of_one(arch: str, quant: str, kv_format: KvFormat) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Hidden rows, logits, and K/V and state after the prompt, read token by token."""
    engine = TinyEngine(spec(arch, quant), kv_format=kv_format)
    windows = [engine.read_window([token], position=position) for position, token in enumerate(prompt())]
    hidden, logits = (torch.cat(rows) for rows in zip(*windows, strict=True))
    return hidden, logits, memory_of(engine)


def memory_of(engine: TinyEngine) -> list[Tensor]:
    return engine.kv_bytes(NUM_TOKENS) + engine.state_bytes()


def same_memory(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


@st.composite
def cuts(draw: st.DrawFn, total: int, largest: int) -> list[int]:
    lengths: list[int] = []
    while (left := total - sum(lengths)) > 0:
        lengths.append(draw(st.integers(1, min(left, largest))))
    return lengths


@pytest.mark.parametrize("arch", FAMILIES)
@given(lengths=cuts(NUM_TOKENS, NUM_TOKENS), group=st.integers(1, 8), in_pack=st.sets(st.integers(0, 7)))
@settings(max_examples=4)
def test_a_prompt_in_any_cuts_has_the_bits_of_windows_of_one(
    arch: str, lengths: list[int], group: int, in_pack: set[int]
) -> None:
    hidden, _, memory = by_windows_of_one(arch, "F32", KvFormat.F16)
    engine = TinyEngine(spec(arch), experts_in_pack=in_pack, group_experts=group)
    assert torch.equal(engine.read_prompt(prompt(), lengths), hidden)
    assert same_memory(memory_of(engine), memory)


@pytest.mark.parametrize("arch", FAMILIES)
@given(lengths=cuts(NUM_TOKENS, 8))
@settings(max_examples=3)
def test_windows_of_any_rows_have_the_bits_of_windows_of_one(arch: str, lengths: list[int]) -> None:
    hidden, logits, memory = by_windows_of_one(arch, "F32", KvFormat.F16)
    engine, position = TinyEngine(spec(arch)), 0
    for length in lengths:
        rows = slice(position, position + length)
        window_hidden, window_logits = engine.read_window(prompt()[rows], position=position)
        assert torch.equal(window_hidden, hidden[rows])
        assert torch.equal(window_logits, logits[rows])
        position += length
    assert same_memory(memory_of(engine), memory)


@pytest.mark.parametrize("kv_format", [kind for kind in KvFormat if kind.key_type.is_blocks])
@given(lengths=cuts(NUM_TOKENS, NUM_TOKENS), windows=cuts(NUM_TOKENS, 8))
@settings(max_examples=2)
def test_k_and_v_in_blocks_have_the_same_bits_in_any_cuts_and_any_windows(
    kv_format: KvFormat, lengths: list[int], windows: list[int]
) -> None:
    """All three tiers, and the bytes of K and V themselves."""
    hidden, logits, kv = by_windows_of_one("qwen3moe", "F32", kv_format)
    engine = TinyEngine(spec("qwen3moe"), kv_format=kv_format)
    assert torch.equal(engine.read_prompt(prompt(), lengths), hidden)
    assert same_memory(memory_of(engine), kv)
    engine, position = TinyEngine(spec("qwen3moe"), kv_format=kv_format), 0
    for length in windows:
        rows = slice(position, position + length)
        window_hidden, window_logits = engine.read_window(prompt()[rows], position=position)
        assert torch.equal(window_hidden, hidden[rows]) and torch.equal(window_logits, logits[rows])
        position += length
    assert same_memory(memory_of(engine), kv)


def test_the_coarser_the_cells_the_further_the_logits_move() -> None:
    exact = by_windows_of_one("qwen3", "F32", KvFormat.F32)[1]
    moved = {
        kv_format: float((by_windows_of_one("qwen3", "F32", kv_format)[1] - exact).norm() / exact.norm())
        for kv_format in KvFormat
    }
    assert moved[KvFormat.F32] == 0
    assert 0 < moved[KvFormat.F16] < moved[KvFormat.INT8] < moved[KvFormat.K8V4] < moved[KvFormat.Q4_0]
    assert moved[KvFormat.F16] < 1e-3 and moved[KvFormat.INT8] < 0.05 and moved[KvFormat.Q4_0] < 0.5


@pytest.mark.parametrize("arch", [*HYBRIDS, "qwen3moe"])
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=NUM_DRAFTS), st.integers(0, 9))
@settings(max_examples=4)
def test_a_draft_taken_back_leaves_the_bits_of_the_rows_accepted(
    arch: str, drafts: list[tuple[int, int]], first: int
) -> None:
    """Each draft is right for some rows and then wrong; what was accepted goes on as if nothing had been drafted."""
    _, logits, memory = by_windows_of_one(arch, "F32", KvFormat.F16)
    engine = TinyEngine(spec(arch))
    if first:
        engine.read_prompt(prompt()[:first], [first])
    position = first
    for rows, accepted in drafts:
        rows = min(rows, NUM_TOKENS - position)
        accepted = min(accepted, rows)
        if rows == 0:
            break
        right = prompt()[position : position + accepted]
        wrong = [(token + 7) % 320 for token in prompt()[position + accepted : position + rows]]
        seen = engine.read_draft([*right, *wrong], position=position)
        assert torch.equal(seen[:accepted], logits[position : position + accepted])
        if accepted:
            engine.commit(accepted)
        position += accepted
    for start in range(position, NUM_TOKENS):
        assert torch.equal(engine.read_window([prompt()[start]], position=start)[1][0], logits[start])
    assert same_memory(memory_of(engine), memory)


@pytest.mark.parametrize(("arch", "quant", "kv_format"), [("mixtral", "Q4_1", "f32"), ("qwen3moe", "Q8_0", "f16")])
def test_a_quantized_mixture_decodes_after_a_prompt_as_without_one(arch: str, quant: str, kv_format: str) -> None:
    hidden, logits, memory = by_windows_of_one(arch, quant, KvFormat(kv_format))
    engine = TinyEngine(spec(arch, quant), kv_format=KvFormat(kv_format), experts_in_pack=(0, 5))
    engine.read_prompt(prompt()[:20], [17, 3])
    for position in range(20, NUM_TOKENS):
        window_hidden, window_logits = engine.read_window([prompt()[position]], position=position)
        assert torch.equal(window_hidden[0], hidden[position])
        assert torch.equal(window_logits[0], logits[position])
    assert same_memory(memory_of(engine), memory)


def test_a_longer_prompt_crosses_key_blocks_and_bands_with_the_same_bits() -> None:
    ids = prompt(300)
    engines = [TinyEngine(spec("qwen3moe"), context_tokens=320) for _ in range(2)]
    whole, pieces = engines[0].read_prompt(ids, [300]), engines[1].read_prompt(ids, [100, 29, 150, 21])
    assert torch.equal(whole, pieces)
    assert same_memory(engines[0].kv_bytes(300), engines[1].kv_bytes(300))


@pytest.mark.parametrize("arch", MIXTURES)
def test_expert_reads_are_counted_by_where_the_blob_lay(arch: str) -> None:
    ids = prompt()[:6]
    everything, nothing, half = (
        TinyEngine(spec(arch), experts_in_pack=in_pack) for in_pack in ((), range(8), (0, 1, 2, 3))
    )
    for engine in (everything, nothing, half):
        engine.read_prompt(ids, [6])
        assert engine.result_words()[8:10] == [0, 0], "a prompt chunk counts nothing"
        for position in range(6, 9):
            engine.read_window([ids[0]], position=position)
    num_reads = 3 * spec(arch).num_layers * spec(arch).num_experts_used
    assert everything.result_words()[8:10] == [num_reads, 0]
    assert nothing.result_words()[8:10] == [0, num_reads]
    hit, missed = half.result_words()[8:10]
    assert hit + missed == num_reads and min(hit, missed) > 0


@pytest.mark.parametrize("arch", MIXTURES)
def test_a_window_counts_each_expert_that_it_reads_once_and_a_chunk_none(arch: str) -> None:
    """However many rows chose it."""
    engine, used = TinyEngine(spec(arch)), spec(arch).num_experts_used
    engine.read_prompt(prompt()[:6], [6])
    assert not engine.usage().any()
    engine.read_window([5], position=6)
    assert engine.usage().sum(1).tolist() == [used] * spec(arch).num_layers
    engine.read_window([5, 7, 9], position=6)
    assert engine.usage().max() == 2 and engine.usage().sum() == sum(engine.result_words()[8:10])


@pytest.mark.parametrize("arch", MIXTURES)
def test_every_weight_byte_is_read_again_at_each_launch(arch: str) -> None:
    engine = TinyEngine(spec(arch))
    _, before = engine.read_window([3], position=0)
    for name in ("blk.1.attn_v.weight", "blk.0.ffn_norm.weight", "output.weight", "blk.0.ffn_gate_inp.weight"):
        data = engine.memory.raw(engine.dense[name]).view(torch.float32)
        data.neg_()
        assert not torch.equal(engine.read_window([3], position=0)[1], before), name
        data.neg_()
        assert torch.equal(engine.read_window([3], position=0)[1], before), name
    for blob in engine.memory.raw(engine.addresses[1]).view(torch.int64).tolist():
        engine.memory.view(blob, spec(arch).blobs[1].size_bytes).zero_()  # type: ignore[union-attr]
    assert not torch.equal(engine.read_window([3], position=0)[1], before)


@pytest.mark.parametrize("arch", FAMILIES)
def test_declared_tensors_are_each_needed(arch: str) -> None:
    """Leave one declared tensor out and the program is refused: the declaration holds nothing that is not read."""
    for (program, layer), names in dense_reads(spec(arch)).items():
        for name in names:
            engine = TinyEngine(spec(arch))
            engine.reads = {**engine.reads, (program, layer): tuple(each for each in names if each != name)}
            with pytest.raises(DeviceError, match="did not declare"):
                engine.read_window([1], position=0)


def test_dense_reads_name_every_dense_tensor_and_nothing_else() -> None:
    for arch in FAMILIES:
        named = {name for names in dense_reads(spec(arch)).values() for name in names}
        assert named == set(spec(arch).dense)


def test_dense_reads_have_one_feed_forward_program_a_layer() -> None:
    assert set(dense_reads(spec("qwen3"))) == {
        (EMBED, None), (HEAD, None), *((program, layer) for program in (ATTENTION, FFN) for layer in range(2))
    }  # fmt: skip
    assert set(dense_reads(spec("mixtral"))) == {
        (EMBED, None), (HEAD, None), *((program, layer) for program in (ATTENTION, ROUTER) for layer in range(2))
    }  # fmt: skip


def test_a_program_that_was_not_shown_its_buffers_is_refused() -> None:
    engine = TinyEngine(spec("llama"))
    with engine.memory.launch([], []) as memory, pytest.raises(DeviceError, match="did not declare"):
        engine.programs[HEAD](memory, HeadArgs(1, engine.verifier, engine.window))


def reply(engine: TinyEngine, sampling: SamplingParams) -> list[int]:
    """Eight tokens after a prompt, each window fed by the sampler's own writes: no upload between windows."""
    ids = prompt()[:10]
    engine.read_prompt(ids[:-1], [len(ids) - 1])
    engine.set_sampling(sampling, prompt_ids=ids, terminators=range(0, 320, 2))
    tokens, token = [], ids[-1]
    for step in range(8):
        engine.read_window([token], position=len(ids) - 1 + step)
        tokens += engine.sample(1)
        header = engine.memory.raw(engine.verifier.header).view(torch.int64)
        token = int(engine.memory.raw(engine.verifier.tokens).view(torch.int32)[0])
        assert (token, int(header[0])) == (tokens[-1], len(ids) + step)
    return tokens


def test_sampling_updates_what_the_next_window_reads() -> None:
    engine = TinyEngine(spec("mixtral"))
    tokens = reply(engine, SamplingParams(temperature=1.5, seed=4))
    counts = engine.memory.raw(engine.window.counts).view(torch.int32)
    assert counts.sum() == 8 and all(counts[token] == tokens.count(token) for token in tokens)


def test_a_reply_depends_on_the_seed_only() -> None:
    replies = {seed: reply(TinyEngine(spec("mixtral")), SamplingParams(temperature=2.0, seed=seed)) for seed in (1, 2)}
    again = reply(TinyEngine(spec("mixtral"), experts_in_pack=(1,)), SamplingParams(temperature=2.0, seed=1))
    assert again == replies[1] != replies[2]


def test_no_terminator_comes_before_min_tokens() -> None:
    bias = tuple((token, 100.0) for token in range(0, 320, 2))
    tokens = reply(TinyEngine(spec("llama")), SamplingParams(temperature=0.0, min_tokens=5, logit_bias=bias))
    assert [token % 2 for token in tokens] == [1, 1, 1, 1, 1, 0, 0, 0]


def test_rows_of_a_window_are_sampled_in_order_with_their_own_noise() -> None:
    """Rows stand as long as the drafts are what is sampled."""
    first = prompt()[0]
    one, many = TinyEngine(spec("qwen3")), TinyEngine(spec("qwen3"))
    sampling = SamplingParams(temperature=1.0, seed=9, frequency_penalty=2.0)
    for engine in (one, many):
        engine.set_sampling(sampling, prompt_ids=[first], terminators=())
    singles = [first]
    for position in range(5):
        one.read_window([singles[-1]], position=position)
        singles += one.sample(1)
    many.read_window(singles[:5], position=0)
    assert many.sample(5) == singles[1:]
    assert torch.equal(many.memory.raw(many.window.counts), one.memory.raw(one.window.counts))


def test_logits_without_a_number_fail_the_launch() -> None:
    engine = TinyEngine(spec("llama"))
    engine.read_window([1], position=0)
    engine.set_sampling(SamplingParams(), prompt_ids=[1], terminators=())
    engine.memory.raw(engine.window.logits).view(torch.float32).fill_(torch.nan)
    with pytest.raises(DeviceError, match="position=0"):
        engine.sample(1)
