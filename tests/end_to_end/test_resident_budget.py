"""A pack of which only the first bytes are pinned, over real bytes: whatever the budget, replies and logits have the
bits that they have with all of it pinned, and no program has an address of what is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sim.errors import PageableRead
from strata.config.values import Mtp
from strata.core.commands import Access, Command, Copy, Stream
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.memory.pack import PackLayout
from strata.core.memory.planner import Plan
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.units import KIB
from tests.end_to_end.real_card import RealCard, real_card
from tests.fixtures.drafting_models import write_random_drafter
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow
SOAK = pytest.mark.soak

OWN = PlanOptions(256, num_cache_slots=16, ring_slots=4, chunk_tokens=32)
LENDING = PlanOptions(256, min_cache_slots=3, max_chunk_tokens=256)
WIDE = replace(LENDING, window_rows=4, policy=LendingPolicy(short_read_tokens=24))
OPTIONS = {"an arena of its own": OWN, "lent slots": LENDING, "short reads and looked up drafts": WIDE}
IDS = tuple((7 * i * i + 3 * i) % 300 for i in range(60))
PROMPTS = (IDS[:1], IDS[20:], (*IDS[20:], 5, 6, 7, 5, 6, 7, 5, 6), (5, 6, 7))
FAMILIES = {"mixtral": {"arch": "mixtral"}, "qwen35moe": {"arch": "qwen35moe"}}


@contextmanager
def card_of(folder: Path, options: PlanOptions, *, family: str = "mixtral", **rest: object) -> Iterator[RealCard]:
    path = folder / f"{family}.gguf"
    if not path.exists():
        write_random_model(path, experts=32, **FAMILIES[family])  # type: ignore[arg-type]
    with real_card(path, options, arena_bytes=3 << 20, **rest) as card:  # type: ignore[arg-type]
        yield card


def plan_of(card: RealCard) -> Plan:
    return card.planned.plan


def replies(card: RealCard, *, max_tokens: int = 8) -> list[tuple[list[int], list[bytes]]]:
    return [(card.serve(prompt, max_tokens=max_tokens), list(card.logits)) for prompt in PROMPTS]


def budgets(plan: Plan) -> dict[str, int]:
    """Of blobs and all; a blob lies across the edge of the first but one."""
    blob_bytes = plan.inventory.max_blob_bytes
    return {
        "nothing": 0,
        "three blobs and a half": 7 * blob_bytes // 2,
        "half of what windows miss": plan.num_missing_pairs * blob_bytes // 2,
        "all that has no slot": plan.num_missing_pairs * 2 * blob_bytes,
        "all": plan.pack.size_bytes,
    }


@pytest.mark.parametrize(
    ("family", "how"),
    [
        ("mixtral", "lent slots"),
        ("mixtral", "short reads and looked up drafts"),
        pytest.param("mixtral", "an arena of its own", marks=SOAK),
        *(pytest.param("qwen35moe", how, marks=SOAK) for how in OPTIONS),
    ],
)
def test_replies_and_logits_have_the_same_bits_whatever_is_pinned(tmp_path: Path, family: str, how: str):
    options = OPTIONS[how]
    with card_of(tmp_path, options, family=family) as card:
        expected, plan, whole = replies(card), plan_of(card), card.runner.snapshot().counts
        assert whole.window_reads_missed > 0 and plan.staged == ()
    for name, pinned_bytes in budgets(plan).items():
        with card_of(tmp_path, replace(options, pinned_bytes=pinned_bytes), family=family) as card:
            assert replies(card) == expected, name
            counts, plan_now = card.runner.snapshot().counts, plan_of(card)
            assert plan_now.pack.pinned_bytes == min(pinned_bytes, plan.pack.size_bytes)
            assert bool(plan_now.staged) == (counts.staged_reads > 0) == name.startswith(("nothing", "three", "half"))
            assert counts.num_loans == whole.num_loans and counts.num_drafts == whole.num_drafts
            if len(plan_now.slots) == len(plan.slots):
                staged = counts.staged_reads
                assert counts == replace(whole, staged_reads=staged, told_reads=staged), name


def test_what_comes_home_is_verified_behind_windows_that_stage_too(tmp_path: Path):
    """Digests come with what was held back, and are held against the pack when they are there."""
    verified = replace(LENDING, pinned_bytes=200_000, policy=LendingPolicy(is_verified=True))
    with card_of(tmp_path, LENDING) as card:
        expected = replies(card)
    with card_of(tmp_path, verified) as card:
        assert replies(card) == expected
        counts = card.runner.snapshot().counts
        assert counts.num_verified > 0 and counts.staged_reads > 0


def test_what_was_lent_from_the_start_is_verified_behind_a_window_that_reads_and_stages(tmp_path: Path):
    path = write_random_drafter(tmp_path / "drafter.gguf", arch="qwen3moe", seed=2, experts=24)
    policy = LendingPolicy(
        is_verified=True, short_read_tokens=24, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=5
    )
    options = PlanOptions(
        256,
        window_rows=4,
        ring_slots=3,
        min_cache_slots=3,
        max_chunk_tokens=256,
        policy=policy,
        pinned_bytes=0,
        segment_bytes=1 << 14,
    )
    with real_card(path, options, arena_bytes=4608 * KIB, mtp=Mtp()) as card:
        assert len(card.serve(tuple(range(10, 20)), max_tokens=6)) == 6
        counts = card.runner.snapshot().counts
        assert counts.num_verified > 0 and counts.staged_reads > 0 and counts.num_segment_loans > 0


@pytest.mark.parametrize("nth", [1, *(pytest.param(nth, marks=SOAK) for nth in (2, 9, 30))])
def test_a_staging_copy_that_fails_on_its_way_breaks_one_request_and_no_other(tmp_path: Path, nth: int):
    """Its slots then hold anything; the next window stages anew whatever it reads."""
    seen: list[Command] = []

    def faults(index: int, command: Command) -> Failed | None:
        if not is_staging(command):
            return None
        seen.append(command)
        return Failed("planted", command) if len(seen) == nth else None

    options = replace(LENDING, pinned_bytes=200_000)
    with card_of(tmp_path, options) as card:
        expected = replies(card)
    with card_of(tmp_path, options, faults=faults) as card:
        with pytest.raises(DeviceError):  # the planted one, or a reader of what it did not write
            replies(card)
        assert len(seen) == nth
        card.runner.recover()
        assert not card.runner._state.at.is_lending
        assert replies(card) == expected


def is_staging(command: Command) -> bool:
    """A copy of blobs into the slots of a window."""
    if not isinstance(command, Copy) or command.stream is not Stream.VERIFIER:
        return False
    targets = [pair.target for pair in command.pairs if isinstance(pair.target, Access)]
    return any(target.owner == "verifier" and target.content is not None for target in targets)


def test_the_twin_sees_an_address_of_a_blob_that_is_pinned_to_its_last_byte_but_one(tmp_path: Path, monkeypatch):
    """Whoever asks where a blob begins, and not where it ends, has a word too many in some row."""
    with card_of(tmp_path, OWN) as card:
        at = sorted(home for row in plan_of(card).pack.blobs for home in row)[40]
    options = replace(OWN, pinned_bytes=at.end_bytes - 1)
    with card_of(tmp_path, options) as card:
        card.serve(IDS[:3])
    monkeypatch.setattr(PackLayout, "is_pinned", lambda pack, home: home.offset_bytes < pack.pinned_bytes)
    with card_of(tmp_path, options) as card, pytest.raises(PageableRead, match="copy it into a slot first"):
        card.serve(IDS[:3])


def test_the_twin_sees_a_program_that_follows_an_address_to_what_is_not_pinned(tmp_path: Path, monkeypatch):
    """As if nothing had to be staged."""
    monkeypatch.setattr(PackLayout, "is_pinned", lambda pack, home: True)
    with card_of(tmp_path, replace(OWN, pinned_bytes=0)) as card, pytest.raises(PageableRead, match="is pageable"):
        card.serve(IDS[:3])
