"""Which worlds a planted bug is looked for in: those like the ones that reached its line, once there were a few.

What every world had that came there is needed, as far as anybody can tell; of the worlds that lack some of it one in
eight is played all the same, since it may not be. And once it is known how a line is reached, worlds that did not come
there by their last decision are mostly not brought to their end, unless an end was what reached it.
"""

from dataclasses import dataclass, field

from fuzz.draw import Drawn
from fuzz.reach import Reach
from fuzz.scenes import Scene

TOLD_BY = 4
"""Worlds that reached the line, before what they have in common counts."""
OTHERS_EVERY = 8
ENDS_EVERY = 4
"""Of the worlds that did not come there one in so many has its end, which is three fifths of the work."""


@dataclass(slots=True)
class Guide:
    """For one bug in one process. A mark that was called while modules were imported tells nothing of worlds: then all
    are wanted, with their ends."""

    reach: Reach
    num_told: int = 0
    common: frozenset[str] = frozenset()
    needs_ends: bool = False
    is_blind: bool = field(init=False)
    _features: frozenset[str] | None = None  # of the world that is played
    _is_ending: bool = False
    _num_drawn: int = 0
    _num_played: int = 0

    def __post_init__(self) -> None:
        self.is_blind = self.reach.is_reached

    def begins(self) -> None:
        """A world is drawn next; what the one before showed is learned. A planner's bug shows while one is drawn."""
        if self._features is not None and self.reach.in_world:
            self.common = self.common & self._features if self.num_told else self._features
            self.num_told += 1
            self.needs_ends = self.needs_ends or self._is_ending
        self._features, self._is_ending = None, False
        self.reach.forget()

    def wants(self, drawn: Drawn) -> bool:
        self._num_drawn += 1
        features = features_of(drawn)
        is_like = self.is_blind or self.num_told < TOLD_BY or self.common <= features
        if not is_like and self._num_drawn % OTHERS_EVERY:
            return False
        self._features = features
        self._num_played += 1
        return True

    def wants_end(self) -> bool:
        self._is_ending = not self.reach.in_world
        if self.is_blind or not self.num_told or self.needs_ends or self.reach.in_world:
            return True
        return self._num_played % ENDS_EVERY == 0


def features_of(drawn: Drawn) -> frozenset[str]:
    """What sets this world apart."""
    geometry = drawn.geometry
    has = {
        "stages": bool(geometry.splits),
        "drafter": geometry.drafter_experts > 0,
        "room": geometry.room_min_tokens >= 0,
        "elastic": geometry.is_elastic,
        "short reads": geometry.short_read_tokens > 0,
        "swaps": geometry.num_swaps > 0,
        "budget": geometry.pinned_bytes is not None,
        "wide windows": geometry.window_rows > 1,
        "recurrent": bool(geometry.recurrent),
        "checkpoints": geometry.num_checkpoints > 0,
        "parked": geometry.parked_bytes > 0,
        "long chunks": geometry.chunk_tokens is not None,
        "slab": geometry.has_slab,
        f"scene {drawn.scene}": drawn.scene is not Scene.NONE,
    }
    return frozenset(name for name, is_so in has.items() if is_so)
