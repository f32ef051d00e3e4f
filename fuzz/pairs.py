"""Every pair of operations that could meet on a class of bytes: seen, not seen yet, or impossible, and why.

The tables below say what the core may do, from `lending.md` 4 and 4.1 and not from the core: a pair that is seen
although they call it impossible is an error of theirs or of the core. They speak of worlds that lend cache slots
only: what room, elastic loan, scratch, short reads, swaps and staged blobs add is not in them yet and not counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

from sim.world.pairs import (
    BEFORE,
    BESIDE,
    COPY_IN,
    COPY_OUT,
    FILL,
    HOST_ACCESS,
    KINDS,
    LAUNCH,
    MAP,
    TRANSFER,
    WINDOW,
    Pair,
)

TOUCHES = {
    "weights": (COPY_IN, LAUNCH, WINDOW, TRANSFER),
    "table": (COPY_IN, WINDOW, TRANSFER),
    "kv": (COPY_IN, COPY_OUT, FILL, LAUNCH, WINDOW, TRANSFER),
    "state": (COPY_IN, COPY_OUT, FILL, LAUNCH, WINDOW, TRANSFER),
    "verifier": (COPY_IN, COPY_OUT, FILL, WINDOW, TRANSFER),
    "cache": (COPY_IN, LAUNCH, WINDOW, TRANSFER),
    "prompt": (COPY_IN, COPY_OUT, LAUNCH, TRANSFER),
    "parked": (COPY_IN, COPY_OUT),
    "staging": (COPY_IN, COPY_OUT, HOST_ACCESS),
    "nobody": (MAP, TRANSFER),
}
"""What is done to each class at all."""

NEVER_LENT = ("weights", "table", "kv", "state", "verifier")
ONE_STREAM = {
    "verifier": (COPY_IN, COPY_OUT, FILL, WINDOW),
    "table": (COPY_IN, WINDOW),
    "kv": (COPY_IN, COPY_OUT, FILL, WINDOW),
    "state": (COPY_IN, COPY_OUT, WINDOW),
    "parked": (COPY_IN, COPY_OUT),
    "weights": (COPY_IN, WINDOW),
    "prompt": (COPY_OUT, LAUNCH),
}
"""Kinds that are only ever issued on one stream, of each class the same; copies into the ring have one of their own."""

SELF_ORDERED = (LAUNCH, WINDOW, TRANSFER, MAP, HOST_ACCESS)
"""Kinds that are issued on one stream, or by the host, wherever they occur."""


@dataclass(frozen=True, slots=True)
class Coverage:
    seen: tuple[Pair, ...]
    missing: tuple[Pair, ...]
    impossible: Mapping[str, tuple[Pair, ...]]  # by reason
    contradicted: tuple[Pair, ...]  # seen, and called impossible


def cover(counts: Mapping[Pair, int]) -> Coverage:
    impossible: dict[str, list[Pair]] = {}
    for pair in all_pairs():
        reason = why_impossible(pair)
        if reason:
            impossible.setdefault(reason, []).append(pair)
    excluded = {pair for pairs in impossible.values() for pair in pairs}
    seen = tuple(sorted(pair for pair, count in counts.items() if count))
    return Coverage(
        seen,
        tuple(pair for pair in all_pairs() if pair not in excluded and not counts.get(pair)),
        {reason: tuple(pairs) for reason, pairs in impossible.items()},
        tuple(pair for pair in seen if pair in excluded or pair.region not in TOUCHES),
    )


def all_pairs() -> Iterator[Pair]:
    for region in TOUCHES:
        for first, second in product(KINDS, KINDS):
            yield Pair(first, BEFORE, second, region)
        for first, second in combinations_with_replacement(KINDS, 2):
            yield Pair(first, BESIDE, second, region)


def why_impossible(pair: Pair) -> str:
    """ "" where a right core may do it."""
    first, relation, second, region = pair
    kinds = {first, second}
    if not kinds <= set(TOUCHES[region]):
        return "no command of the core does the one or the other to these bytes"
    if relation == BEFORE:
        return _why_not_before(first, second, region)
    if kinds <= set(ONE_STREAM.get(region, ())) or (first == second and first in SELF_ORDERED):
        return "both are issued on one stream, or by the host"
    return _why_not_beside(kinds, region)


def _why_not_before(first: str, second: str, region: str) -> str:
    if second == TRANSFER and region in NEVER_LENT:
        return "these bytes get their owner at start, before anything else, and keep it"
    if second == MAP and first == TRANSFER:
        return "all segments are mapped at start, before any byte has an owner"
    if region == "weights" and second == COPY_IN and first != TRANSFER:
        return "the weights of these models are loaded by one command, at start"
    return ""


def _why_not_beside(kinds: set[str], region: str) -> str:
    if TRANSFER in kinds or MAP in kinds:
        return "bytes change hands only when the host knows that all work on them is over (4.1, lend; invariant 1)"
    if kinds == {HOST_ACCESS, COPY_OUT}:
        return "the host asks for staging only when it knows that the copy which used it is over (4.1, host staging)"
    if HOST_ACCESS in kinds:
        return "what a chunk needs is staged and goes up at once, and more is staged only when the host has heard of it"
    if region == "staging":
        return "verifier's inputs go up, and results down, only while both prompt streams rest (4, 6)"
    if kinds == {LAUNCH, WINDOW} or region in ("kv", "state", "weights"):
        return "prompt path and windows hand over to each other, nothing of the one runs beside the other (4, 6 and 8)"
    if region == "prompt" and kinds == {COPY_IN, COPY_OUT}:
        return "a chunk whose copies run ahead asks no router, and one that asks has waited for all of them (4, 4)"
    if region == "cache":
        return "lent slots come home while both prompt streams rest, and the window waits for `back` (4.1, refill)"
    return ""
