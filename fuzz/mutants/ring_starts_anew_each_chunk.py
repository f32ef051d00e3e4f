"""A chunk forgets which entries of the ring were used."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "self._open_chunk(at, state.request, chunk.layout, chunk.ring, chunk.resident)"
REPLACEMENT = "self._open_chunk(at, state.request, chunk.layout, Ring(chunk.ring.num_slots), chunk.resident)"
SOURCE = "lending.md 5, invariant 13"
EQUIVALENT = (
    "A chunk opens when the notice of the prompt stream behind the last reader of the ring has been taken by "
    "the host, and whatever the host issues afterwards is ordered behind that; the events that the new ring "
    "leaves out order nothing more. Entries of the old ring are all consumed by then, so the counts may begin "
    "anew."
)
