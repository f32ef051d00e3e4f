"""What every device that stands around another one does alike: it passes on what it does not change."""

from strata.core.extent import HostExtent
from strata.device import Device, DeviceDescription, DeviceStatistics


class DeviceAround:
    """Passes on to `inner` all but commands, captures and events: those are why a device stands around another."""

    def __init__(self, inner: Device) -> None:
        self._inner = inner

    def describe(self) -> DeviceDescription:
        return self._inner.describe()

    def host(self, extent: HostExtent) -> memoryview:
        return self._inner.host(extent)

    def seal(self) -> None:
        self._inner.seal()

    def statistics(self) -> DeviceStatistics:
        return self._inner.statistics()

    def close(self) -> None:
        self._inner.close()
