"""Logits bits of whole requests through the engine do not depend on chunk, ring, cache size or what was served before
(tiers E1 and E3 of the design), and every weight byte is read anew."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from strata.core.extent import Extent
from strata.core.kv import KvFormat
from strata.core.memory.shapes import PlanOptions
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model
from tests.oracle.llama_cpp import LlamaCpp

FAMILIES = {
    "mixtral": {"arch": "mixtral"},
    "mixtral q4_1": {"arch": "mixtral", "quant": "Q4_1"},
    "qwen3moe mixed": {"arch": "qwen3moe", "expert_quants": ("Q4_0", "Q8_0", "F16")},
    "llama": {"arch": "llama"},
    "qwen2": {"arch": "qwen2"},
    "qwen3": {"arch": "qwen3", "quant": "Q8_0"},
    "qwen3next mix": {"arch": "qwen3next"},
    "qwen35moe mix": {"arch": "qwen35moe", "quant": "Q8_0"},
    "qwen35": {"arch": "qwen35"},
    "glm4moe mix": {"arch": "glm4moe", "layers": 3},
}
IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(90))


def geometries(family: str) -> list[PlanOptions]:
    if "mix" not in family:
        return [PlanOptions(256, chunk_tokens=chunk) for chunk in (1, 7, 32, 256)]
    shapes = ((256, 8, 16), (256, 1, 2), (16, 3, 2), (40, 8, 7), (89, 2, 15), (1, 2, 3))
    return [PlanOptions(256, chunk_tokens=c, ring_slots=r, num_cache_slots=n) for c, r, n in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_have_the_same_bits_whatever_the_chunk_ring_and_cache(tmp_path: Path, family: str):
    path = write_random_model(tmp_path / "model.gguf", **FAMILIES[family])
    seen = []
    for options in geometries(family):
        with real_card(path, options) as card:
            ids = card.serve(IDS)
            seen.append((ids, list(card.logits)))
            statistics, counts = card.device.statistics(), card.runner.snapshot().counts
            if "mix" in family and options.num_cache_slots is not None and options.num_cache_slots < 16:
                assert counts.ring_entries > 0
                # With one blob missing, windows may do without it.
                assert statistics.pack_read_bytes > 0 or options.num_cache_slots == 15
    assert len(seen[0][1]) == 3
    assert all(other == seen[0] for other in seen)


@pytest.mark.slow
@pytest.mark.parametrize("kv_format", [kind for kind in KvFormat if kind.key_type.is_blocks])
def test_k_and_v_in_blocks_give_the_same_bits_whatever_the_chunk_ring_and_cache(tmp_path: Path, kv_format: KvFormat):
    path = write_random_model(tmp_path / "model.gguf", **FAMILIES["mixtral"])
    seen = []
    for options in geometries("mixtral")[::2]:
        with real_card(path, replace(options, kv_format=kv_format)) as card:
            seen.append((card.serve(IDS), list(card.logits)))
    with real_card(path, geometries("mixtral")[0]) as card:
        card.serve(IDS)
        in_floats = list(card.logits)
    assert seen[1] == seen[2] == seen[0]
    assert seen[0][1] != in_floats


@pytest.mark.slow
@pytest.mark.parametrize("family", ["mixtral", "qwen3moe mixed", "qwen35moe mix"])
def test_lent_slots_change_no_bit_and_come_back_byte_for_byte(tmp_path: Path, family: str):
    """The same request with an arena of its own and on slots lent for it; before and after, each slot has its blob."""
    path = write_random_model(tmp_path / "model.gguf", experts=32, **FAMILIES[family])
    lending = PlanOptions(256, min_cache_slots=3, max_chunk_tokens=256)
    with real_card(path, PlanOptions(256, num_cache_slots=6), arena_bytes=2 << 20) as card:
        assert card.planned.plan.lendable is None
        expected = (card.serve(IDS), list(card.logits))
    with real_card(path, lending, arena_bytes=2 << 20) as card:
        plan = card.planned.plan
        assert plan.lendable is not None
        assert len(plan.read(len(IDS) - 1).lent) > 0
        slots = [_bytes_at(card, slot.extent) for slot in plan.slots]
        homes = [bytes(card.device.host(plan.pack.blobs[slot.layer][slot.expert])) for slot in plan.slots]
        assert [slot[: len(home)] for slot, home in zip(slots, homes, strict=True)] == homes
        assert (card.serve(IDS), card.logits) == expected
        for turn in range(3):
            card.serve((turn, *IDS), max_tokens=1)
            card.serve((turn + 9, *IDS), cancel_after_steps=turn)
            assert [_bytes_at(card, s.extent)[: len(h)] for s, h in zip(plan.slots, homes, strict=True)] == homes
        assert (card.serve(IDS), card.logits) == expected


def _bytes_at(card: RealCard, extent: Extent) -> bytes:
    arena = card.device._payload._arena_tensor  # type: ignore[attr-defined]
    return bytes(arena[extent.offset_bytes : extent.end_bytes].numpy())


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["mixtral", "qwen35moe"])
def test_streaming_chunks_have_the_bits_of_routed_ones(tmp_path: Path, arch: str):
    path = write_random_model(tmp_path / "model.gguf", arch=arch, hidden=32, ffn=32, context=2048)
    ids = tuple((5 * i * i + i) % 300 for i in range(1100))
    seen = []
    for chunk, ring in ((256, 8), (1024, 3), (1024, 12)):
        with real_card(path, PlanOptions(2048, chunk_tokens=chunk, ring_slots=ring, num_cache_slots=4)) as card:
            seen.append((card.serve(ids), list(card.logits)))
            assert card.runner.snapshot().counts.ring_entries > 0
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


@pytest.mark.soak
@pytest.mark.parametrize("arch", ["qwen3next", "qwen35moe", "glm4moe"])
def test_chunks_up_to_4096_tokens_have_the_same_bits(tmp_path: Path, arch: str):
    path = write_random_model(tmp_path / "model.gguf", arch=arch, hidden=32, ffn=32, context=4608)
    ids = tuple((5 * i * i + i) % 300 for i in range(4200))
    seen = []
    for chunk in (256, 1024, 2048, 4096):
        options = PlanOptions(4608, chunk_tokens=chunk, ring_slots=3, num_cache_slots=4)
        with real_card(path, options, arena_bytes=32 << 20) as card:
            seen.append((card.serve(ids), list(card.logits)))
            assert card.runner.read_facts().chunk_tokens == chunk
    assert all(other == seen[0] for other in seen)


@pytest.mark.slow
@pytest.mark.parametrize("kv_format", list(KvFormat))
@pytest.mark.parametrize("arch", ["qwen3moe", "qwen35moe"])
def test_a_prompt_read_as_a_chunk_has_the_bits_of_its_tokens_as_windows(tmp_path: Path, arch: str, kv_format: KvFormat):
    """The engine's own greedy reply, given back as a prompt of any length, leads to the same logits."""
    path = write_random_model(tmp_path / "model.gguf", arch=arch)
    with real_card(path, PlanOptions(256, kv_format=kv_format, ring_slots=4, num_cache_slots=5)) as card:
        reply = card.serve(IDS[:1], max_tokens=40)
        by_windows = list(card.logits)
        whole = IDS[:1] + tuple(reply)
        for num_tokens in (2, 3, 9, 17, 40):
            assert _read_anew(card, whole[:num_tokens], max_tokens=1) == [by_windows[num_tokens - 1]]
            assert card.runner.read_facts().chunk_tokens > 0


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["mixtral", "qwen3next"])
def test_what_was_served_before_changes_nothing(tmp_path: Path, arch: str):
    path = write_random_model(tmp_path / "model.gguf", arch=arch)
    options = PlanOptions(256, chunk_tokens=32, ring_slots=3, num_cache_slots=5)
    with real_card(path, options) as card:
        cold = (card.serve(IDS), list(card.logits))
        card.serve(tuple(reversed(IDS)) + IDS, max_tokens=20)
        assert (card.serve(IDS), card.logits) == cold
        for steps in range(9):
            card.serve(IDS, cancel_after_steps=steps)
        assert (card.serve(IDS), card.logits) == cold


