"""Shorter and plainer decisions that still fail the same way: delta debugging (A. Zeller, TSE 2002) on the list, then
smaller numbers, then a plainer world.

A failure is the same when its class is. Decisions that do not apply are nothing, so any subset is a world.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any

from fuzz.campaign import Failure
from sim.world.card import FaultKind
from sim.world.decisions import Decision
from sim.world.geometry import Delivery, Geometry
from sim.world.worlds import make_world

MAX_TRIALS = 400
LOANS = (
    "room_min_tokens",
    "is_elastic",
    "lends_block",
    "lends_head",
    "retains_startup",
    "repeat_min_tokens",
    "draft_head_bytes",
)
"""Whatever a geometry may do without."""
Fails = Callable[[Geometry, Sequence[Decision]], bool]


def kind_of(geometry: Geometry, decisions: Sequence[Decision]) -> str:
    """The class of what a world raises, "" when it raises nothing."""
    try:
        driver = make_world(geometry)
        for decision in decisions:
            driver.apply(decision)
        driver.finish()
    except Exception as error:
        return type(error).__name__
    return ""


def minimize_failure(failure: Failure) -> Failure:
    def fails(geometry: Geometry, decisions: Sequence[Decision]) -> bool:
        return kind_of(geometry, decisions) == failure.kind

    if not fails(failure.geometry, failure.decisions):
        return failure
    geometry, decisions = minimize(failure.geometry, failure.decisions, fails)
    return replace(failure, geometry=geometry, decisions=decisions)


def minimize(geometry: Geometry, decisions: Sequence[Decision], fails: Fails) -> tuple[Geometry, tuple[Decision, ...]]:
    """`fails` holds for what is given and for what comes back; it is asked MAX_TRIALS times at most."""
    trials = count()

    def still_fails(geometry: Geometry, some: Sequence[Decision]) -> bool:
        return next(trials) < MAX_TRIALS and fails(geometry, some)

    kept = list(decisions)
    while True:
        before = (geometry, tuple(kept))
        kept = _shorten(kept, lambda some: still_fails(geometry, some))  # noqa: B023  used within this turn
        for index in range(len(kept)):
            for smaller in _smaller(kept[index]):
                if still_fails(geometry, [*kept[:index], smaller, *kept[index + 1 :]]):
                    kept[index] = smaller
                    break
        for plainer in _plainer(geometry):
            if still_fails(plainer, kept):
                geometry = plainer
                break
        if (geometry, tuple(kept)) == before:
            return geometry, tuple(kept)


def _shorten(items: list[Decision], fails: Callable[[list[Decision]], bool]) -> list[Decision]:
    """ddmin: take out ever smaller pieces as long as the rest still fails."""
    size = max(1, len(items) // 2)
    while items:
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items = rest
                break
        else:
            if size == 1:
                return items
            size = max(1, size // 2)
    return items


def _smaller(decision: Decision) -> Iterator[Decision]:
    """The same decision with one number nearer to nothing, the boldest first."""
    for field in fields(decision):
        value = getattr(decision, field.name)
        if isinstance(value, str):
            plainest = FaultKind.REFUSED if isinstance(value, FaultKind) else ""
            if value != plainest:
                yield _with(decision, field.name, plainest)
            continue
        least = 1 if field.name in ("times", "max_tokens") else 0
        steps = {value - (value >> shift) for shift in (0, 1, 2, 4)} | ({value - 1} if value <= 16 else set())
        for smaller in sorted({least} | steps):
            if least <= smaller < value:
                yield _with(decision, field.name, smaller)


def _with(decision: Decision, name: str, value: Any) -> Decision:
    values: dict[str, Any] = {name: value}
    return replace(decision, **values)


def _with_one_card_fewer(geometry: Geometry, index: int) -> Geometry:
    """Without split number `index`: the layers on both sides of it on one card, which has the bytes of both."""
    sizes = [geometry.arena_bytes, *geometry.arenas]
    sizes[index : index + 2] = [sum(sizes[index : index + 2])]
    splits = geometry.splits[:index] + geometry.splits[index + 1 :]
    return replace(geometry, splits=splits, arena_bytes=sizes[0], arenas=tuple(sizes[1:]))


def _plainer(geometry: Geometry) -> Iterator[Geometry]:
    if geometry.delivery is not Delivery.ALL:
        yield replace(geometry, delivery=Delivery.ALL)
    if geometry.recurrent:
        yield replace(geometry, recurrent=(), num_checkpoints=0)
    if geometry.num_checkpoints:
        yield replace(geometry, num_checkpoints=0)
        yield replace(geometry, num_checkpoints=geometry.num_checkpoints - 1)
    if geometry.parked_bytes:
        yield replace(geometry, parked_bytes=0, is_reread=False)
    if geometry.is_reread:
        yield replace(geometry, is_reread=False)
    if geometry.window_rows > 1:
        yield replace(geometry, window_rows=1, least_draft_percent=0)
    if geometry.least_draft_percent:
        yield replace(geometry, least_draft_percent=0)
    if geometry.window_rows > 2:
        yield replace(geometry, window_rows=2)
    if geometry.short_read_tokens:
        yield replace(geometry, short_read_tokens=0)
    if geometry.num_swaps:
        yield replace(geometry, num_swaps=0, swap_windows=1)
    if geometry.num_swaps > 1:
        yield replace(geometry, num_swaps=1)
    if geometry.swap_windows > 1:
        yield replace(geometry, swap_windows=1)
    for index in range(len(geometry.splits)):
        yield _with_one_card_fewer(geometry, index)
    if geometry.work_bytes:
        yield replace(geometry, mixer_work_bytes=0, moe_work_bytes=0, ffn_work_bytes=0, has_slab=False)
    for field in fields(geometry):
        if field.name in LOANS and getattr(geometry, field.name) != field.default:
            changed: dict[str, Any] = {field.name: field.default}
            yield replace(geometry, **changed)
    if geometry.num_experts > 5:
        yield replace(geometry, num_experts=geometry.num_experts - 1)
    if len(geometry.blob_bytes) > 1:
        for index in range(len(geometry.blob_bytes)):
            rest = geometry.blob_bytes[:index] + geometry.blob_bytes[index + 1 :]
            if any(rest) and all(start < len(rest) for start in geometry.splits):
                recurrent = tuple(layer for layer in geometry.recurrent if layer < len(rest))
                yield replace(geometry, blob_bytes=rest, recurrent=recurrent)
