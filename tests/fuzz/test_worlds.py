"""The core over the twin in drawn worlds: nothing leaks, no slot is aliased, every reply is the model's."""

import json
import os
from pathlib import Path
from random import SystemRandom

import pytest
from hypothesis import settings

from fuzz.__main__ import main
from fuzz.campaign import Tally, digest_of_seed, run_campaign, run_seed
from fuzz.draw import draw_world
from fuzz.planted import MUTANTS
from fuzz.rules import WorldRules
from fuzz.sometimes import never_held
from sim.world.trace import read_trace, replay

REGRESS = Path(__file__).parents[1] / "regress"
NUM_FIXED, NUM_FRESH = 110, 25
EXAMPLES = int(os.environ.get("STRATA_TEST_EXAMPLES", "100"))


@pytest.mark.slow
def test_worlds_of_fixed_seeds_hold_and_show_what_they_should() -> None:
    tally = run_campaign(0, lambda tally: tally.runs + len(tally.failures) >= NUM_FIXED)
    assert tally.failures == []
    missed = set(never_held(tally.sometimes))
    assert not missed & {"loan opened", "prefix reused", "nothing to read", "streaming chunk", "ring went round"}
    assert not missed & {"second chunk on a loan", "more than one copy group refilled", "recovery repeated"}
    assert not missed & {"room opens", "prompt path grows", "room, slots and segments out at once"}
    assert not missed & {"room slot home before the read ends", "block restored behind the first window"}
    assert not missed & {"slab of a loan", "scratch in its region"}
    assert not missed & {"cancelled in Reading lent", "fault in Reading lent", "recovered from Lending reserved"}


@pytest.mark.slow
def test_worlds_of_fresh_seeds_hold() -> None:
    first = SystemRandom().randrange(1 << 40)
    tally = run_campaign(first, lambda tally: tally.runs + len(tally.failures) >= NUM_FRESH)
    assert tally.failures == []


TestWorldsUnderRules = pytest.mark.slow(WorldRules.TestCase)
TestWorldsUnderRules.settings = settings(max_examples=max(10, EXAMPLES // 4), stateful_step_count=25)


@pytest.mark.slow
def test_rules_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--seconds", "0.1", "--rules-a-world", "10", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rules"] > report["worlds"] >= 10 and report["rules_per_s"] > 0 and report["failure"] == ""


@pytest.mark.slow
def test_a_seed_is_one_world() -> None:
    tally = Tally()
    for seed in range(6):
        assert draw_world(seed).geometry == draw_world(seed).geometry
        assert digest_of_seed(seed) == digest_of_seed(seed)
        assert run_seed(seed, tally) is None
    assert len({digest_of_seed(seed) for seed in range(6)}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(REGRESS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_kept_traces_replay(path: Path) -> None:
    """Each failed once, with the core of then or with a planted bug."""
    replay(read_trace(path.read_text(encoding="utf-8")))


def test_planted_bugs_have_traces_of_a_few_decisions() -> None:
    """Beside those that a world shows without any: its start, and that it ends at rest."""
    kept = [read_trace(path.read_text(encoding="utf-8")) for path in REGRESS.glob("*.jsonl") if is_planted(path)]
    lengths = [len(trace.decisions) for trace in kept]
    assert sum(1 <= length <= 8 for length in lengths) >= 50
    assert sum(length <= 8 for length in lengths) >= 200


def is_planted(path: Path) -> bool:
    return (MUTANTS / f"{path.stem}.py").exists()
