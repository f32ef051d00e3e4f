"""A device that keeps what it is asked for, over any other one.

It changes nothing: commands, errors and events pass as they are. Commands go on one at a time, so that it is known
which of them was refused. What the host put into staging is looked at when the next thing is asked for, through the
view that was given out: by then it is complete, and no stream has got at it yet.
"""

from collections.abc import Callable, Sequence

from strata.core.commands import Command, Launch
from strata.core.events import Event
from strata.core.extent import HostExtent, HostSpace
from strata.device import Device
from strata.trace.around import DeviceAround
from strata.trace.digest import short_digest
from strata.trace.entries import Asked, Captured, Entry, Faulted, FaultKind, HostAccess, Refused

Keep = Callable[[Entry], None]
AskFault = Callable[[], FaultKind | None]


def _no_fault() -> FaultKind | None:
    return None


class RecordingDevice(DeviceAround):
    """`keep` gets every entry, in order, once its outcome is known. `ask_fault` is asked after every command for the
    failure that was planted into it, if the device below plants any. What happens before `seal` fills the pack, and is
    no entry."""

    def __init__(self, inner: Device, keep: Keep, *, ask_fault: AskFault = _no_fault, is_sealed: bool = False) -> None:
        super().__init__(inner)
        self._keep, self._ask_fault = keep, ask_fault
        self._is_sealed = is_sealed
        self._touched: tuple[HostExtent, memoryview] | None = None

    def submit(self, commands: Sequence[Command]) -> None:
        self.flush()
        for command in commands:
            with _Watch(self, command):
                self._inner.submit((command,))
            kind = self._ask_fault()
            self._keep(command if kind is None else Faulted(command, kind))

    def completions(self) -> Sequence[Event]:
        self.flush()
        events = self._inner.completions()
        for event in events:
            self._keep(event)
        return events

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        self.flush()
        captured = Captured(name, tuple(launches))
        with _Watch(self, captured):
            self._inner.capture(name, launches)
        self._keep(captured)

    def host(self, extent: HostExtent) -> memoryview:
        self.flush()
        with _Watch(self, HostAccess(extent)):
            view = self._inner.host(extent)
        if extent.space is not HostSpace.PACK:
            self._touched = (extent, view)
        elif self._is_sealed:
            self._keep(HostAccess(extent))
        return view

    def seal(self) -> None:
        self._inner.seal()
        self._is_sealed = True

    def close(self) -> None:
        self.flush()
        self._inner.close()

    def flush(self) -> None:
        """Keep the host's last access: call it before what was kept is read."""
        if self._touched is not None:
            (extent, view), self._touched = self._touched, None
            self._keep(HostAccess(extent, short_digest(view)))

    def note_refusal(self, asked: Asked, error: BaseException) -> None:
        if not isinstance(asked, Captured | HostAccess):
            kind = self._ask_fault()
            if kind is not None:
                self._keep(Faulted(asked, kind))
                return
        self._keep(Refused(asked, type(error).__name__, str(error)))


class _Watch:
    """Keeps what is raised inside, whatever its class is, and lets it pass."""

    __slots__ = ("_asked", "_device")

    def __init__(self, device: RecordingDevice, asked: Asked) -> None:
        self._device, self._asked = device, asked

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._device.note_refusal(self._asked, error)
