"""The twin for replays: the host learns one event at a time, the one that it learned when the trace was recorded, and a
command may be made to fail on its way. Keeps the rules of the address table that worlds keep, and knows no traces.
"""

from collections.abc import Sequence

from sim.device import SimDevice
from sim.payload import Payload
from sim.streams import Operation
from sim.world.table_checks import check_published, check_unpublished
from strata.core.commands import Command, Copy, Transfer
from strata.core.events import Event, Failed, Reached
from strata.core.extent import HostExtent
from strata.device import DeviceDescription, Programs


class ToldDevice(SimDevice):
    """`completions` reports what was said with `tell`, and nothing else: whatever else is over, the host does not know
    it yet, so that its clock is that of the recorded run."""

    def __init__(
        self,
        description: DeviceDescription,
        programs: Programs,
        payload: Payload,
        manifest: Sequence[tuple[HostExtent, str]] = (),
    ) -> None:
        super().__init__(description, programs, payload, faults=self._ask, manifest=manifest)
        self._wanted: Event | None = None
        self._is_failing = False

    def tell(self, event: Event) -> None:
        """What the host learns next. Of a failure it is enough that it is one."""
        self._wanted = event

    def fail_next(self) -> None:
        """The next command is taken, and what it was to write is anything."""
        self._is_failing = True

    def completions(self) -> Sequence[Event]:
        wanted, self._wanted = self._wanted, None
        for index, (event, snapshot) in enumerate(self._events):
            if event == wanted or (isinstance(event, Failed) and isinstance(wanted, Failed)):
                del self._events[index]
                if isinstance(event, Reached) and snapshot is not None:
                    self._shadow.clocks.join_host(snapshot)
                return [event]
        return []

    def _ask(self, index: int, command: Command) -> Failed | None:
        del index
        if isinstance(command, Transfer):
            check_unpublished(command, self._shadow)
        if not self._is_failing:
            return None
        self._is_failing = False
        return Failed("planted", command)

    def _copy(self, command: Copy, by: Operation) -> None:
        super()._copy(command, by)
        if command.publishes is not None:
            check_published(command.publishes, self._shadow, by)
