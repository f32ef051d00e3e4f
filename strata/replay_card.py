"""A command trace on a CUDA card, in an order that is forced. The card's half of a replay: what decides lies in
`strata/trace`; here a card, its memory, the kernel and the devices around them are put together.

    trace --> ForcedDevice --> FaultyDevice --> SpreadDevice --> CudaDevice
              whose turn       planted          a segment of     the card
              it is            failures         the card each

Imported only when a card was asked for: it needs triton and the driver's binding.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from kernels.triton.launch_fingerprint import fingerprint
from strata.core.errors import ConfigError
from strata.core.events import Event
from strata.core.extent import Extent
from strata.core.units import align_up
from strata.cuda.card import Card, CardLimits
from strata.cuda.device import CudaDevice
from strata.cuda.driver import Driver, load_api
from strata.cuda.open import MakeViews, open_device
from strata.cuda.programs.fingerprint import Fingerprints
from strata.device import DeviceDescription, Programs
from strata.trace.command_trace import CommandTrace
from strata.trace.compared import Played
from strata.trace.digest import positional_digest
from strata.trace.faults import FaultyDevice
from strata.trace.forced import ForcedDevice
from strata.trace.mark_space import mark_space_of
from strata.trace.marks import marks_by_step
from strata.trace.order import Late
from strata.trace.replay import Hooks, ReplayStalled, program_names, replay
from strata.trace.spread import Spread, SpreadDevice

PATIENCE_S = 20.0
"""What the card may take until it reports what it must report; a replay moves a few KiB at a time."""

FillPack = Callable[[memoryview, int], None]
"""Bytes of the pack, and the seed of the pattern that they get."""


class ReplayCard:
    """A card that is opened once and plays traces one after the other. `api`, `make_views` and `launch` stand in for
    the driver, torch's views and the kernel. Raises ConfigError where there is no card."""

    def __init__(
        self,
        *,
        ordinal: int = 0,
        api: Any = None,
        make_views: MakeViews | None = None,
        launch: Callable[..., None] = fingerprint,
    ) -> None:
        self._api, self._make_views, self._launch, self._ordinal = api, make_views, launch, ordinal
        self._card = Card(Driver(load_api() if api is None else api), ordinal=ordinal)

    def play(self, trace: CommandTrace, late: Late, fill_pack: FillPack, *, poison: int) -> Played:
        """From an empty card to an empty card, with `late` streams. `poison`: one byte for what nobody may read; it
        should be another one in each order, so that whoever reads it finds something else each time. Raises
        ReplayStalled, ConfigError where card or host have too little memory, and DeviceError when the card is lost."""
        with ExitStack() as opened:
            spread = Spread(
                trace.sizes.segment_bytes, align_up(trace.sizes.segment_bytes, self._card.granularity_bytes)
            )
            device, fingerprints = self._open(trace, spread)
            opened.callback(device.close)
            _fill(trace, device, fill_pack)
            device.seal()
            gates = device.open_gates()
            faulty = FaultyDevice(SpreadDevice(device, spread, trace.sizes), poison=poison)

            def make_wrong(extent: Extent) -> None:
                for piece in spread.pieces(extent):
                    gates.poison(piece, poison)

            forced = ForcedDevice(faulty, gates, late, make_wrong)
            patience = _Patience(forced)
            hooks = Hooks(patience.pause, faulty.fail_next, patience.tell, forced.settle)
            replayed = replay(trace, forced, hooks, is_watched=True)
            return Played(replayed, marks_by_step(replayed.lines, fingerprints.found()))

    def close(self) -> None:
        self._card.close()

    def _open(self, trace: CommandTrace, spread: Spread) -> tuple[CudaDevice, Fingerprints]:
        made: list[Fingerprints] = []
        space = mark_space_of(trace)

        def make_programs(description: DeviceDescription, limits: CardLimits) -> Programs:
            del limits
            fingerprints = Fingerprints(
                spread,
                arena_address=description.arena_address,
                row_words=space.row_words,
                marks=space.marks,
                is_pinned=self._api is None,
                launch=self._launch,
            )
            made.append(fingerprints)
            return fingerprints.programs(program_names(trace))

        device = open_device(
            make_programs,
            **asdict(spread.sizes(trace.sizes)),
            ordinal=self._ordinal,
            api=self._api,
            make_views=self._make_views,
        )
        if device.pageable_bytes:
            device.close()
            raise ConfigError(
                f"device=cuda refused: {device.pageable_bytes:,} B of host memory could not be pinned, and copies from "
                "there hold up whoever submits them; raise the memlock limit (ulimit -l), or take a smaller trace"
            )
        return device, made[0]


class _Patience:
    """Until the card reports what it was made to report."""

    def __init__(self, forced: ForcedDevice) -> None:
        self._forced = forced
        self._awaited: Event | None = None
        self._deadline_s = 0.0

    def tell(self, event: Event) -> None:
        """Said again and again while it has not come."""
        if event is not self._awaited:
            self._awaited, self._deadline_s = event, time.monotonic() + PATIENCE_S
        self._forced.tell(event)

    def pause(self) -> None:
        if time.monotonic() > self._deadline_s:
            raise ReplayStalled(f"the card reports nothing for {PATIENCE_S} s; when the trace was recorded it did")


def _fill(trace: CommandTrace, device: CudaDevice, fill_pack: FillPack) -> None:
    for home, name in trace.places.manifest():
        fill_pack(device.host(home), positional_digest(name.encode()))
