"""The real machine and runner over the twin, with a model that tells what it read, failures on demand, and reports
that arrive as late as they may.
"""

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sim.device import SimDevice, describe_twin
from sim.errors import TableError, TwinError, UndefinedRead
from sim.queues import Queues
from sim.streams import Operation
from sim.world.geometry import Delivery, Geometry
from sim.world.pairs import Pairs
from sim.world.plain_bytes import PlainBytes
from sim.world.programs import WrongBytes, world_programs
from sim.world.table_checks import check_published, check_unpublished
from strata.core import programs
from strata.core.commands import Command, Copy, Notify, Record, Transfer, Wait
from strata.core.errors import DeviceError, Refusal
from strata.core.events import Event, Failed, Reached
from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.planner import Plan
from strata.core.serving.launches import Recipe
from strata.device import DeviceDescription
from strata.engine.runner import Runner
from strata.trace.entries import FaultKind as FaultKind
from strata.trace.recording import Keep, RecordingDevice

TERMINATORS = (1, 2)
PLANTED = "planted"
CONSEQUENCES = (UndefinedRead, TableError, WrongBytes)
"""What commands may meet that were submitted behind one which failed on its way."""


class PlantedFault(DeviceError):
    """A failure that the world asked for."""


class Stalled(AssertionError):
    """The runner waits for what nobody will report."""


@dataclass(slots=True)
class Faults:
    """Failures to come. `planned`: (commands from now, kind); `num_fired` since the world began; `is_spoilt`: a command
    failed on its way, so commands behind it may meet bytes that were never written."""

    planned: list[tuple[int, FaultKind]] = field(default_factory=list)
    num_fired: int = 0
    is_spoilt: bool = False

    def take(self, command: Command) -> FaultKind | None:
        if not self.planned:
            return None
        due = [kind for left, kind in self.planned if left == 0]
        self.planned = [(left - 1, kind) for left, kind in self.planned if left]
        if not due:
            return None
        self.num_fired += 1
        # What orders and what changes hands fails at once on a card: the call itself says so.
        if due[0] is FaultKind.REFUSED or isinstance(command, Transfer | Wait | Record | Notify):
            return FaultKind.REFUSED
        self.is_spoilt = True
        return FaultKind.FAILED


class WorldDevice(SimDevice):
    """Keeps every word of the twin that is not excused by a failure, since a runner that mends swallows errors."""

    def __init__(
        self,
        description: DeviceDescription,
        payload: PlainBytes,
        geometry: Geometry,
        blobs: dict[tuple[int, int], bytes],
        manifest: Sequence[tuple[HostExtent, str]],
    ) -> None:
        programs = world_programs(blobs, num_experts=geometry.num_experts)
        self.queues = Queues() if geometry.delivery is Delivery.DRAWN else None
        super().__init__(description, programs, payload, faults=self._ask, manifest=manifest, queues=self.queues)
        self.faults = Faults()
        self.history: list[Command] | None = None
        self.accusation: TwinError | None = None
        self._last_fault: FaultKind | None = None
        self.transfers: list[Transfer] = []
        self.favours: deque[int] = deque()
        self.num_overtakings = 0  # times that a stream went on before an older command of another one
        self.pairs: Pairs | None = None
        self._delivery = geometry.delivery
        self._reports: deque[tuple[str, Event, tuple[int, ...] | None]] = deque()
        self._stream_of: dict[str, str] = {}

    def submit(self, commands: Sequence[Command]) -> None:
        try:
            super().submit(commands)
        except TwinError as error:
            self._last_fault = FaultKind.REFUSED if self._note(error) else None
            raise

    def pause(self) -> None:
        """The host waits, so a stream goes on. What a program meets behind a command that failed on its way stays on
        the card, as it would: the failure itself is told."""
        if not self.queues:
            raise Stalled("the runner waits for a notice that no submitted command will give: all of them are over")
        stream, streams = self.queues.oldest(), self.queues.streams()
        if self.favours and len(streams) > 1:
            favoured = streams[self.favours.popleft() % len(streams)]
            self.num_overtakings += favoured is not stream
            stream = favoured
        try:
            self.queues.run(stream)
        except TwinError as error:
            if not self._note(error):
                raise

    def _note(self, error: TwinError) -> bool:
        """Keep the first word that no failure excuses; gives whether one does."""
        is_consequence = self.faults.is_spoilt and isinstance(error, CONSEQUENCES)
        if not is_consequence and self.accusation is None:
            self.accusation = error
        return is_consequence

    def host(self, extent: HostExtent) -> memoryview:
        try:
            view = super().host(extent)
        except TwinError as error:
            self.accusation = self.accusation or error
            raise
        if self.pairs is not None and extent.space is HostSpace.STAGING:
            self.pairs.note_host(self._shadow.clocks)
        return view

    def completions(self) -> Sequence[Event]:
        if self._delivery in (Delivery.ALL, Delivery.DRAWN):
            return super().completions()
        for event, snapshot in self._events:
            stream = self._stream_of.pop(event.tag) if isinstance(event, Reached) else _stream_of(event)
            self._reports.append((stream, event, snapshot))
        self._events = []
        if not self._reports:
            return []
        stream = self._reports[-1 if self._delivery is Delivery.CROSSED else 0][0]
        report = next(report for report in self._reports if report[0] == stream)
        self._reports.remove(report)
        if report[2] is not None:
            self._shadow.clocks.join_host(report[2])
        return [report[1]]

    def last_fault(self) -> FaultKind | None:
        """The failure that the world asked for in the command submitted last, or that comes of an earlier one."""
        return self._last_fault

    def _ask(self, index: int, command: Command) -> Failed | None:
        del index
        if self.history is not None:
            self.history.append(command)
        if isinstance(command, Notify):
            self._stream_of[command.tag] = command.stream
        self._last_fault = kind = self.faults.take(command)
        if kind is FaultKind.REFUSED:
            raise PlantedFault(PLANTED, command)
        if kind is FaultKind.FAILED:
            return Failed(PLANTED, command)
        if isinstance(command, Transfer):
            check_unpublished(command, self._shadow)
            self.transfers.append(command)
        return None

    def _apply(self, command: Command, by: Operation) -> None:
        super()._apply(command, by)
        if self.pairs is not None:
            self.pairs.note(command, by, self._shadow)

    def _copy(self, command: Copy, by: Operation) -> None:
        super()._copy(command, by)
        if command.publishes is not None:
            check_published(command.publishes, self._shadow, by)


