"""A chunk forgets which entries of the ring were used."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "self._open_chunk(at, state.request, chunk.layout, chunk.ring, chunk.resident)"
REPLACEMENT = "self._open_chunk(at, state.request, chunk.layout, Ring(chunk.ring.num_slots), chunk.resident)"
SOURCE = "lending.md 5, invariant 13"
