"""What the host reads out of results that a card has left in its memory."""

import struct
from collections.abc import Callable

from strata.core.errors import DeviceError
from strata.core.programs import PROBABILITY_WORD
from strata.core.serving.steps import Check
from strata.device import Device

DigestOf = Callable[[memoryview], int]


def num_worthy(result: memoryview, num_drafts: int, *, least: float) -> int:
    """Of `num_drafts` drafts those before the first one that the drafter itself finds less likely than `least`.
    result: RESULT_BYTES as the drafter left them."""
    probabilities = struct.unpack_from(f"<{num_drafts}d", result, 8 * PROBABILITY_WORD)
    return next((num for num, probability in enumerate(probabilities) if not probability >= least), num_drafts)


def routed_experts(router_counts: memoryview) -> tuple[int, ...]:
    """Experts that the router chose for any row. router_counts: int32 [num_experts]."""
    return tuple(expert for expert, rows in enumerate(router_counts.cast("i")) if rows)


def verify(check: Check, device: Device, digest: DigestOf) -> None:
    """Raises DeviceError for bytes that came home wrong."""
    found = int.from_bytes(device.host(check.word), "little")
    if found != digest(device.host(check.home)):
        pack = f"[{check.home.offset_bytes}, {check.home.end_bytes})"
        raise DeviceError(f"verify-lent: bytes came home with digest={found:#018x}, which is not that of pack {pack}")
