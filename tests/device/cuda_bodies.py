"""The CUDA body for the conformance suite: on a card where there is one, and everywhere on a driver without a card."""

import importlib.util
from contextlib import ExitStack
from typing import Any

import pytest

from strata.device import Device, Memory, Programs
from tests.cuda.builders import SEGMENT_BYTES, open_on
from tests.cuda.fake_driver import FakeDriver
from tests.device.bench import GatherArgs, gather

MIB = 1024 * 1024
PARKED_BYTES = 32 * 1024


class DeviceOnFake:
    """A device over the fake driver; closing it also shows that nothing was kept."""

    def __init__(self, programs: Programs) -> None:
        self._fake = FakeDriver()
        self._device = open_on(self._fake, programs, behind_bytes=2 * SEGMENT_BYTES, parked_bytes=PARKED_BYTES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def close(self) -> None:
        with ExitStack() as held:
            held.callback(self._fake.close)
            self._device.close()
            assert self._fake.leftovers() == {}


def why_no_card() -> str | None:
    """None where the suite can run on a card."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return "needs a CUDA card: cuda-bindings is not installed"
    import torch

    return None if torch.cuda.is_available() else "needs a CUDA card: torch sees none"


def make_card(programs: Programs) -> Device:
    """Segments of the driver's own grid; the gather follows its table on the card, as a captured program must."""
    why = why_no_card()
    if why is not None:
        pytest.skip(why)
    from strata.cuda.open import open_device

    return open_device(
        {**programs, "gather": gather_anywhere},
        arena_bytes=6 * 2 * MIB,
        segment_bytes=2 * MIB,
        pack_bytes=64 * 1024,
        staging_bytes=16 * 1024,
        behind_bytes=2 * 2 * MIB,
        parked_bytes=PARKED_BYTES,
        block_bytes=16 * 1024,
    )


def gather_anywhere(memory: Memory, args: GatherArgs) -> None:
    """`gather`, but under capture, where nobody may look at the table, a kernel follows it."""
    import torch

    if not torch.cuda.is_current_stream_capturing():
        gather(memory, args)
        return
    from tests.device.gather_kernel import gather_kernel

    table = memory.read(args.addresses).view(torch.int64)
    gather_kernel[(table.numel(),)](table, memory.write(args.out), args.size_bytes, BLOCK=1024)
