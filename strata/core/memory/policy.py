"""Which memory may be lent, from how many tokens on, and how much of it (`lending.md` 3). Numbers only."""

from dataclasses import dataclass

DEFAULT_MIN_CACHE_SLOTS = 128
LENDABLE_PERCENT = 90
"""At most this share of the slots, where at least 90% of the expert bytes are pinned (`lending.md` 3.4)."""
PAGEABLE_PERCENT = 85
"""Where fewer are."""
NEVER = -1


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a read takes no room, and why no segments move for it; "" for what it takes."""

    room: str
    segments: str


@dataclass(frozen=True, slots=True)
class LendingPolicy:
    """What the switches of `lending.md` 3 ask for. `room_min_tokens`: a request that reads at least so many fresh
    tokens takes the room. The elastic loan lends the verifier's buffers, and block and head where it says so; it is out
    at start, and taken again for reads of `repeat_min_tokens` and more. `retains_startup`: the first read keeps the
    geometry planned at start. `is_verified`: digests of what came home are held against the pack. Reads of at most
    `short_read_tokens` fresh tokens go through decode windows, which need nothing but the room's own threshold."""

    room_min_tokens: int = NEVER
    is_elastic: bool = False
    lends_block: bool = False
    lends_head: bool = False
    retains_startup: bool = False
    repeat_min_tokens: int = NEVER
    is_verified: bool = False
    short_read_tokens: int = 0

    def is_short(self, fresh_tokens: int) -> bool:
        """Whether windows read so many; the last fresh token is always a window's."""
        return 1 < fresh_tokens <= self.short_read_tokens

    def decline(self, fresh_tokens: int, *, is_out: bool, moves_block: bool) -> Declined:
        """For a request that reads `fresh_tokens`; `is_out`: it has the elastic loan of the start. `moves_block`: some
        of the drafter's block is in the segments that the loan moves."""
        segments = "" if is_out else self._decline_segments(fresh_tokens)
        return Declined(self._decline_room(fresh_tokens, is_block_away=not segments and moves_block), segments)

    def _decline_room(self, fresh_tokens: int, *, is_block_away: bool) -> str:
        if self.room_min_tokens == NEVER:
            return "off"
        return _too_few(fresh_tokens, least=self.room_min_tokens) or ("block_deferred" if is_block_away else "")

    def _decline_segments(self, fresh_tokens: int) -> str:
        if not self.is_elastic:
            return "off"
        if self.repeat_min_tokens == NEVER:
            return "taken once, at start"
        if self.is_short(fresh_tokens):
            return "read by windows"
        return _too_few(fresh_tokens, least=self.repeat_min_tokens)


def _too_few(fresh_tokens: int, *, least: int) -> str:
    return "" if fresh_tokens >= least else f"{fresh_tokens:,} fresh tokens of {least:,}"


NO_LENDING = LendingPolicy()
"""Only cache slots are lent, which needs no switch."""


def max_lent_slots(num_slots: int, *, min_cache_slots: int, percent: int = LENDABLE_PERCENT) -> int:
    """Slots of a cache of `num_slots` that may be lent at once."""
    return max(0, min(num_slots - min_cache_slots, num_slots * percent // 100))
