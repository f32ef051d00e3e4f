"""What a campaign wants to have seen at least once; a name that never held shows that worlds are drawn too narrowly."""

from collections.abc import Mapping

from sim.world.sites import SITES

STATES = (
    "Parking",
    "Restoring",
    "Lending reserved",
    "Reading",
    "Reading lent",
    "ShortReading",
    "Closing",
    "Closing lent",
    "Settling restoring",
    "Windowing",
    "Windowing restoring",
)

STAGED = (
    "rows wait at a border",
    "windows read on two stages at once",
    "two passes in flight",
    "window beside a read",
    "chunks of two stages at once",
    "window answered",
    "loan opened",
    "prefix reused",
    "parked",
    "room opened",
    "checkpoint used",
    "cancelled",
    "recovered",
)

# Nobody is left to cancel while a card settles: it settles because the client has left, or was told of a failure.
SOMETIMES = (
    *(f"cancelled in {state}" for state in STATES if not state.startswith("Settling")),
    *(f"fault in {state}" for state in ("Idle", *STATES)),
    *(f"recovered from {state}" for state in ("Idle", *STATES)),
    "loan opened",
    "prefix reused",
    "parked",
    "restored",
    "parked prefix found",
    "nothing to read",
    "recurrent state extended",
    "recurrent state lost",
    "checkpoint kept",
    "checkpoint used",
    "checkpoint evicted",
    "refill failed and was repeated",
    "recovery repeated",
    "streaming chunk",
    "routed chunk",
    "second chunk on a loan",
    "ring went round",
    "more than one copy group refilled",
    "device lost",
    "stream overtook",
    "window answered",
    "draft accepted",
    "draft taken back",
    "drafter's draft accepted",
    "drafter's draft taken back",
    "reply ends inside a window",
    "restarted with other options",
    "slab of a loan",
    "read by windows",
    "blobs exchanged",
    "reply ended beside a swap",
    "blobs staged",
    "scratch in its region",
    "room opens",
    "room in a read that streams",
    "prompt path grows",
    "room, slots and segments out at once",
    "more than one group of room slots written",
    "room slot home before the read ends",
    "block restored behind the first window",
    "cancelled while segments are out",
    *(f"survived a fault at {what}" for what in SITES),
    *(f"staged: {what}" for what in STAGED),
)


def never_held(counts: Mapping[str, int]) -> list[str]:
    return [name for name in SOMETIMES if not counts.get(name)]
