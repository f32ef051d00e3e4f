"""`strata bench`: prompts and replies of random tokens through an engine without a server, arms turn by turn.

Arms that are compared are open at the same time and take turns within each round, so that whatever drifts meets all of
them alike; each has its own copy of the weights in host memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from strata.commands.bench_figures import (
    Served,
    against_figures,
    as_json,
    lines_of,
    prompt_figures,
    turn_figures,
    work_of,
)
from strata.commands.bench_options import UNSET, BenchOptions, ChatOptions
from strata.commands.doctor import refuse_without_card
from strata.config.switches import LendingSwitches
from strata.config.values import DeviceChoice, ServeConfig
from strata.core.errors import ConfigError
from strata.core.memory.policy import NEVER
from strata.planning import PlannedModel, plan_model

if TYPE_CHECKING:
    from strata.commands.bench_engine import Engine

EMBEDDING = "token_embd.weight"
FRESH_TOKENS = (61, 7)
"""Of a chat's continuations: the first, and each one behind it (`lending.md` 3.1)."""


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    planned: PlannedModel


Row = tuple[str, dict[str, Any]]


def run(config: ServeConfig, options: BenchOptions) -> int:
    """Raises ConfigError with every reason not to start, before anything is opened."""
    arms = [Arm(name, plan_model(chosen)) for name, chosen in arms_of(config, options)]
    reasons = [*_check_fit(arms[0].planned, options)]
    if reasons:
        raise ConfigError(*reasons)
    if config.device is DeviceChoice.CUDA:
        refuse_without_card()
    from strata.commands.bench_engine import measure_ceilings, started

    ceilings = None if config.device.is_virtual else measure_ceilings()
    rows: list[Row] = [] if ceilings is None else [("ceilings", asdict(ceilings))]
    with ExitStack() as stack:
        engines = {arm.name: stack.enter_context(started(arm.planned)) for arm in arms}
        rows += [(f"{name}, start", start_figures(engine)) for name, engine in engines.items()]
        if options.chat is None:
            work = work_of(arms[0].planned.spec, window_bytes=_window_bytes(arms[0].planned))
            for tokens in options.prompts:
                prompts = _prompts(engines, options, tokens)
                rows += [
                    (f"{name}, prompt {tokens:,}", prompt_figures(served, work, ceilings))
                    for name, served in prompts.items()
                ]
                rows += _against(prompts, f"prompt {tokens:,}")
        else:
            chats = _chats(engines, options, options.chat)
            rows += [
                (f"{name}, turn {number}", turn_figures(served, ceilings)) for (name, number), served in chats.items()
            ]
            for turn in range(options.chat.turns + 1):
                rows += _against({name: chats[name, turn] for name in engines}, f"turn {turn}")
    shown = {name: as_json(figures) for name, figures in rows}
    print(json.dumps(shown, indent=2) if options.is_json else "\n".join(lines_of(rows)))
    return 0


def _against(served: Mapping[str, Sequence[Served]], what: str) -> list[Row]:
    """Every arm but the last one against it."""
    *others, last = served
    return [(f"{name} against {last}, {what}", against_figures(served[name], served[last])) for name in others]


def arms_of(config: ServeConfig, options: BenchOptions) -> Iterator[tuple[str, ServeConfig]]:
    """What is compared, by name: the loans as they are switched on and none of them, or thresholds of the room."""
    if options.chat is None:
        for has_loans in options.loans:
            yield ("loans on", config) if has_loans else ("loans off", without_loans(config))
        return
    for room_min in options.chat.room_mins:
        name = UNSET if room_min is None else str(room_min)
        switches = replace(config.switches, mtp_room_min=NEVER if room_min is None else room_min)
        yield f"room-min {name}", replace(config, switches=switches)


def without_loans(config: ServeConfig) -> ServeConfig:
    """Only what is always lent: cache slots. The ring's size is no loan and stays."""
    return replace(config, switches=LendingSwitches(prefill_ring=config.switches.prefill_ring))


def _check_fit(planned: PlannedModel, options: BenchOptions) -> Iterator[str]:
    context, most, chat = planned.plan.options.context_tokens, planned.spec.context_tokens, options.chat
    if chat is None:
        needed = max(options.prompts) + options.generated
    else:
        added = sum(_fresh_tokens(turn) - 1 for turn in range(1, chat.turns + 1))  # a reply's last token is fresh
        needed = chat.tokens + added + (chat.turns + 1) * options.generated
    if needed > context:
        shorter = f"the model has no more than {most:,}: give shorter --prompt, --chat or --gen"
        remedy = f"give --ctx {needed}" if needed <= most else shorter
        yield f"ctx refused: the context has {context:,} tokens, this takes {needed:,}; {remedy}"


def _fresh_tokens(turn: int) -> int:
    return FRESH_TOKENS[min(turn, len(FRESH_TOKENS)) - 1]


def _window_bytes(planned: PlannedModel) -> int:
    """Of the weights that each window reads whole: all but routed experts and an embedding that is no head."""
    inventory = planned.plan.inventory
    skipped = "" if planned.spec.output_name == EMBEDDING else EMBEDDING
    return sum(item.size_bytes for item in inventory.weights if item.name != skipped)


def _prompts(engines: Mapping[str, "Engine"], options: BenchOptions, tokens: int) -> dict[str, list[Served]]:
    """A prompt is never asked twice, so each is read whole."""
    from strata.commands.bench_engine import random_ids

    served: dict[str, list[Served]] = {name: [] for name in engines}
    for number in range(options.rounds + 1):
        for name, engine in engines.items():
            ids = random_ids(engine.planned, tokens, seed=f"prompt {tokens}, {number}")
            one = engine.serve(ids, generated=options.generated)
            if number:  # behind one that warms up
                served[name].append(one)
    return served


def _chats(
    engines: Mapping[str, "Engine"], options: BenchOptions, chat: ChatOptions
) -> dict[tuple[str, int], list[Served]]:
    """By arm and turn, 0 for the cold one. A turn says again all that was said, the reply included, and adds what makes
    it as many fresh tokens as it shall have: the last token of a reply is not in the session yet."""
    from strata.commands.bench_engine import random_ids

    served: dict[tuple[str, int], list[Served]] = {}
    for number in range(options.rounds + 1):
        for name, engine in engines.items():
            said = random_ids(engine.planned, chat.tokens, seed=number)
            for turn in range(chat.turns + 1):
                if turn:
                    more = _fresh_tokens(turn) - 1
                    said += random_ids(engine.planned, more, seed=1000 * number + turn)
                one = engine.serve(said, generated=options.generated)
                said += one.ids
                if number:
                    served.setdefault((name, turn), []).append(one)
    return served


def start_figures(engine: "Engine") -> dict[str, Any]:
    plan = engine.planned.plan
    return {
        "ready_s": round(engine.ready_s, 2),
        **{f"{name}_s": round(seconds, 2) for name, seconds in engine.laps.items()},
        "arena_bytes": plan.arena_bytes,
        "context_tokens": plan.options.context_tokens,
        "cache_slots": len(plan.slots),
        "expert_pairs": plan.inventory.num_pairs,
    }
