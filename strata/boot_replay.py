"""What `strata replay` runs: traces, the twin, the core over it, and a card where one is asked for, joined.

On a card a trace is played once in each order that may show something (`strata.trace.order`), and every step is held
against the twin's where there is one, and against the first order otherwise.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from sim.bytes import BytesPayload, fill_pattern, positional_digest
from sim.payload import Payload
from sim.symbolic import SymbolicPayload
from sim.world.plain_bytes import PlainBytes
from sim.world.recording import Recorded, record_commands, replay_on_twin
from sim.world.served import Served, is_served, replay_served
from sim.world.trace import read_trace
from strata.core.commands import Copy, Digest, Fill, GraphLaunch, Launch, Notify, Record, Stream, Wait
from strata.core.errors import ConfigError
from strata.device import DeviceDescription
from strata.host_memory import available_bytes
from strata.trace.command_trace import CommandTrace
from strata.trace.compared import OrderFound, Played, compare_orders
from strata.trace.entries import Refused
from strata.trace.fingerprint import fingerprint_programs
from strata.trace.jsonl import TraceError
from strata.trace.marks import marks_by_step
from strata.trace.order import Late, orders_for
from strata.trace.replay import Replayed, program_names

if TYPE_CHECKING:
    from strata.replay_card import ReplayCard

FIRST_POISON = 0xA1
STREAM_COMMANDS = (Copy, Digest, Fill, GraphLaunch, Launch, Notify, Record, Wait)


def record_decisions(text: str, *, name: str) -> Recorded:
    """The world of a decision trace, through the core as it is. Raises TraceError."""
    trace = read_trace(text)
    try:
        return record_commands(trace, {"decisions": name})
    except ValueError as error:
        raise TraceError(f"no trace of decisions: {error}") from error


def replay_requests(trace: CommandTrace) -> Served | None:
    """What a server was told, through the core as it is; None for a trace of something else. Raises ConfigError where
    there is no plan for it any more."""
    if not is_served(trace):
        return None
    try:
        return replay_served(trace)
    except ValueError as error:
        raise ConfigError(f"the requests of this trace cannot be served again: {error}") from error


def replay_commands(trace: CommandTrace, *, has_bytes: bool) -> Replayed:
    """Onto the twin. Raises ReplayStalled, and ConfigError when the host cannot give the memory."""
    if not has_bytes:
        programs = fingerprint_programs(program_names(trace), digest=lambda view: 0, fill=lambda view, seed: None)
        return replay_on_twin(trace, SymbolicPayload, programs, fill_pack=None)
    if trace.sizes.segment_bytes % _page_bytes():
        raise ConfigError(
            f"a card of real bytes refused: segment_bytes={trace.sizes.segment_bytes:,} B are not whole pages of "
            f"{_page_bytes():,} B; give --payload none"
        )
    _check_memory(trace, "--payload none")
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))  # for the reason that `boot.open_twin` gives
    programs = fingerprint_programs(program_names(trace), digest=positional_digest, fill=fill_pattern)
    return replay_on_twin(trace, BytesPayload, programs, fill_pack=fill_view)


def play_on_twin(trace: CommandTrace) -> Played:
    """Watched, with bytes. Raises ReplayStalled, and ConfigError when the host cannot give the memory."""
    _check_memory(trace, "--device cuda, which needs no twin")
    marks: dict[str, list[int]] = {}

    def note(lane: str, mark: int) -> None:
        marks.setdefault(lane, []).append(mark)

    is_paged = trace.sizes.segment_bytes % _page_bytes() == 0
    make_payload: Callable[[DeviceDescription], Payload] = BytesPayload if is_paged else PlainBytes
    programs = fingerprint_programs(program_names(trace), digest=_digest_view, fill=_fill_any, note=note)
    replayed = replay_on_twin(trace, make_payload, programs, fill_pack=fill_view, is_watched=True)
    return Played(replayed, marks_by_step(replayed.lines, marks))


def play_on_card(trace: CommandTrace, card: "ReplayCard", orders: Mapping[str, Late]) -> dict[str, Played]:
    """Once in each of `orders`. Raises what `ReplayCard.play` does."""
    return {
        name: card.play(trace, late, fill_view, poison=FIRST_POISON + index)
        for index, (name, late) in enumerate(orders.items())
    }


def replay_on_card(trace: CommandTrace, *, has_twin: bool) -> tuple[Played | None, tuple[OrderFound, ...]]:
    """In every order that may show something. Raises ConfigError where there is no card or too little memory, and
    ReplayStalled; DeviceError when the card is lost."""
    try:
        from strata.replay_card import ReplayCard  # needs triton
    except ImportError as error:
        raise ConfigError(f"device=cuda refused: {error}; in the checkout: pip install -e '.[gpu]'") from error
    twin = play_on_twin(trace) if has_twin else None
    card = ReplayCard()
    try:
        return twin, compare_orders(twin, play_on_card(trace, card, orders_for(streams_of(trace))))
    finally:
        card.close()


def streams_of(trace: CommandTrace) -> frozenset[Stream]:
    """Those that are given anything."""
    asked = (entry.asked if isinstance(entry, Refused) else entry for entry in trace.entries)
    return frozenset(each.stream for each in asked if isinstance(each, STREAM_COMMANDS))


def fill_view(view: memoryview, seed: int) -> None:
    """The pattern of `seed` everywhere, as `strata.trace.digest.pattern` defines it."""
    fill_pattern(torch.frombuffer(view, dtype=torch.uint8), seed)


def _fill_any(target: Any, seed: int) -> None:
    if len(target):
        fill_pattern(target if isinstance(target, torch.Tensor) else torch.frombuffer(target, dtype=torch.uint8), seed)


def _digest_view(source: Any) -> int:
    if not len(source):
        return 0
    return positional_digest(
        source if isinstance(source, torch.Tensor) else torch.frombuffer(source, dtype=torch.uint8)
    )


def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _check_memory(trace: CommandTrace, remedy: str) -> None:
    sizes, left_bytes = trace.sizes, available_bytes()
    needed_bytes = sizes.arena_bytes + sizes.pack_bytes + sizes.staging_bytes + sizes.parked_bytes
    if left_bytes is not None and needed_bytes > left_bytes:
        raise ConfigError(
            f"a card of real bytes refused: it takes {needed_bytes:,} B of this host's memory; {left_bytes:,} B are "
            f"available; give {remedy}"
        )
