"""The real machine and runner over the twin, with a model that tells what it read, failures on demand, and reports
that arrive as late as they may.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.device import SimDevice, describe_twin
from sim.errors import TableError, TwinError, UndefinedRead
from sim.queues import Queues
from sim.streams import Operation
from sim.world.geometry import EMBEDDING, Delivery, Geometry
from sim.world.loan_checks import Journal, check_block_is_back, check_start
from sim.world.loans import Home, Lent, what_is_lent
from sim.world.model import masters, model_of, trunk_blobs
from sim.world.pairs import Pairs
from sim.world.plain_bytes import PlainBytes
from sim.world.programs import DRAFT, world_programs
from sim.world.rows import WrongBytes
from sim.world.slab_checks import check_region
from sim.world.swap_checks import SwapWatch
from sim.world.table_checks import check_published, check_unpublished
from strata.core import programs
from strata.core.commands import (
    Command,
    Copy,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.errors import DeviceError, Refusal
from strata.core.events import Event, Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.memory.planner import Plan
from strata.core.programs import LayerArgs
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.device import Device, DeviceDescription, Programs
from strata.engine.runner import Runner
from strata.trace.entries import FaultKind as FaultKind
from strata.trace.recording import Keep, RecordingDevice

TERMINATORS = (1, 2)
PLANTED = "planted"
MIXERS = (programs.ATTENTION, programs.RECURRENT)
MakeRunner = Callable[[Device, Recipe, Sequence[int], Callable[[], None]], Runner]
CONSEQUENCES = (UndefinedRead, TableError, WrongBytes)
"""What commands may meet that were submitted behind one which failed on its way."""


class PlantedFault(DeviceError):
    """A failure that the world asked for."""


class Stalled(AssertionError):
    """The runner waits for what nobody will report."""


@dataclass(slots=True)
class Faults:
    """Failures to come. `planned`: (commands from now, kind), or, where a word of `sites.py` is given, only commands
    that it fits are counted; `num_fired` since the world began; `is_spoilt`: a command failed on its way, so commands
    behind it may meet bytes that were never written; `struck`: the words of what failed since somebody looked, "" for
    what has none."""

    planned: list[tuple[int, FaultKind, str]] = field(default_factory=list)
    num_fired: int = 0
    is_spoilt: bool = False
    struck: list[str] = field(default_factory=list)

    def plan(self, after: int, kind: FaultKind, at: str = "") -> None:
        self.planned.append((after, kind, at))

    def take(self, command: Command, word_of: Callable[[Command], str]) -> FaultKind | None:
        word = word_of(command)
        fitting = [(left, kind, at) for left, kind, at in self.planned if at in ("", word)]
        others = [planned for planned in self.planned if planned[2] not in ("", word)]
        self.planned = others + [(left - 1, kind, at) for left, kind, at in fitting if left]
        due = [kind for left, kind, _ in fitting if left == 0]
        if not due:
            return None
        self.num_fired += 1
        self.struck.append(word)
        # What orders and what changes hands fails at once on a card: the call itself says so.
        if due[0] is FaultKind.REFUSED or isinstance(command, Map | Unmap | Transfer | Wait | Record | Notify):
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
        programs: Programs,
        manifest: Sequence[tuple[HostExtent, str]],
        drafting: Launch,
    ) -> None:
        self.queues = Queues() if geometry.delivery is Delivery.DRAWN else None
        super().__init__(description, programs, payload, faults=self._ask, manifest=manifest, queues=self.queues)
        self.faults = Faults()
        self.history: list[Command] | None = None
        self.accusation: TwinError | None = None
        self._last_fault: FaultKind | None = None
        self.is_judged_by_world = False  # a check of the world is asked now, not one of the twin
        self.home: Home | None = None
        self.lent: Lent | None = None
        self.journal = Journal()
        self.swaps: SwapWatch | None = None
        self.word_of: Callable[[Command], str] = lambda command: ""  # of `sites.py`
        self.favours: deque[int] = deque()
        self.num_overtakings = 0  # times that a stream went on before an older command of another one
        self.pairs: Pairs | None = None
        self._geometry, self._delivery = geometry, geometry.delivery
        self._tells_all = self._delivery in (Delivery.ALL, Delivery.DRAWN)
        self._drafter_layer = geometry.num_layers
        self._drafting = drafting
        self._is_core = True  # whether commands come from the core
        self._reports: deque[tuple[str, Event, tuple[int, ...] | None]] = deque()
        self._stream_of: dict[str, str] = {}

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        super().capture(name, launches)
        self._note_home()

    def note_start(self) -> None:
        """The core is ready; where nothing was captured and nothing is lent, all is at home still."""
        if self.home is None:
            self._note_home()

    def _note_home(self) -> None:
        """The last moment before anything is lent: everything is at home, and a drafter's work is captured. The
        journal begins."""
        super().capture(DRAFT, (self._drafting,))
        vram, arena = self._shadow.vram, Extent(0, self.describe().arena_bytes)
        rows = vram.content_rows(arena)
        named = [(start, end, content.name) for start, end, content in rows if content and content.name]
        self.home = Home(self.card_map(), len(self.backing()) - self.backing().count(None), tuple(named))
        self.lent = what_is_lent(self._geometry, self.home, arena_bytes=arena.size_bytes)
        check_region(self._geometry, self.home.owners)
        self.journal = Journal()
        if self._geometry.num_swaps:
            self.swaps = SwapWatch(self._geometry, self.home.named, self.home.owners)

    def backing(self) -> tuple[int | None, ...]:
        """The physical segment under each place, behind the arena too."""
        return tuple([None if mapping is None else mapping.segment_index for mapping in self._shadow.vram.mappings])

    @property
    def num_changes(self) -> int:
        """Maps, unmaps and transfers so far: what did not change it changed neither owners nor segments."""
        return self._shadow.vram.num_changes

    def draft(self) -> None:
        """What a drafter would do now, and the host learns at once that it is over. No failure meets it, it is in no
        journal, and its notice tells the host of nothing that the host did not know. Raises when the drafter may not,
        or finds something else."""
        self._is_core = False
        try:
            super().submit((GraphLaunch(Stream.DRAFTER, DRAFT, table_version=0), Notify(Stream.DRAFTER, DRAFT)))
            while self.queues and Stream.DRAFTER in self.queues.streams():
                self.queues.run(Stream.DRAFTER)
        except TwinError as error:
            self.accusation = self.accusation or error
            raise
        self._is_core = True
        index = next(i for i, (event, _) in enumerate(self._events) if event == Reached(DRAFT))
        _, snapshot = self._events.pop(index)
        assert snapshot is not None
        self._shadow.clocks.join_host(snapshot)

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
        stream = self.queues.oldest()
        if self.favours and len(streams := self.queues.streams()) > 1:
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
        if self._tells_all:
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
        if not self._is_core:
            return None
        if self.history is not None:
            self.history.append(command)
        if isinstance(command, Notify):
            self._stream_of[command.tag] = command.stream
        self._last_fault = kind = self.faults.take(command, self.word_of) if self.faults.planned else None
        if kind is FaultKind.REFUSED:
            raise PlantedFault(PLANTED, command)
        if kind is FaultKind.FAILED:
            return Failed(PLANTED, command)
        if isinstance(command, Transfer):
            if self.home is None and command.giver:  # a start that captured nothing
                self._note_home()
            check_unpublished(command, self._shadow)
        self.is_judged_by_world = True
        if self.swaps is not None and not self.faults.is_spoilt:
            self.swaps.check(command, self._shadow, index, self.card_map)
        if isinstance(command, (Launch, GraphLaunch)) and _begins_window(command):
            self.journal.num_windows += 1
            if self.journal.num_windows > 1 and self.lent is not None:
                check_block_is_back(self._geometry, self.lent, self._shadow, index, command)
        self.is_judged_by_world = False
        return None

    def _apply(self, command: Command, by: Operation) -> None:
        super()._apply(command, by)
        if not self._is_core:
            return
        self.is_judged_by_world = True
        if self.pairs is not None:
            self.pairs.note(command, by, self._shadow)
        if self.swaps is not None:
            self.swaps.note(command)
        if isinstance(command, Launch) and command.stream is Stream.PROMPT:
            if command.program in MIXERS and command.args.layer == 0:  # type: ignore[union-attr]
                self.journal.chunks.append(command.args.buffers.max_rows)  # type: ignore[union-attr]
            self.journal.note_launch(command)
        if isinstance(command, (Map, Unmap, Transfer)) and self.lent is not None:
            self.journal.words.append(self.lent.word(command))
        self.is_judged_by_world = False

    def _copy(self, command: Copy, by: Operation) -> None:
        super()._copy(command, by)
        self.journal.note_copy(command, drafter_layer=self._drafter_layer)
        if command.publishes is not None:
            check_published(command.publishes, self._shadow, by)


def _begins_window(command: Launch | GraphLaunch) -> bool:
    """A graph is a window; one that is no graph is begun so by a model in one piece."""
    if isinstance(command, GraphLaunch):
        return True
    return command.program == programs.EMBED and command.stream is Stream.VERIFIER


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

    @property
    def lent(self) -> Lent:
        assert self.device.lent is not None
        return self.device.lent


def make_card(
    geometry: Geometry,
    *,
    is_counting_pairs: bool = False,
    keep: Keep | None = None,
    pack: memoryview | None = None,
    heat: tuple[int, ...] = (),
) -> Card | Refusal:
    """Started and idle. `keep` gets everything that the runner asks of its device, from the first command on; `pack`:
    what an earlier card of this model left in host memory, `heat`: how often its server read each blob."""
    card = build_card(geometry, keep=keep, pack=pack, make_runner=partial(Runner, heat=heat))
    if isinstance(card, Card):
        if is_counting_pairs:
            card.device.pairs = Pairs(card.device._graphs)
        card.runner.start()
        card.device.note_start()
        check_start(card.device.journal, geometry, card.lent)
    return card


def build_card(
    geometry: Geometry,
    *,
    keep: Keep | None = None,
    pack: memoryview | None = None,
    device_class: type[WorldDevice] = WorldDevice,
    make_runner: MakeRunner = Runner,
) -> Card | Refusal:
    """Filled and sealed, not yet started."""
    plan = geometry.plan()
    if isinstance(plan, Refusal):
        return plan
    description = describe_twin(
        arena_bytes=geometry.arena_bytes,
        segment_bytes=geometry.segment_bytes,
        pack_bytes=plan.pack.size_bytes,
        pageable_pack_bytes=plan.pack.pageable_bytes,
        staging_bytes=plan.staging.size_bytes,
        parked_bytes=parked_space_bytes(plan),
        behind_bytes=plan.behind_bytes,
    )
    payload = PlainBytes(description, pack)
    manifest: list[tuple[HostExtent, str]] = []
    for home, name, data in masters(geometry, plan):
        if pack is None:
            payload.host(home)[:] = data
        manifest.append((home, name))
    named = {name for _, name in manifest}
    weights = [(home, f"weight {name}") for name, home in plan.pack.weights.items()]
    manifest += [row for row in weights if row[1] not in named]
    blobs = trunk_blobs(geometry)
    model = model_of(geometry, plan)
    args = LayerArgs(geometry.num_layers, 1, plan.verifier.buffers)
    drafting = Launch(Stream.DRAFTER, DRAFT, args, tuple(part.access for part in model.drafter), ())
    device = device_class(description, payload, geometry, world_programs(model), manifest, drafting)
    device.seal()
    asked = device if keep is None else RecordingDevice(device, keep, ask_fault=device.last_fault)
    runner = make_runner(asked, Recipe(plan, _dense_reads(geometry)), TERMINATORS, device.pause)
    return Card(geometry, plan, device, payload, runner, blobs)


def _dense_reads(geometry: Geometry) -> dict[tuple[str, int | None], tuple[str, ...]]:
    reads: dict[tuple[str, int | None], tuple[str, ...]] = {
        (program, layer - geometry.first_layer): (f"blk.{layer}",)
        for layer in geometry.layers
        for program in (programs.ATTENTION, programs.RECURRENT, programs.ROUTER, programs.FFN)
    }
    head = tuple(item.name for item in geometry.heads) or (EMBEDDING,)
    reads |= {(programs.EMBED, None): (EMBEDDING,), (programs.HEAD, None): head}
    if geometry.drafts:
        reads |= {(program, geometry.num_layers): () for program in (*MIXERS, programs.ROUTER, programs.DRAFT_KV)}
        reads[programs.DRAFT_INPUT, None] = tuple(item.name for item in geometry.draft_weights)
        reads[programs.DRAFT_HEAD, None] = tuple(item.name for item in geometry.draft_heads) or head
    return reads