@pytest.mark.slow
def test_no_memo_hides_a_wrong_byte_in_the_arena(tmp_path: Path):
    """Other bytes under a dense tensor, a cache slot or the pack change the very next logits."""
    path = write_random_model(tmp_path / "model.gguf", arch="mixtral")
    with real_card(path, PlanOptions(256, ring_slots=3, num_cache_slots=5)) as card:
        card.serve(IDS)
        cold = list(card.logits)
        plan = card.planned.plan
        for extent in (plan.weights["blk.0.attn_q.weight"], plan.slots[0].extent):
            shadowed = card.device._payload._arena_tensor  # type: ignore[attr-defined]
            bytes_there = shadowed[extent.offset_bytes : extent.end_bytes]
            kept = bytes_there.clone()
            bytes_there.zero_()
            assert _read_anew(card) != cold
            bytes_there.copy_(kept)
            assert _read_anew(card) == cold


def _read_anew(card: RealCard, ids: tuple[int, ...] = IDS, *, max_tokens: int = 3) -> list[bytes]:
    """The logits of a read from token 0: another first token in between leaves nothing of the session to reuse."""
    card.serve((ids[0] + 1,), max_tokens=1)
    card.serve(ids, max_tokens=max_tokens)
    assert card.cached_tokens == 0
    return list(card.logits)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("arch", ["llama", "mixtral", "qwen3moe", "qwen3next", "qwen35moe", "qwen35"])
def test_the_engines_logits_are_those_of_llama_cpp(tmp_path: Path, arch: str):
    """Of a prompt of every length: chunk, ring, cache misses and the first window included."""
    path = write_random_model(tmp_path / "model.gguf", arch=arch)
    options = PlanOptions(256, kv_format=KvFormat.F32, chunk_tokens=16)
    is_mixture = "llama" not in arch and arch != "qwen35"
    if is_mixture:
        options = replace(options, ring_slots=3, num_cache_slots=5)
    ids = IDS[:40]
    with LlamaCpp(path) as oracle:
        expected = oracle.logits(list(ids))
    with real_card(path, options) as card:
        for num_tokens in range(1, len(ids) + 1):
            logits = np.frombuffer(_read_anew(card, ids[:num_tokens], max_tokens=1)[0], np.float32)
            assert np.abs(logits - expected[num_tokens - 1]).max() < 1e-4
        assert card.runner.read_facts().chunk_tokens == 16
        assert not is_mixture or card.runner.snapshot().counts.ring_entries > 0
