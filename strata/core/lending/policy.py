"""How much of the expert cache a read may borrow (`lending.md` 3.4). Numbers only."""

DEFAULT_MIN_CACHE_SLOTS = 128
LENDABLE_PERCENT = 85
"""At most this share of the slots; 90 where at least 90% of the expert bytes are pinned, which no body does yet."""


def max_lent_slots(num_slots: int, *, min_cache_slots: int) -> int:
    """Slots of a cache of `num_slots` that may be lent at once."""
    return max(0, min(num_slots - min_cache_slots, num_slots * LENDABLE_PERCENT // 100))
