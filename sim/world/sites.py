"""Where a failure can strike, in the words of loans and swaps; what every read has, has no word."""

from sim.world.card import Card
from sim.world.loans import (
    CACHE,
    GROWS,
    MAP_BEHIND,
    MAP_HOME,
    ROOM_CLOSES,
    ROOM_OPENS,
    SHRINKS,
    UNMAP_BEHIND,
    UNMAP_HOME,
    Act,
    comes,
    goes,
)
from strata.core.commands import Access, Command, Copy, GraphLaunch

FIRST_WINDOW, INTO_BLOCK, INTO_HEAD, OF_SWAP = (
    "first window",
    "copy into the block",
    "copy into a head",
    "copy of a swap",
)
HEADS = ("head", "draft head")
SITES = (
    *(OF_SWAP, ROOM_OPENS, ROOM_CLOSES, FIRST_WINDOW, INTO_BLOCK, INTO_HEAD),
    *(UNMAP_HOME, MAP_BEHIND, UNMAP_BEHIND, MAP_HOME, GROWS, SHRINKS),
    *(verb(part) for part in ("verifier", "block", *HEADS, CACHE) for verb in (goes, comes)),
)


def site_of(card: Card, command: Command) -> str:
    """The word of a command that the core gives now."""
    is_lending = card.runner._state.at.is_lending
    match command:
        case GraphLaunch():
            return FIRST_WINDOW if is_lending else ""
        case Copy():
            targets = [pair.target for pair in command.pairs if isinstance(pair.target, Access)]
            if any((target.content or "").startswith(f"blob {card.geometry.num_layers} ") for target in targets):
                return INTO_BLOCK
            if not is_lending and any(target.owner == CACHE for target in targets):
                return OF_SWAP
            return INTO_HEAD if any(target.owner in HEADS for target in targets) else ""
        case _ if isinstance(command, Act):
            return card.lent.word(command)
    return ""
