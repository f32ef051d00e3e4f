"""What the host has to say of drafts: those that it looks up, and which of a drafter's are worth a row."""

import struct

from strata.core.memory.planner import Plan
from strata.core.programs import PROBABILITY_WORD
from strata.core.serving.states import State, Windowing
from strata.engine.lookup import look_up


def looked_up(plan: Plan, state: State, token_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Drafts behind `token_ids`, which the window of `state` gave, where windows have rows for them and no drafter to
    fill these."""
    assert isinstance(state, Windowing)
    most = min(plan.options.window_rows, state.num_left - len(token_ids)) - 1
    if plan.draft is not None or most < 1:
        return ()
    return look_up((*state.at.session.ids, state.token_id, *token_ids), most=most)


def num_worthy(result: memoryview, num_drafts: int, *, least: float) -> int:
    """Drafts before the first one that the drafter itself finds too unlikely. `result`: as the drafter left it."""
    probabilities = struct.unpack_from(f"<{num_drafts}d", result, 8 * PROBABILITY_WORD)
    return next((num for num, probability in enumerate(probabilities) if not probability >= least), num_drafts)
