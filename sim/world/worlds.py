"""Which driver a world has: that of one card, or that of several stages."""

from sim.world.driver import Driver
from sim.world.geometry import Geometry
from sim.world.staged.driver import StagedDriver

AnyDriver = Driver | StagedDriver


def make_world(geometry: Geometry, *, is_recording: bool = False, is_counting_pairs: bool = False) -> AnyDriver:
    """Started. Pairs are counted where there is one card. Raises ValueError where there is no plan."""
    if geometry.splits:
        return StagedDriver(geometry, is_recording=is_recording)
    return Driver(geometry, is_recording=is_recording, is_counting_pairs=is_counting_pairs)
