"""How often a mending that fails itself is tried again before the device is given up."""

from collections.abc import Callable

from strata.core.errors import DeviceError, DeviceLost

MAX_RECOVERIES = 3


def until_mended(mend: Callable[[], None]) -> None:
    """`mend()`, again where it fails, MAX_RECOVERIES times in all. Raises its last DeviceError, and DeviceLost at
    once."""
    for attempt in range(1, MAX_RECOVERIES + 1):
        try:
            mend()
        except DeviceLost:
            raise
        except DeviceError:
            if attempt == MAX_RECOVERIES:
                raise
        else:
            return
