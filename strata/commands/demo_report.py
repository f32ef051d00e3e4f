"""What the demo measured and showed, and whether it was a demo at all. Pure: server's answers in, lines out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata.commands.api_client import ApiError, Completed
from strata.commands.card_map import OwnedBytes, render_map
from strata.core.units import MIB

COUNTED = (
    "expert_reads_hit",
    "expert_reads_missed",
    "link_bytes",
    "ring_entries",
    "num_loans",
    "lent_bytes",
    "refilled_bytes",
    "num_rooms",
    "room_bytes",
    "num_segment_loans",
    "restored_bytes",
    "num_drafts",
    "num_drafts_accepted",
)
"""Counters of the server that only ever grow: what the conversation did is the difference of two looks."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply: its text, when its first text came (seen from the client), and how it ended."""

    text: str
    ttft_ms: float
    completed: Completed


@dataclass(frozen=True, slots=True)
class Card:
    """What crossed the link, and where reads were served from, between two looks at the card; the map as it is now."""

    rows: tuple[OwnedBytes, ...]
    chunk_tokens: int
    ring_slots: int
    expert_reads_hit: int
    expert_reads_missed: int
    link_bytes: int
    ring_entries: int
    num_loans: int
    lent_bytes: int
    refilled_bytes: int
    num_rooms: int
    room_bytes: int
    num_segment_loans: int
    restored_bytes: int
    num_drafts: int
    num_drafts_accepted: int
    num_maps_while_serving: int


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """Of the whole conversation. Rates are tokens a second of the engine's own clock; `ttft_ms` is the first turn's."""

    tokens: int
    ttft_ms: float
    prompt_tok_s: float
    decode_tok_s: float
    link_mib: float
    cache_hit: float
    ring_entries: int
    allocs_while_serving: int

    def last_line(self) -> str:
        """The line that scripts read. Its form is fixed."""
        return (
            f"demo: ok tokens={self.tokens} ttft_ms={self.ttft_ms:.0f} prompt_tok_s={self.prompt_tok_s:.1f} "
            f"decode_tok_s={self.decode_tok_s:.2f} link_mib={self.link_mib:.1f} cache_hit={self.cache_hit:.3f} "
            f"ring_entries={self.ring_entries} allocs_while_serving={self.allocs_while_serving}"
        )


def read_card(before: Any, after: Any) -> Card:
    """Two answers of GET /debug/card as one Card: counters are differences, so that the weights' way to the card at
    start does not count as traffic. Raises ApiError when the server left something out."""
    try:
        first, last = before["statistics"], after["statistics"]
        return Card(
            rows=tuple(OwnedBytes(row["owner"], row["offset_bytes"], row["size_bytes"]) for row in after["rows"]),
            chunk_tokens=int(after["chunk_tokens"]),
            ring_slots=int(after["ring_slots"]),
            num_maps_while_serving=int(last["num_maps_while_serving"]),
            **{name: int(last[name]) - int(first[name]) for name in COUNTED},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ApiError(f"the answer of /debug/card is incomplete: {error!r}") from error


def figures_of(turns: Sequence[Turn], card: Card) -> DemoFigures:
    """Raises ApiError when a reply came without usage or timings."""
    try:
        timings = [turn.completed.timings for turn in turns]
        tokens = sum(int(turn.completed.usage["completion_tokens"]) for turn in turns)
        prompt_tok_s, decode_tok_s = _rate(timings, "prompt"), _rate(timings, "predicted")
    except (KeyError, TypeError, ValueError) as error:
        raise ApiError(f"a reply came without its figures: {error!r}") from error
    return DemoFigures(
        tokens=tokens,
        ttft_ms=turns[0].ttft_ms,
        prompt_tok_s=prompt_tok_s,
        decode_tok_s=decode_tok_s,
        link_mib=card.link_bytes / MIB,
        cache_hit=card.expert_reads_hit / max(1, card.expert_reads_hit + card.expert_reads_missed),
        ring_entries=card.ring_entries,
        allocs_while_serving=card.num_maps_while_serving,
    )


def check_demo(
    turns: Sequence[Turn], figures: DemoFigures, card: Card, *, has_drafter: bool, exit_code: int
) -> tuple[str, ...]:
    """Why this was no demo of a card smaller than its model; () when it was one. `has_drafter`: nor is it one without
    drafts, and without a room in the drafter's block."""
    allocs = figures.allocs_while_serving
    claims = (
        (all(turn.text.strip() for turn in turns), "a reply is empty"),
        (figures.tokens > 0, "tokens=0: the model said nothing"),
        (figures.link_mib > 0, "link_mib=0: nothing crossed the link, so all experts fitted on the card; lower --vram"),
        (
            figures.ring_entries > 0,
            "ring_entries=0: no prompt was read through the ring; lower --vram until experts are missing on the card",
        ),
        (card.num_drafts > 0 or not has_drafter, "num_drafts=0: nothing was drafted; unset STRATA_MTP and STRATA_SPEC"),
        (card.num_rooms > 0 or not has_drafter, "num_rooms=0: no read used the room; unset STRATA_MTP_ROOM_MIN"),
        (allocs == 0, f"allocs_while_serving={allocs}: arena memory was taken while serving, 0 allowed"),
        (exit_code == 0, f"the server ended with exit code {exit_code} after SIGTERM, expected 0"),
    )
    return tuple(reason for holds, reason in claims if not holds)


def report_lines(turns: Sequence[Turn], card: Card) -> Iterator[str]:
    """The card's map and counters, then one line a turn. Needs turns that `figures_of` has read."""
    yield "the card, by owner:"
    yield from render_map(card.rows)
    yield f"  chunk {card.chunk_tokens} tokens; ring {card.ring_slots} slots, {card.ring_entries} entries through it"
    lent = f"{card.lent_bytes / MIB:.1f} MiB lent, {card.refilled_bytes / MIB:.1f} MiB copied back"
    yield f"  loans of cache slots to a read: {card.num_loans}, {lent}"
    yield from _loan_lines(card)
    if card.num_drafts:
        share = card.num_drafts_accepted / card.num_drafts
        yield f"  drafts: draft_n={card.num_drafts}, draft_n_accepted={card.num_drafts_accepted}, {share:.0%} of them"
    yield f"  expert reads: {card.expert_reads_hit} from the card, {card.expert_reads_missed} over the link"
    yield f"  over the link to the card during the conversation: {card.link_bytes / MIB:.1f} MiB"
    for number, turn in enumerate(turns, 1):
        t = turn.completed.timings
        read = f"read {t['prompt_n']} tokens in {t['prompt_ms']:.0f} ms"
        wrote = f"wrote {t['predicted_n']} in {t['predicted_ms']:.0f} ms"
        ending = turn.completed.finish_reason
        yield f"  turn {number}: first text after {turn.ttft_ms:.0f} ms; {read}, {wrote} ({ending})"


def _loan_lines(card: Card) -> Iterator[str]:
    if card.num_rooms:
        written = f"{card.room_bytes / MIB:.1f} MiB written there and copied back"
        yield f"  room in the drafter's block: opened {card.num_rooms} times, {written}"
    if card.num_segment_loans or card.restored_bytes:
        yield f"  segments that moved: {card.restored_bytes / MIB:.1f} MiB copied back to what they had held"


def _rate(timings: Sequence[Mapping[str, Any]], kind: str) -> float:
    milliseconds = sum(float(each[f"{kind}_ms"]) for each in timings)
    return 1e3 * sum(int(each[f"{kind}_n"]) for each in timings) / milliseconds if milliseconds else 0.0
