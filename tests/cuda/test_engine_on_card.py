"""What only a card can show of the engine as a whole: `python -m pytest -m gpu tests/cuda/test_engine_on_card.py`. All
weight types against the reference, memory and kernel caches over mixed requests, loans, and the server under clients
that come and go."""

import inspect
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton

import kernels.triton as kernel_modules
from bench.synth import QUANTS, SHAPES, write_model
from strata.commands.child_server import child_server
from strata.core.kv import KvFormat
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.core.units import MIB
from strata.engine.runner import HasClosed, HasSampled
from tests.cuda.model_on_fake import GREEDY, ModelOnCard
from tests.cuda.test_programs_on_card import SHAPE, bits, model_on_card, write
from tests.device.cuda_bodies import why_no_card
from tests.end_to_end.mixed_clients import Mixed, check_all_is_home, check_answers, serve_mixed_clients
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.models import write_random_model

WHY_NO_CARD = why_no_card()

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(WHY_NO_CARD is not None, reason=str(WHY_NO_CARD))]

NUM_TOKENS, BOUND = 64, 1e-3
PROMPTS = range(5, 37)
WRITTEN = ("F32", "F16", "BF16", "MXFP4")
"""Types that the fixtures quantize; all others come as random blocks."""


@pytest.mark.parametrize("quant", [*QUANTS, *WRITTEN])
def test_logits_and_greedy_text_are_the_references(quant: str, tmp_path: Path):
    """A window multiplies in f32 as the reference does; the prompt is one token, so every position is a window's. K and
    V are rounded to f16, where a last bit may fall the other way: so the text is one without near ties."""
    path = tmp_path / "model.gguf"
    if quant in WRITTEN:
        write_random_model(path, arch="qwen3moe", quant=quant, experts=8, **SHAPE)
    else:
        write_model(path, SHAPES["qwen3moe-tiny"], QUANTS[quant], own_head=False)
    options = PlanOptions(512, KvFormat.F16)
    with real_card(path, options, arena_bytes=256 * MIB) as card:
        prompt, expected_ids, expected = next(found for token in PROMPTS if (found := decided_text(card, token)))
    with model_on_card(path, options) as card:
        assert card.serve(prompt, max_tokens=NUM_TOKENS) == expected_ids
        assert len(card.logits) == len(expected) == NUM_TOKENS
        for ours, theirs in zip(card.logits, expected, strict=True):
            assert (ours - theirs).abs().max() < BOUND * theirs.abs().max()


def decided_text(card: RealCard, token: int) -> tuple[tuple[int, ...], tuple[int, ...], list[torch.Tensor]] | None:
    """Prompt, greedy text and its logits; None where logits that are within the bound could choose another token."""
    ids = card.serve((token,), max_tokens=NUM_TOKENS)
    rows = [torch.frombuffer(bytearray(row), dtype=torch.float32) for row in card.logits]
    ties = ((row.topk(2).values, row.abs().max()) for row in rows)
    if any(first - second < 2 * BOUND * largest for (first, second), largest in ties):
        return None
    return (token,), ids, rows


def test_mixed_requests_take_no_memory_and_compile_nothing(tmp_path: Path):
    """Lent slots, cancels, samplers with every filter: after the start neither torch nor the driver gives anything."""
    path, draw = write(tmp_path, "qwen3moe"), random.Random(1)
    with model_on_card(path, PlanOptions(1024, min_cache_slots=4), arena_bytes=24 * MIB) as card:
        serve_mixed(card, draw, num_requests=1)
        before = memory_and_caches()
        serve_mixed(card, draw, num_requests=40)
        assert card.runner.snapshot().counts.num_loans > 10
        after = memory_and_caches()
        both = before.keys() & after.keys()  # whoever came to the card meanwhile changed what is left of it
        print(f"\n40 mixed requests: {after}")
        assert {name: after[name] for name in both} == {name: before[name] for name in both}


def memory_and_caches() -> dict[str, int]:
    """Allocations that torch made so far and those that it asked the driver for, kernels compiled, and, where nobody
    else is on the card, the bytes that the driver has left."""
    torch.cuda.synchronize()
    compiled = sum(
        len(cache[0])
        for _, module in inspect.getmembers(kernel_modules, inspect.ismodule)
        for kernel in vars(module).values()
        if isinstance(kernel, triton.runtime.JITFunction)
        for cache in kernel.device_caches.values()
    )
    assert compiled > 0
    asked = {name: torch.cuda.memory_stats()[name] for name in ("allocation.all.allocated", "num_device_alloc")}
    left = {"left_bytes": torch.cuda.mem_get_info()[0]} if is_alone() else {}
    return {"compiled": compiled, **asked, **left}


