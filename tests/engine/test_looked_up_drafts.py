"""Drafts that the host looks up, judged by the twin: they go up with their window, and the session holds what stood."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Copy, GraphLaunch
from strata.core.errors import DeviceError
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Windowing
from strata.engine.lookup import look_up
from strata.engine.runner import HasSampled
from tests.engine.every_command import SHARDS, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, lending_inventory, symbolic_card

ELASTIC = LendingPolicy(is_elastic=True, repeat_min_tokens=64, short_read_tokens=16)
PLAIN = LendingPolicy(short_read_tokens=16)


def card(*, window_rows: int = 4, policy: LendingPolicy = PLAIN, is_hybrid: bool = False, **rest: object) -> Card:
    """Three tokens, so that most runs of two have been there before."""
    inventory = replace(lending_inventory(), vocab_size=3)
    if is_hybrid:
        inventory = replace(inventory, state_bytes=(512, 0, 768, 0), journal_bytes=64)
    options = PlanOptions(
        1024, min_cache_slots=4, ring_slots=4, window_rows=window_rows, policy=policy, segment_bytes=1 << 12
    )
    return symbolic_card(inventory, options, arena_bytes=10 << 16, **rest)  # type: ignore[arg-type]


def ask(num_tokens: int, *, max_tokens: int = 12, first: int = 0) -> GenerationRequest:
    ids = ((first + i * i) % 3 for i in range(num_tokens))
    return GenerationRequest("r", tuple(ids), max_tokens)


def graphs(served: Card) -> list[str]:
    return [command.graph for command in served.commands if isinstance(command, GraphLaunch)]


@given(
    num_tokens=st.integers(1, 300),
    max_tokens=st.integers(1, 30),
    window_rows=st.integers(1, 8),
    policy=st.sampled_from((PLAIN, ELASTIC)),
    is_hybrid=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_replies_with_looked_up_drafts_pass_every_check(num_tokens, max_tokens, window_rows, policy, is_hybrid, seed):
    served = card(window_rows=window_rows, policy=policy, is_hybrid=is_hybrid, seed=seed)
    assert served.serve(ask(num_tokens, max_tokens=max_tokens)) == max_tokens
    assert served.serve(ask(200, max_tokens=5, first=1)) == 5
    assert not [name for name in graphs(served) if name.startswith("draft")]


def test_each_window_takes_up_what_was_looked_up_behind_all_that_stands():
    served = card(policy=ELASTIC)
    request = ask(100, max_tokens=40)
    served.runner.begin(request)
    ids, widths = list(request.prompt_ids), set()
    while len(ids) < 140:
        served.play()
        before = served.runner._state
        outcome = served.runner.advance(is_cancelled=False)
        if not isinstance(outcome, HasSampled):
            continue
        assert isinstance(before, Windowing)
        ids += outcome.token_ids
        if len(ids) == 140:
            break
        del served.commands[:]
        served.runner.resume(*outcome.token_ids)
        drafts = look_up(ids, most=min(4, 140 - len(ids)) - 1)
        assert graphs(served)[-1] == f"window {1 + len(drafts)}"
        staged = served.plan.staging.window_tokens.part(offset_bytes=4, size_bytes=4 * len(drafts))
        copies = [pair.source for command in served.commands if isinstance(command, Copy) for pair in command.pairs]
        assert copies.count(staged) == bool(drafts)
        assert tuple(served.payload.host(staged).cast("i")) == drafts
        widths.add(1 + len(drafts))
    assert {1, 4} <= widths
    served.runner.end()
    facts = served.runner.draft_facts()
    assert 0 < facts.num_accepted < facts.num_drafts


@given(cancel=st.integers(0, 40), seed=st.integers(0, 99), is_hybrid=st.booleans())
def test_a_client_that_leaves_while_it_is_drafted_for_leaves_a_session(cancel, seed, is_hybrid):
    served = card(seed=seed, is_hybrid=is_hybrid)
    served.serve(ask(100, max_tokens=40), cancel_after_steps=cancel)
    held = served.runner._state.at.session.ids
    assert held[:100] == ask(100).prompt_ids[: len(held)]
    assert served.serve(ask(110, max_tokens=4)) == 4


@pytest.mark.slow
@SHARDS
def test_whatever_fails_the_next_request_is_drafted_for(shard):
    served = card(is_hybrid=True)
    start = len(served.commands)
    served.serve(ask(30))
    commands, hit = served.commands[start:], []
    for index in indexes_of(len(commands), shard):
        failing: list[int] = []

        def fault(number, command, failing=failing):
            if failing and number == failing[0]:
                hit.append(command)
                raise DeviceError("planted", command)

        served = card(is_hybrid=True, faults=fault)
        failing.append(len(served.commands) + index)
        try:
            served.serve(ask(30))
        except DeviceError:
            failing.clear()
            served.runner.recover()
        del served.commands[:]
        assert served.serve(ask(60, max_tokens=12, first=1)) == 12
        assert "window 4" in graphs(served)
    assert {"GraphLaunch", "Notify", "Copy"} <= kinds_of(commands)
    assert len(hit) == len(indexes_of(len(commands), shard))
