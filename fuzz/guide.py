"""Which worlds a planted bug is looked for in: those like the ones that reached its line, once there were a few.

What every world had that came there is needed, as far as anybody can tell; of the worlds that lack some of it one in
eight is played all the same, since it may not be. And a world that never came there is mostly not brought to its end.
"""

from dataclasses import dataclass, field

from fuzz.draw import Drawn
from fuzz.reach import Reach
from fuzz.scenes import Scene

TOLD_BY = 4
"""Worlds that reached the line, before what they have in common counts."""
OTHERS_EVERY = 8
WHOLE_RUNS, WHOLE_EVERY = 3, 4
"""Of the worlds that do not reach the line, the first few and one in so many more come to their end, which is three
fifths of the work."""


@dataclass(slots=True)
class Guide:
    """For one bug in one process; `wants` is asked of worlds in turn, `wants_end` of the one that it wanted last."""

    reach: Reach
    num_told: int = 0
    _common: frozenset[str] | None = None
    _features: frozenset[str] = frozenset()
    _num_drawn: int = 0
    _num_played: int = field(default=-1)

    def wants(self, drawn: Drawn) -> bool:
        self._learn()
        self._num_drawn += 1
        features = features_of(drawn)
        is_like = self.num_told < TOLD_BY or self._common is None or self._common <= features
        if not is_like and self._num_drawn % OTHERS_EVERY:
            return False
        self._features = features
        self._num_played += 1
        return True

    def wants_end(self) -> bool:
        return self.reach.in_world or self._num_played < WHOLE_RUNS or self._num_played % WHOLE_EVERY == 0

    def _learn(self) -> None:
        """From the world that was wanted last."""
        if self.reach.in_world:
            self.num_told += 1
            self._common = self._features if self._common is None else self._common & self._features
        self.reach.forget()


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
