"""What only worlds of several stages can get wrong, said of each command: rows at the borders, and whose slots are
refilled.

    4    copies home go into slots that this stage has cleared since all were at rest, and into no others
    44   a window touches no byte of the prompt path, and neither chunk nor window the row buffers of the other
         a row buffer is written once, then read once by the stage behind it
"""

from collections.abc import Callable, Iterator

from sim.streams import Operation
from sim.world.card import WorldDevice
from sim.world.errors import WorldFault
from sim.world.loans import CACHE, PROMPT
from strata.core.commands import Access, Command, Copy, GraphLaunch, Launch, Stream, TableRead
from strata.core.events import Failed
from strata.core.extent import Extent, HostExtent
from strata.core.lending.loan import Loan
from strata.core.memory.staging import StagingLayout
from strata.core.serving.steps import Orders

Side = Access | HostExtent | TableRead


class Borders:
    """`_full`: (stage, buffer) of rows that left a stage and were not taken in by the next one."""

    def __init__(self) -> None:
        self._full: dict[tuple[int, int], int] = {}
        self.num_handed = 0

    @property
    def num_full(self) -> int:
        return len(self._full)

    def leave(self, stage: int, buffer: HostExtent) -> None:
        if (stage, buffer.offset_bytes) in self._full:
            raise WorldFault(f"stage {stage} hands rows over in {buffer}, whose rows nobody has taken in yet")
        self._full[stage, buffer.offset_bytes] = buffer.size_bytes

    def take(self, stage: int, orders: Orders) -> None:
        for source, _ in orders.handed:
            found = self._full.pop((stage - 1, source.offset_bytes), None)
            if found != source.size_bytes:
                raise WorldFault(f"stage {stage} takes in {source}, stage {stage - 1} left {found} B there")
            self.num_handed += 1

    def rest(self) -> None:
        """Of a request that was given up, rows may be left over."""
        self._full.clear()


class StageDevice(WorldDevice):
    """One card of several."""

    borders: Borders
    stage: int
    staging: StagingLayout

    def join(self, borders: Borders, stage: int, staging: StagingLayout, loan: Callable[[], Loan | None]) -> None:
        """`loan`: what the stage lends now, by its books."""
        self.borders, self.stage, self.staging, self.loan = borders, stage, staging, loan
        self.cleared: set[Extent] = set()
        self._entries: set[Extent] = set()

    def _ask(self, index: int, command: Command) -> Failed | None:
        """What a table was to be without may be refilled, also where its upload fails."""
        if isinstance(command, Copy) and command.publishes is not None:
            entries = {entry.extent for entry in command.publishes.entries}
            self.cleared |= self._entries - entries
            self._entries = entries
        return super()._ask(index, command)

    def _apply(self, command: Command, by: Operation) -> None:
        super()._apply(command, by)
        if not self._is_core:
            return
        if isinstance(command, (Copy, Launch, GraphLaunch)):
            self._check_sides(command)
        if isinstance(command, Copy):
            self._check_copy(command)

    def _check_sides(self, command: Copy | Launch | GraphLaunch) -> None:
        """Invariant 44."""
        is_window = command.stream in (Stream.VERIFIER, Stream.DRAFTER)
        others = self.staging.chunk_rows if is_window else self.staging.window_rows
        for side in self._sides_of(command):
            is_prompts = isinstance(side, Access) and side.owner == PROMPT and is_window
            if is_prompts or (isinstance(side, HostExtent) and _meet(side, others)):
                raise WorldFault(f"{command} of stage {self.stage} touches {side}: no window sees what prompts work in")

    def _check_copy(self, command: Copy) -> None:
        for pair in command.pairs:
            target = pair.target
            if isinstance(target, HostExtent):
                if _meet(target, self.staging.chunk_rows) or _meet(target, self.staging.window_rows):
                    self.borders.leave(self.stage, target)
            elif target.owner == CACHE and command.stream is Stream.COPY and not self._may_refill(target.extent):
                raise WorldFault(f"stage {self.stage} refills {target}, and has cleared {sorted(self.cleared)}")

    def _may_refill(self, slot: Extent) -> bool:
        """Where something failed, a table without the slot may never have been asked for; a stage that reserved nothing
        refills nothing all the same."""
        loan = self.loan() if self.faults.num_fired else None
        return slot in self.cleared or (loan is not None and loan.extent.contains(slot))

    def _sides_of(self, command: Copy | Launch | GraphLaunch) -> Iterator[Side]:
        match command:
            case Copy():
                for pair in command.pairs:
                    yield from (pair.source, pair.target)
            case Launch():
                yield from (*command.reads, *command.writes)
            case GraphLaunch():
                for node in self._graphs[command.graph].nodes:
                    yield from (*node.reads, *node.launch.writes)


def _meet(side: HostExtent, buffers: HostExtent) -> bool:
    if side.space is not buffers.space:
        return False
    return side.offset_bytes < buffers.end_bytes and buffers.offset_bytes < side.end_bytes
