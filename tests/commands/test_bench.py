"""`strata bench`: what cannot be measured is refused before anything is opened, figures follow from what was served,
and arms are served turn by turn through the engine itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from strata.cli import main
from strata.commands.bench_figures import (
    Ceilings,
    ModelWork,
    Served,
    against_figures,
    decode_floor_s,
    prompt_figures,
    prompt_floor_s,
    work_of,
)
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.fixtures.lend_model import write_lend_model
from tests.fixtures.models import write_random_model

CEILINGS = Ceilings(link_bytes_s=50e9, memory_bytes_s=4e12, matrix_flops_s=800e12)
WORK = ModelWork(token_flops=6e9, window_bytes=10**9, blob_bytes=2e6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lend_model(tmp_path_factory.mktemp("bench") / "lend.gguf")


def served(**changes: Any) -> Served:
    facts: dict[str, Any] = {
        "prompt_tokens": 4096,
        "fresh_tokens": 4096,
        "generated": 65,
        "prompt_s": 0.5,
        "decode_s": 1.0,
        "copied_bytes": 10**10,
        "room_bytes": 0,
        "chunk_tokens": 4096,
        "ring_slots": 200,
        "room_slots": 0,
        "read_rows": 0,
        "num_hits": 12_000,
        "num_misses": 12_000,
        "num_windows": 64,
        "num_drafts": 0,
        "num_drafts_accepted": 0,
    }
    return Served(**{**facts, **changes})


def test_a_prompts_floor_is_its_slower_way():
    assert prompt_floor_s(served(), WORK, CEILINGS) == pytest.approx(0.2)
    assert prompt_floor_s(served(copied_bytes=0), WORK, CEILINGS) == pytest.approx(4096 * 6e9 / 800e12)


def test_a_windows_floor_is_its_bytes_where_they_lie():
    expected_s = 12_000 * 2e6 / 50e9 + (12_000 * 2e6 + 64 * 1e9) / 4e12
    assert decode_floor_s(served(), WORK, CEILINGS) == pytest.approx(expected_s)


def test_figures_have_the_spread_of_the_rounds():
    figures = prompt_figures([served(prompt_s=s) for s in (0.5, 0.4, 0.8)], WORK, CEILINGS)
    speed = figures["prompt_tok_s"]
    assert (speed.minimum, speed.median, speed.maximum) == (4096 / 0.8, 4096 / 0.5, 4096 / 0.4)
    assert figures["decode_tok_s"].median == 64
    assert figures["prompt_share"].median == pytest.approx(0.4)
    assert figures["residency"].median == 0.5
    assert "prompt_share" not in prompt_figures([served()], WORK, None)


def test_what_a_way_home_took_beyond_its_bytes_is_told_where_the_link_is_known():
    home = [served(home_bytes=10**9, reclaim_s=s, moved_segments=32) for s in (0.03, 0.05, 0.02)]
    figures = prompt_figures(home, WORK, CEILINGS)
    assert figures["beyond_ms"].median == pytest.approx(10.0) and figures["moved_segments"] == 32
    assert "beyond_ms" not in prompt_figures(home, WORK, None)
    assert "reclaim_ms" not in prompt_figures([served()], WORK, CEILINGS)


def test_arms_are_held_against_each_other_round_by_round():
    first = [served(prompt_s=0.5, second_s=0.03), served(prompt_s=0.9, second_s=0.03)]
    other = [served(prompt_s=0.4, second_s=0.01), served(prompt_s=0.7, second_s=0.02)]
    figures = against_figures(first, other)
    assert figures["first_token_ms"].median == pytest.approx(150)
    assert figures["second_token_ms"].minimum == pytest.approx(120)


def test_a_tokens_work_counts_the_experts_that_it_is_sent_to(tmp_path: Path):
    path = write_random_model(tmp_path / "m.gguf", hidden=64, ffn=32, layers=2, experts=4, used=2, heads=2, kv_heads=1)
    spec = spec_of(open_model(path))
    attention = 64 * spec.head_dim * (2 * 2 + 2 * 1)
    layer = attention + 4 * 64 + 2 * 3 * 32 * 64
    assert work_of(spec, window_bytes=0).token_flops == 2 * 2 * layer


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--gen", "1"), "gen refused: gen=1; give --gen 2 or more"),
        (("--rounds", "0"), "rounds refused: rounds=0; give --rounds 1 or more"),
        (("--prompt", "300,x"), "prompt refused: 'x' is no number of tokens of 2 or more; give --prompt 4096,16384"),
        (("--room-min", "0"), "room-min refused: it names the arms of a chat; give --chat N, or set"),
        (("--chat", "300", "--loans", "ab"), "loans refused: loans=ab with --chat, whose arms are those of --room-min"),
        (("--chat", "300", "--room-min", "0,no"), "room-min refused: '0,no'; give numbers of fresh tokens or `unset`"),
        (
            ("--prompt", "9000"),
            "ctx refused: the context has 8,192 tokens, this takes 9,064; the model has no more than 8,192: give",
        ),
        (("--prompt", "300", "--ctx", "256"), "the context has 256 tokens, this takes 364; give --ctx 364"),
        (("--prompt", "64,9,64"), "prompt refused: the same value twice; give each --prompt once"),
        (("--chat", "300", "--room-min", "0,00"), "room-min refused: the same value twice"),
    ],
)
def test_what_cannot_be_measured_is_refused(model: Path, capsys, options: tuple[str, ...], reason: str):
    assert main(["bench", str(model), "--vram", "16MiB", "--cache-min-slots", "10", *options]) == 2
    assert reason in capsys.readouterr().err


def test_a_chat_is_measured_in_every_arm(model: Path, capsys):
    options = ["--chat", "270", "--turns", "2", "--gen", "2", "--rounds", "1", "--room-min", "256,0,unset", "--json"]
    card = ["--vram", "10MiB", "--ctx", "512", "--cache-min-slots", "10", "--mtp", "--spec", "1"]
    assert main(["bench", str(model), *card, *options]) == 0
    rows = json.loads(capsys.readouterr().out)
    fresh = {name: row["fresh_tokens"] for name, row in rows.items() if "fresh_tokens" in row}
    assert set(fresh) == {f"room-min {arm}, turn {turn}" for arm in ("256", "0", "unset") for turn in range(3)}
    for arm in ("256", "0", "unset"):
        assert [fresh[f"room-min {arm}, turn {turn}"] for turn in range(3)] == [270, 61, 7]
    has_room = {name: row["room_slots"] > 0 for name, row in rows.items() if "room_slots" in row}
    assert rows["room-min 256 against room-min unset, turn 0"]["rounds"] == 1
    assert has_room["room-min 256, turn 0"] and not has_room["room-min 256, turn 1"]
    assert has_room["room-min 0, turn 1"] and not has_room["room-min unset, turn 0"]


def test_loans_on_and_off_are_two_arms(model: Path, capsys, monkeypatch):
    monkeypatch.setenv("STRATA_MTP_ROOM_MIN", "0")
    options = ["--prompt", "9,12", "--gen", "2", "--rounds", "1", "--loans", "ab", "--json"]
    card = ["--vram", "10MiB", "--ctx", "256", "--cache-min-slots", "10", "--mtp", "--spec", "1"]
    assert main(["bench", str(model), *card, *options]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {name: row["room_slots"] > 0 for name, row in rows.items() if "room_slots" in row} == {
        "loans on, prompt 9": True,
        "loans off, prompt 9": False,
        "loans on, prompt 12": True,
        "loans off, prompt 12": False,
    }
