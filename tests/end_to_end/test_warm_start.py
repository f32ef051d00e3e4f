"""A server that ends leaves which experts were read, and the next one starts with them on its card."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from strata.boot import save_heat
from strata.commands.child_server import ChildRefused, child_server
from strata.config.values import ServeConfig
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.states import first_state
from strata.core.units import MIB
from strata.planning import plan_model
from tests.end_to_end.real_card import real_card
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

SERVE = (sys.executable, "-m", "strata", "serve")
CARD = ("--device", "twin", "--ctx", "300", "--port", "0", "--cache-min-slots", "4")
SWAPS = ("--cache-swaps", "16")
BODY = {"prompt": [5, 9, 2], "temperature": 0, "max_tokens": 48, "min_tokens": 48}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="mixtral", experts=32)


def ask(model: Path, *options: str) -> dict[str, Any]:
    """One reply of a server that then ends."""
    with child_server((*SERVE, str(model), *CARD, *options)) as server:
        reply: dict[str, Any] = httpx.post(f"{server.url}/v1/completions", json=BODY, timeout=60).json()
        assert server.stop() == 0
    return reply


@pytest.mark.soak
def test_the_next_start_finds_more_of_what_is_read_on_the_card(model: Path, tmp_path: Path):
    usage = tmp_path / "usage.json"
    options = (*SWAPS, "--vram", "2MiB", "--warm-start", str(usage))
    first, second = ask(model, *options), ask(model, *options)
    assert first["choices"][0]["text"] == second["choices"][0]["text"]
    told, later = first["timings"], second["timings"]
    assert told["swap_n"] > 0 and later["expert_hit_rate"] > told["expert_hit_rate"]
    assert [each.name for each in tmp_path.iterdir()] == ["usage.json"]
    assert json.loads(usage.read_text())["version"] == 1


class Ended:
    """A steward that has served; `heat` is what windows read."""

    def __init__(self, heat: tuple[int, ...]) -> None:
        self._heat = heat

    def heat(self) -> tuple[int, ...]:
        return self._heat


def test_a_server_that_ends_says_what_it_left(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    usage = tmp_path / "usage.json"
    config = ServeConfig(str(model), vram_bytes=2 * MIB, num_swaps=4, warm_start_file=str(usage), context_tokens=300)
    planned = plan_model(config)
    heat = tuple(range(planned.plan.inventory.num_pairs))
    save_heat(planned, Ended(()))
    assert "no reads of experts were counted" in capsys.readouterr().out and not usage.exists()
    save_heat(planned, Ended(heat))
    assert f"is in {usage}, for the next start" in capsys.readouterr().out
    assert plan_model(config).heat == heat
    usage.unlink()
    usage.mkdir()
    save_heat(planned, Ended(heat))
    assert f"could not be written to {usage}" in capsys.readouterr().err
    save_heat(replace(planned, config=replace(config, warm_start_file=None)), Ended(heat))
    assert capsys.readouterr() == ("", "")


def test_a_file_of_another_model_is_refused_and_left_as_it_is(model: Path, tmp_path: Path):
    usage = tmp_path / "usage.json"
    usage.write_text('{"format":"strata expert usage","version":1,"model":{"digest":"0"},"heat":[]}')
    with pytest.raises(ChildRefused, match="is of another model") as caught:
        ask(model, *SWAPS, "--vram", "2MiB", "--warm-start", str(usage))
    assert "delete it, or give --warm-start another file" in str(caught.value)
    assert usage.read_text().endswith('"heat":[]}')


def test_a_folder_that_is_not_there_is_refused_before_anything_is_loaded(model: Path, tmp_path: Path):
    where = tmp_path / "nowhere" / "usage.json"
    done = subprocess.run(
        [*SERVE, str(model), *CARD, *SWAPS, "--warm-start", str(where)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "warm-start refused: there is no folder" in done.stderr


def test_a_warm_card_has_the_hottest_blobs_and_their_bytes(tmp_path: Path):
    path = write_random_model(tmp_path / "model.gguf", arch="mixtral", experts=32)
    options = PlanOptions(256, num_cache_slots=16, ring_slots=4, chunk_tokens=32, num_swaps=4, swap_windows=4)
    with real_card(path, options, arena_bytes=2 << 20) as card:
        expected = (card.serve((3, 4), max_tokens=20), list(card.logits))
        heat, plan = card.runner.snapshot().heat, card.planned.plan
    warm = first_state(plan, heat).at.cache
    chosen = sorted(heat[slot.layer * plan.inventory.num_experts + slot.expert] for slot in warm.slots)
    assert chosen == sorted(heat)[-len(warm.slots) :] and warm.slots != plan.slots
    with real_card(path, options, arena_bytes=2 << 20, heat=heat) as card:
        assert card.runner._state.at.cache.slots == warm.slots
        assert (card.serve((3, 4), max_tokens=20), card.logits) == expected
