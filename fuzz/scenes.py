"""Situations that chance brings about too rarely: which world they need, and how its client behaves.

Three worlds in ten have a scene, drawn apart, so that the other worlds are the same without. For want of each, planted
bugs lived for a thousand worlds. Decisions stay free in all else, failures included.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from fuzz.draw_loans import with_all_parts, with_loans, with_room
from sim.world.geometry import Geometry
from strata.core.units import align_up

SHARE = 0.3
MIN_DECISIONS = 8
OPENING_FRESH = (80, 120, 200)
"""Of the first two conversations: long enough to be parked, and to have a cut."""


class Scene(StrEnum):
    NONE = "none"
    ALTERNATE = "alternate"  # few short conversations take turns, and go on from a part of one another
    LEAVE = "leave"  # the client of a long read leaves while ring entries fly into a room
    APART = "apart"  # a room beside an arena of its own, so that its slots go home before the read ends
    RESTART = "restart"  # servers one after another on one host pack, with other options
    CUTS = "cuts"  # prompts that end at, before and behind a checkpoint of the live session
    HOME = "home"  # all that an elastic loan can take is out, and failures meet its way home
    SWAPS = "swaps"  # long replies to short prompts, in which blobs are exchanged; the next server starts warm


@dataclass(frozen=True, slots=True)
class Habits:
    """What a client draws from; `cancels`: the chance that it leaves at each step, None for what the world has;
    `restarts`: the chance of another server in place of a request; `faults`: that of a failure at each step, None for
    what the world has."""

    fresh: tuple[int, ...]
    shared: tuple[int, ...]
    bases: tuple[int, ...]
    times: tuple[int, ...]
    cancels: float | None = None
    restarts: float = 0.0
    faults: float | None = None


HABITS = {
    Scene.ALTERNATE: Habits((0, 1, 70, 70), (0, 100, 150, 5000, 5000, 5000), (1, 2, 2, 2, 3), (30,)),
    Scene.LEAVE: Habits((1025, 1026, 1300, 2100), (0, 0, 1), (0, 1), (1, 1, 2), 0.5),
    Scene.APART: Habits((1025, 1025, 1026, 2049), (0, 0, 1), (0, 1), (5, 20)),
    Scene.RESTART: Habits((1, 17, 257, 300, 520), (0, 0, 100, 5000), (0, 1, 2), (5, 20, 30), restarts=0.35),
    Scene.CUTS: Habits((0, 0, 1, 17, 80), (0, 300, 5000), (0, 0, 1, 2), (9, 30)),
    Scene.HOME: Habits((17, 100, 257, 300, 520), (0, 0, 1, 300), (0, 1), (1, 2, 5, 20), faults=0.1),
    Scene.SWAPS: Habits((1, 1, 17, 300), (0, 0, 300, 5000), (0, 1), (1, 1, 2), restarts=0.2, faults=0.15),
}
DRAWN_APART = (Scene.SWAPS,)
"""Played in worlds that have what they need."""


def draw_scene(seed: int) -> Scene:
    rng = Random(f"scene of {seed}")
    scenes = [scene for scene in HABITS if scene not in DRAWN_APART]
    return rng.choice(scenes) if rng.random() < SHARE else Scene.NONE


def draw_stage(scene: Scene, rng: Random, any_geometry: Callable[[Random, bool], Geometry]) -> Geometry:
    """A world that `scene` can be played in; `any_geometry` draws one with a plan, of a long context or a short one."""
    if scene is Scene.RESTART:
        geometry = any_geometry(rng, rng.random() < 0.2)
        return with_loans(geometry, rng) if rng.random() < 0.6 else geometry
    if scene is Scene.LEAVE and rng.random() < 0.5:  # copies run ahead of the layers that are ordered
        return with_room(_deepened(any_geometry(rng, True), rng), rng, is_apart=False, is_large=True)
    if scene in (Scene.LEAVE, Scene.APART):
        return with_room(any_geometry(rng, True), rng, is_apart=scene is Scene.APART)
    if scene is Scene.HOME:
        return with_all_parts(any_geometry(rng, False), rng)
    geometry = any_geometry(rng, False)
    row_bytes = 8 * len(geometry.blob_bytes)
    geometry = replace(geometry, parked_bytes=rng.choice((500, 1000, 3000)) * row_bytes, is_reread=rng.random() < 0.25)
    layers = range(len(geometry.blob_bytes))
    recurrent = tuple(layer for layer in layers if rng.random() < 0.6) or (0,)
    if scene is Scene.CUTS:
        return replace(geometry, recurrent=recurrent, num_checkpoints=rng.choice((1, 2, 2, 5)))
    return replace(geometry, recurrent=recurrent if rng.random() < 0.6 else ())


def _deepened(geometry: Geometry, rng: Random) -> Geometry:
    """With five or six layers, the last ones of experts, on a card that has what they need at least."""
    sizes = [size for size in geometry.blob_bytes if size]
    more = tuple(rng.choice(sizes) for _ in range(rng.choice((5, 6)) - len(geometry.blob_bytes)))
    more_bytes = len(more) * (8 * geometry.context_tokens + 1024)
    arena_bytes = align_up(geometry.arena_bytes + more_bytes, geometry.segment_bytes)
    return replace(geometry, blob_bytes=geometry.blob_bytes + more, arena_bytes=arena_bytes)
