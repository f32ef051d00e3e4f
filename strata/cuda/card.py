"""One card, opened: its primary context (the one that torch uses too) and what its driver says of it.

Sizes come from here, from the device that was opened, never from a list of what the machine might have.
"""

from dataclasses import dataclass
from typing import Any

from strata.core.errors import ConfigError
from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure


@dataclass(frozen=True, slots=True)
class CardLimits:
    """What kernels are sized by. `shared_bytes`: shared memory that one block may have."""

    shared_bytes: int
    num_multiprocessors: int

    @property
    def num_programs(self) -> int:
        """Of a launch that walks its work with as many programs as run at once: two for each multiprocessor."""
        return 2 * self.num_multiprocessors


class Card:
    """Holds the context until `close`. Raises ConfigError where there is no such card."""

    __slots__ = ("_device", "driver", "granularity_bytes", "name", "ordinal", "total_bytes", "uuid")

    def __init__(self, driver: Driver, *, ordinal: int) -> None:
        self.driver, self.ordinal = driver, ordinal
        try:
            driver.call("cuInit", 0)
            self._device = driver.call("cuDeviceGet", ordinal)
        except (CudaFailure, RuntimeError) as error:  # the binding says RuntimeError where libcuda is missing
            raise ConfigError(
                f"device=cuda refused: card={ordinal} cannot be opened: {error}; check the driver, "
                "CUDA_VISIBLE_DEVICES and the container's devices"
            ) from error
        # What lies behind the terminator is not part of the name, and not always zero.
        self.name = (
            bytes(driver.call("cuDeviceGetName", 128, self._device)).partition(b"\0")[0].decode("utf-8", "replace")
        )
        self.uuid = _show_uuid(bytes(driver.call("cuDeviceGetUuid", self._device).bytes))
        self.total_bytes = int(driver.call("cuDeviceTotalMem", self._device))
        driver.use(driver.call("cuDevicePrimaryCtxRetain", self._device))
        try:
            driver.attach()
            minimum = driver.api.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
            self.granularity_bytes = int(
                driver.call("cuMemGetAllocationGranularity", self.allocation_properties(), minimum)
            )
        except CudaFailure:
            self.close()
            raise

    def limits(self) -> CardLimits:
        kinds = self.driver.api.CUdevice_attribute
        shared_bytes, num_multiprocessors = (
            int(self.driver.call("cuDeviceGetAttribute", kind, self._device))
            for kind in (
                kinds.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                kinds.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )
        )
        return CardLimits(shared_bytes, num_multiprocessors)

    def free_bytes(self) -> int:
        """As the driver counts now, other processes' memory left out."""
        return int(self.driver.call("cuMemGetInfo")[0])

    def allocation_properties(self) -> Any:
        """Of physical memory on this card."""
        api = self.driver.api
        properties = api.CUmemAllocationProp()
        properties.type = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = self.ordinal
        return properties

    def access(self) -> Any:
        """Reading and writing by this card."""
        api = self.driver.api
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self.ordinal
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access

    def close(self) -> None:
        """Let go of the context; it lives on while somebody else in the process (torch) holds it."""
        self.driver.use(None)
        self.driver.call("cuDevicePrimaryCtxRelease", self._device)


def _show_uuid(raw: bytes) -> str:
    digits = raw.hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