def _stream_of(event: Failed) -> str:
    stream: str = event.command.stream  # type: ignore[attr-defined]
    return stream


@dataclass(slots=True)
class Card:
    geometry: Geometry
    plan: Plan
    device: WorldDevice
    payload: PlainBytes
    runner: Runner
    blobs: dict[tuple[int, int], bytes]


def make_card(geometry: Geometry, *, is_counting_pairs: bool = False, keep: Keep | None = None) -> Card | Refusal:
    """Started and idle. `keep` gets everything that the runner asks of its device, from the first command on."""
    card = build_card(geometry, is_counting_pairs=is_counting_pairs, keep=keep)
    if isinstance(card, Card):
        if is_counting_pairs:
            card.device.pairs = Pairs(card.device._graphs)
        card.runner.start()
    return card


def build_card(geometry: Geometry, *, is_counting_pairs: bool = False, keep: Keep | None = None) -> Card | Refusal:
    """Filled and sealed, not yet started."""
    plan = geometry.plan()
    if isinstance(plan, Refusal):
        return plan
    description = describe_twin(
        arena_bytes=geometry.arena_bytes,
        segment_bytes=geometry.segment_bytes,
        pack_bytes=plan.pack.size_bytes,
        staging_bytes=plan.staging.size_bytes,
        parked_bytes=geometry.parked_bytes,
    )
    payload = PlainBytes(description)
    blobs = {
        (layer, expert): blob_bytes_of(layer, expert, size_bytes)
        for layer, size_bytes in enumerate(geometry.blob_bytes)
        if size_bytes
        for expert in range(geometry.num_experts)
    }
    manifest: list[tuple[HostExtent, str]] = []
    for (layer, expert), blob in blobs.items():
        home = plan.pack.blobs[layer][expert]
        payload.host(home)[:] = blob
        manifest.append((home, f"blob {layer} {expert}"))
    manifest += [(home, f"weight {name}") for name, home in plan.pack.weights.items()]
    device = WorldDevice(description, payload, geometry, blobs, manifest)
    device.seal()
    asked = device if keep is None else RecordingDevice(device, keep, ask_fault=device.last_fault)
    runner = Runner(asked, Recipe(plan, _dense_reads(geometry)), TERMINATORS, pause=device.pause)
    return Card(geometry, plan, device, payload, runner, blobs)


@lru_cache(maxsize=512)
def blob_bytes_of(layer: int, expert: int, size_bytes: int) -> bytes:
    """Position-dependent, so that neither another blob nor the same one shifted is equal to it."""
    words = [(layer << 24 | expert << 16) + index for index in range(-(-size_bytes // 4))]
    return struct.pack(f"<{len(words)}I", *words)[:size_bytes]


def _dense_reads(geometry: Geometry) -> dict[tuple[str, int | None], tuple[str, ...]]:
    reads: dict[tuple[str, int | None], tuple[str, ...]] = {
        (program, layer): (f"blk.{layer}",)
        for layer in range(len(geometry.blob_bytes))
        for program in (programs.ATTENTION, programs.RECURRENT, programs.ROUTER, programs.FFN)
    }
    return reads | {(programs.EMBED, None): ("token_embd.weight",), (programs.HEAD, None): ("token_embd.weight",)}
