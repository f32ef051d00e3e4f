"""The Hypothesis front end is as pure as the worlds: no draw depends on hashing, what it finds is small, and nothing
has a deadline (cases A7, G6 and G7)."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.draw import geometry_that_lends
from fuzz.planted import MUTANTS
from fuzz.rules import WorldRules
from sim.world.decisions import Advance, Begin, Favour, Restart
from sim.world.driver import Driver
from sim.world.geometry import Delivery

ROOT = Path(__file__).parents[2]
MAX_STEPS = 6
SCRIPT = """
import json, sys
from hashlib import sha256
from pathlib import Path
from fuzz.plant import plant
from fuzz.planted import load_mutant

plant([load_mutant(Path(name)) for name in sys.argv[2:]])
from fuzz import rules

apply, taken = rules.WorldRules._apply, sha256()
def noted(self, decision):
    taken.update(repr(decision).encode())
    apply(self, decision)
rules.WorldRules._apply = noted
rules.WORLDS_A_TURN = int(sys.argv[1])
tally = rules.run_rules(0, lambda tally: tally.worlds > 0, rules_a_world=25)
print(json.dumps({"taken": taken.hexdigest(), "rules": tally.rules, "failure": tally.failure}))
"""


def run_in_a_process(*mutants: str, hash_seed: int, num_worlds: int) -> dict[str, object]:
    paths = [str(MUTANTS / f"{name}.py") for name in mutants]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", SCRIPT, str(num_worlds), *paths]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_rules_draw_the_same_under_every_hash_seed() -> None:
    reports = [run_in_a_process(hash_seed=hash_seed, num_worlds=8) for hash_seed in (0, 1, 2)]
    assert reports[0]["failure"] == "" and reports[0]["rules"] > 50
    assert reports[1:] == [reports[0]] * 2


@pytest.mark.soak
def test_a_planted_bug_shrinks_to_a_few_rules() -> None:
    report = run_in_a_process("prefix_reuses_other_ids", hash_seed=0, num_worlds=25)
    told = [line for line in str(report["failure"]).splitlines() if line.startswith("state.")]
    assert "WorldFault" in str(report["failure"]) and "state.teardown()" in told
    assert len(told) <= MAX_STEPS + 2  # and `open` and `teardown`


def test_a_world_that_never_opened_is_torn_down() -> None:
    WorldRules().teardown()


def test_no_property_has_a_deadline_and_each_failure_says_how_to_see_it_again() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None and settings.default.print_blob


@pytest.mark.slow
@pytest.mark.parametrize("ring_slots", [1, 2, 3])
@settings(max_examples=12)
@given(favours=st.lists(st.builds(Favour, st.integers(0, 3), st.sampled_from((1, 3, 20))), max_size=12))
def test_no_order_of_completion_reads_bytes_that_passed_on(ring_slots: int, favours: list[Favour]) -> None:
    """Slots are lent, filled through a short ring and given back, with the streams crossed as Hypothesis likes."""
    driver = Driver(replace(geometry_that_lends(Delivery.DRAWN), ring_slots=ring_slots))
    for decision in (*favours, Begin(300, max_tokens=2), Advance(60), *favours, Begin(17, shared=100), Advance(60)):
        driver.apply(decision)
    driver.finish()
    assert driver.sometimes["loan opened"] >= 2 and driver.sometimes["ring went round"] > 0


def test_the_next_server_finds_the_host_pack_and_nothing_else() -> None:
    driver = Driver(geometry_that_lends())
    driver.apply(Begin(300))
    driver.apply(Advance(60))
    pack, steps = driver.card.payload.pack, driver.num_steps
    driver.apply(Restart(1))
    assert driver.card.geometry == replace(geometry_that_lends(), ring_slots=2)
    assert driver.card.payload.pack.obj is pack.obj and driver.num_steps > steps
    driver.apply(Begin(1, shared=5000, base=1))
    assert driver.card.runner.read_facts().read_from == 0
    driver.finish()
