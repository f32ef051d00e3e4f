"""What a client and an operator see of drafts: counts in timings, metrics and the log."""

import sys
from pathlib import Path

import httpx
import pytest

from strata.commands.api_client import connect
from strata.commands.child_server import child_server
from tests.fixtures.drafting_models import LETTERS, write_cycle_drafter
from tests.fixtures.models import write_cycle_model

pytestmark = pytest.mark.slow


def metric(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_counts_of_drafts_are_in_timings_metrics_and_log(tmp_path: Path, is_streamed: bool) -> None:
    model = write_cycle_drafter(tmp_path / "model.gguf", arch="qwen35moe", wrong_behind=LETTERS[4:9:2])
    body = {"prompt": "What follows?\n", "max_tokens": 21, "temperature": 0, "stream": is_streamed}
    command = [sys.executable, "-m", "strata", "serve", str(model.path), "--port", "0", "--vram", "32MiB"]
    with child_server([*command, "--mtp", "--spec", "4"]) as server, connect(server.url) as client:
        text = client.post("/v1/completions", json=body).text
        drafts = metric(client, "strata_drafts_total")
        accepted = metric(client, "strata_drafts_accepted_total")
        log = server.last_words()
        assert server.stop() == 0
    assert 0 < accepted < drafts
    assert f'"draft_n":{drafts:.0f},"draft_n_accepted":{accepted:.0f}' in text
    assert f"; {accepted:.0f} of {drafts:.0f} drafts accepted in 21 tokens" in log
    if not is_streamed:
        assert LETTERS[:21].decode() in text


def test_a_text_that_repeats_is_drafted_for_without_a_drafter(tmp_path: Path) -> None:
    """Letters in a circle: the second round is drafted whole. The line of the read says how short ones are read."""
    model = write_cycle_model(tmp_path / "model.gguf", reply=LETTERS[:6], reaches_end=False)
    body = {"prompt": "What follows?\n", "max_tokens": 30, "temperature": 0}
    command = [sys.executable, "-m", "strata", "serve", str(model.path), "--port", "0", "--vram", "32MiB"]
    with child_server([*command, "--spec", "4"]) as server, connect(server.url) as client:
        reply = client.post("/v1/completions", json=body).json()
        assert server.stop() == 0
    assert reply["choices"][0]["text"].encode() == model.reply_bytes(ord("\n"), 30)
    timings = reply["timings"]
    assert timings["read"]["window_rows"] == 4
    assert timings["draft_n"] == timings["draft_n_accepted"] > 12
