"""The whole server keeps its promises in drawn worlds, and a world depends on its seed alone."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.world.server.campaign import never_held, run_campaign
from sim.world.server.draw import draw_world
from sim.world.server.world import run_world

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@settings(max_examples=12)
@given(st.integers(0, 10**9))
def test_every_promise_is_kept_in_fresh_worlds(seed):
    outcome = run_world(draw_world(seed))
    assert outcome.faults_found == ()


@pytest.mark.slow
def test_every_promise_is_kept_in_known_worlds():
    """Among these seeds are replies, refusals, breaks, leavers, stallers, loans and stops; the rest of what
    may happen is asked of the long run."""
    campaign = run_campaign(seed=700, steps=250)
    assert campaign.faults_found == {}
    assert campaign.num_steps >= 250 and campaign.virtual_s > 0
    for name in ("whole reply", "stream", "queue_full", "engine_error", "shutting_down", "left before its end"):
        assert campaign.outcomes[name], name
    assert campaign.sometimes["bytes lent"] and campaign.sometimes["failure survived"]


@pytest.mark.slow
def test_one_seed_is_one_digest_in_every_process():
    reports = [simulate("--seed", "5", "--steps", "40", hash_seed=hash_seed) for hash_seed in ("0", "4711")]
    assert reports[0] == reports[1]
    assert reports[0]["steps"] >= 40 and len(reports[0]["digest"]) == 64 and reports[0]["faults_found"] == {}
    assert run_campaign(seed=5, steps=40).digest == reports[0]["digest"], "this process has a history"
    assert run_campaign(seed=6, steps=40).digest != reports[0]["digest"]


def test_the_turns_of_tasks_are_a_part_of_a_world():
    plan = draw_world(3)
    lines: list[str] = []
    first, again = run_world(plan, lines.append), run_world(plan)
    assert first.digest == again.digest
    assert any(" card " in line for line in lines) and any(" sees " in line for line in lines)


@pytest.mark.parametrize("failing", [0, 3, 12])
def test_a_device_that_fails_at_start_serves_nobody_and_leaves_nothing(failing):
    plan = replace(draw_world(3), start_failure=failing, signals_s=())
    outcome = run_world(plan)
    assert outcome.faults_found == ()
    assert set(outcome.tally.outcomes) == {"connection refused"}


@pytest.mark.soak
def test_thousands_of_steps_keep_every_promise_and_see_everything():
    campaign = run_campaign(seed=1_000_000, steps=4000)
    assert campaign.faults_found == {}
    assert never_held(campaign.outcomes + campaign.sometimes) == []


def simulate(*arguments, hash_seed):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sim", *arguments, "--json"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True, timeout=120)
    return json.loads(done.stdout)