def is_alone() -> bool:
    """Whether the driver knows of no other process on the card; not where it cannot be asked."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    try:
        listed = subprocess.run([*query, f"--id={uuid}"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return len(listed.stdout.split()) == 1


def serve_mixed(card: ModelOnCard, draw: random.Random, *, num_requests: int) -> None:
    """Requests of any length and sampler, some given up while they are read or answered."""
    for number in range(num_requests):
        ids = tuple(draw.randrange(300) for _ in range(draw.choice((1, 2, 30, 300, 900))))
        sampling = draw.choice((GREEDY, SamplingParams(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02, seed=number)))
        steps_left = draw.choice((2, 5, 1000))
        card.runner.begin(GenerationRequest(str(number), ids, 6, sampling))
        num_sampled = 0
        while not isinstance(outcome := card.runner.advance(is_cancelled=steps_left <= 0), HasClosed):
            steps_left -= 1
            if not isinstance(outcome, HasSampled):
                continue
            num_sampled += 1
            if num_sampled == 6:
                card.runner.end()
                break
            card.runner.resume(*outcome.token_ids)


def test_moved_segments_come_home_and_change_no_bit(tmp_path: Path):
    """The elastic loan of the verifier, whose logits over a large vocabulary fill a segment, at the start and again for
    each long prompt."""
    path = tmp_path / "model.gguf"
    shape = replace(SHAPES["qwen3moe-tiny"], vocab=151_936, layers=3, experts=32, context=1024, ffn=512)
    write_model(path, shape, QUANTS["q4_k"], own_head=False)
    ids = tuple((7 * i * i + 3 * i) % 300 for i in range(900))
    seen = []
    for policy in (LendingPolicy(), LendingPolicy(is_elastic=True, repeat_min_tokens=256, is_verified=True)):
        options = PlanOptions(1024, min_cache_slots=8, policy=policy, segment_bytes=2 * MIB)
        with model_on_card(path, options, arena_bytes=44 * MIB) as card:
            replies = [(card.serve(some, max_tokens=4), bits(card)) for some in (ids, (9, *ids[:500]))]
            counts = card.runner.snapshot().counts
            assert (counts.num_moves > 0) == (counts.num_verified > 0) == policy.is_elastic
        seen.append(replies)
    assert seen[0] == seen[1]


MIXED = Mixed(200, lengths=(3, 40, 300, 800))


def test_exchanged_blobs_change_no_bit(tmp_path: Path):
    """The copies run beside windows that read other slots."""
    path, seen, num_swaps = write(tmp_path, "qwen3moe"), [], []
    options = PlanOptions(1024, num_cache_slots=8, ring_slots=4, swap_windows=2)
    for most in (0, 2, 16):
        with model_on_card(path, replace(options, num_swaps=most)) as card:
            seen.append([(card.serve(ids, max_tokens=60), bits(card)) for ids in ((5,), (9, 4, 2), (7,) * 300)])
            num_swaps.append(card.runner.snapshot().counts.num_swaps)
    assert seen[0] == seen[1] == seen[2] and num_swaps[0] == 0 < num_swaps[1]


def test_what_is_pinned_changes_no_bit(tmp_path: Path):
    """Kernels reach the pinned blobs by address and find the others in slots; prompts copy both through the ring."""
    path, seen, staged = write(tmp_path, "qwen3moe"), [], []
    options = PlanOptions(1024, num_cache_slots=8, ring_slots=4)
    for pinned_bytes in (None, 16 * MIB, 4 * MIB, 0):
        with model_on_card(path, replace(options, pinned_bytes=pinned_bytes)) as card:
            prompts = ((5,), (9, 4, 2), (7,) * 300, tuple(range(5, 300)))
            seen.append([(card.serve(ids, max_tokens=40), bits(card)) for ids in prompts])
            staged.append(card.runner.snapshot().counts.staged_reads)
            assert card.device.pinned_pack_bytes == card.planned.plan.pack.pinned_bytes
    assert seen[0] == seen[1] == seen[2] == seen[3] and staged[0] == 0 < staged[2] < staged[3]


def test_a_server_under_clients_that_come_and_go_answers_each_as_if_alone(tmp_path: Path):
    path = write(tmp_path, "qwen3moe")
    command = [sys.executable, "-m", "strata", "serve", str(path), "--device", "cuda", "--port", "0", "--vram", "24MiB"]
    options = ["--ctx", "1024", "--cache-min-slots", "4", "--queue", "64"]
    with child_server([*command, *options]) as server:
        answered = serve_mixed_clients(server, MIXED)
        assert server.stop() == 0
    print(f"\n{MIXED.num_requests} mixed requests: {answered.seconds}, {answered.card['statistics']}")
    check_answers(answered, MIXED)
    check_all_is_home(answered, least_loans=20)
