"""The model that comes with strata under its loans: what is drafted and said behind a loan has the bits of no loan, in
whole requests of the engine; over HTTP, in `strata bench` and in the demo, the room is taken where it should be."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from strata.cli import main
from strata.commands import demo_profiles
from strata.commands.api_client import connect
from strata.commands.child_server import child_server
from strata.commands.embedded_model import EMBEDDED
from strata.config.values import Mtp
from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import SamplingParams
from strata.engine.updates import DraftFacts
from strata.model.gguf.model_file import open_model
from strata.model.text import load_text
from tests.end_to_end.dictated_drafts import Drafted
from tests.end_to_end.real_card import RealCard, real_card
from tests.end_to_end.test_drafts_and_room import check_block
from tests.recipes.strata_tiny_chat import long_chat

pytestmark = pytest.mark.slow

SEGMENTS = 1 << 16
LOANS = LendingPolicy(room_min_tokens=64, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=320)
SAMPLINGS = (SamplingParams(temperature=0.0), SamplingParams(temperature=0.7, seed=3, repetition_penalty=1.1))
MAX_TOKENS = 16
NUM_SLOTS = 146
"""Of 256 blobs."""
VRAM = {2048: "14MiB", 8192: "24MiB"}
"""For which the experts are too many, by the context."""


@dataclass(frozen=True)
class Said:
    """Of one request: its reply, the logits of every row that stood, and what was drafted for it."""

    ids: list[int]
    logits: list[bytes]
    drafted: list[tuple[bytes, int]]
    facts: DraftFacts


@contextmanager
def card_of(
    policy: LendingPolicy, *, lends: bool = True, terminators: tuple[int, ...] = ()
) -> Iterator[tuple[RealCard, Drafted]]:
    drafted = Drafted()
    options = PlanOptions(
        1024,
        chunk_tokens=256,
        ring_slots=8,
        num_cache_slots=NUM_SLOTS,
        min_cache_slots=16 if lends else NUM_SLOTS,
        window_rows=3,
        policy=policy,
        segment_bytes=SEGMENTS,
        checkpoint_bytes=4 << 20,
    )
    with real_card(
        EMBEDDED, options, arena_bytes=16 << 20, mtp=Mtp(), change=drafted.change, terminators=terminators
    ) as card:
        yield card, drafted


def talk(card: RealCard, drafted: Drafted, prompts: Sequence[tuple[int, ...]]) -> list[Said]:
    said = []
    for number, ids in enumerate(prompts):
        drafted.said.clear()
        reply = card.serve(ids, max_tokens=MAX_TOKENS, sampling=SAMPLINGS[number % 2])
        said.append(Said(reply, list(card.logits), list(drafted.said), card.runner.draft_facts()))
    return said


def test_drafts_behind_a_loan_are_those_of_no_loan_and_the_block_is_whole() -> None:
    """A chat of two chunks, a longer one that begins like it, which a hybrid reads anew, and another: with nothing
    lent, and with segments for the long ones and the room for the last."""
    chat = long_chat(330)[:330]
    prompts = (chat[:300], chat[:330], chat[100:260])
    with card_of(NO_LENDING, lends=False) as (card, drafted):
        expected = talk(card, drafted, prompts)
        assert card.planned.plan.lendable is None and card.planned.plan.num_missing_pairs
    accepted = sum(said.facts.num_accepted for said in expected)
    assert 0 < accepted < sum(said.facts.num_drafts for said in expected)
    with card_of(LOANS) as (card, drafted):
        said = talk(card, drafted, prompts)
        counts = card.runner.snapshot().counts
        assert [each.logits[0] for each in said] == [each.logits[0] for each in expected]
        assert said == expected
        assert counts.num_rooms == 1 and counts.room_bytes > 0 and counts.num_loans > 0
        assert counts.num_segment_loans > 1 and counts.restored_bytes > 0
        check_block(card, num_experts=32)


def test_a_warm_turn_is_drafted_for_as_well_as_a_cold_one() -> None:
    """Case B8, of drafts that are often right: behind a reply, and behind a checkpoint with either of two tokens next,
    a card just started drafts the same, and as much of it is accepted; with the room, and read by windows."""
    ends = tuple(sorted(load_text(open_model(EMBEDDED).metadata).tokenizer.end_ids))
    chat = long_chat(200)[:180]
    turn_end = max(at for at, token_id in enumerate(chat[:170], 1) if token_id in ends)
    expected: dict[tuple[int, ...], Said] = {}
    for policy in (LendingPolicy(room_min_tokens=0), LendingPolicy(short_read_tokens=256)):
        with card_of(policy, terminators=ends) as (card, drafted):
            (said,) = talk(card, drafted, [chat])
            edited = ((*chat[:turn_end], *chat[start : start + 7]) for start in (5, 7))
            for ids in ((*chat, *said.ids, *chat[5:12]), *edited):
                if ids not in expected:
                    with card_of(NO_LENDING, lends=False, terminators=ends) as (cold, seen):
                        (expected[ids],) = talk(cold, seen, [ids])
                assert talk(card, drafted, [ids]) == [expected[ids]]
                assert card.cached_tokens >= turn_end
            assert card.runner.snapshot().checkpoints.num_restored == 2
            assert (card.runner.snapshot().counts.num_rooms > 0) == (policy.room_min_tokens == 0)
    assert sum(said.facts.num_accepted for said in expected.values()) > 0


CARD = ("--twin-segment-kib", "64", "--cache-min-slots", "16", "--mtp", "--spec", "3")
COLD = [(300, 256, 2048), pytest.param(5042, 1024, 8192, marks=pytest.mark.soak)]
"""(tokens of the chat, threshold of the room, context): those of the specification, and smaller ones."""


@pytest.mark.parametrize(("num_tokens", "room_min", "context"), COLD)
def test_a_chat_takes_the_room_when_it_is_read_from_its_beginning_alone(
    num_tokens: int, room_min: int, context: int
) -> None:
    """Continuations of 61, 7 and 7 tokens take none; the chat with another first token is read anew, and does."""
    ids = long_chat(num_tokens + 200)
    command = [sys.executable, "-m", "strata", "serve", str(EMBEDDED), "--port", "0", "--ctx", str(context)]
    command += ["--vram", VRAM[context], *CARD, "--parked-mib", "0"]
    with (
        child_server(command, environment={"STRATA_MTP_ROOM_MIN": str(room_min)}) as server,
        connect(server.url) as client,
    ):
        timings = [complete(client, ids[:num_tokens])]
        end = num_tokens
        for fresh in (61, 7, 7):
            # What was sampled last was never read, so it is no part of the session: a reply of one token adds none.
            end += fresh
            timings.append(complete(client, ids[:end]))
        timings.append(complete(client, (ids[0] + 1, *ids[1:end]), max_tokens=12))
        assert server.stop() == 0
    assert [each["prompt_n"] for each in timings] == [num_tokens, 61, 7, 7, end]
    assert [each["read"]["room_slots"] > 0 for each in timings] == [True, False, False, False, True]
    assert all(f"fresh tokens of {room_min:,}" in each["read"]["no_room"] for each in timings[1:4])
    assert timings[-1]["draft_n"] > 0


def complete(client: httpx.Client, ids: tuple[int, ...], *, max_tokens: int = 1) -> dict[str, Any]:
    body = {"prompt": list(ids), "max_tokens": max_tokens, "temperature": 0}
    timings: dict[str, Any] = client.post("/v1/completions", json=body, timeout=None).json()["timings"]
    return timings


@pytest.mark.soak
@pytest.mark.parametrize(("num_tokens", "room_min", "context"), COLD)
def test_a_chat_is_measured_in_every_arm(
    capsys: pytest.CaptureFixture[str], num_tokens: int, room_min: int, context: int
) -> None:
    """Chunks read all turns, so that at 0 each of them writes in the room."""
    card = ["--short-read", "0", "--vram", VRAM[context], "--ctx", str(context), *CARD]
    chat = ["--chat", str(num_tokens), "--turns", "2", "--gen", "6", "--rounds", "1"]
    assert main(["bench", str(EMBEDDED), *card, *chat, "--room-min", f"{room_min},0,unset", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    has_room = {
        arm: [rows[f"room-min {arm}, turn {turn}"]["room_slots"] > 0 for turn in range(3)]
        for arm in (str(room_min), "0", "unset")
    }
    assert has_room == {str(room_min): [True, False, False], "0": [True] * 3, "unset": [False] * 3}
    assert all(row["drafts"] > 0 for name, row in rows.items() if "turn" in name)


def test_the_demo_shows_drafts_and_every_loan(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first, _, second, _ = demo_profiles.TINY_TURNS
    monkeypatch.setattr(demo_profiles, "TINY", replace(demo_profiles.TINY, turns=(first, second)))
    assert main(["demo"]) == 0
    out = capfd.readouterr().out
    assert "STRATA_MTP_ROOM_MIN=0 " in out and " --mtp --spec 3" in out and "drafts: draft_n=" in out
    assert "room in the drafter's block: opened" in out and "segments that moved:" in out
