"""Swaps: blobs of the expert cache that are exchanged between windows (`lending.md` 4.1; which ones:
`memory/residency.py`).

    verifier stream   window | table without the old | window          | wait swapped, table with the new | window
    copy stream                           '- wait cleared, pack -> slots, record swapped -'

Neither the host nor a window waits for the copies, unless they take longer than the window they run beside. The host
knows that they have landed once the window behind that is done; a reply that ends before lands them on its way to
rest. So no swap is under way when a request begins, and none while anything is lent (`lending.md` 5, invariant 8).
"""

from dataclasses import replace

from strata.core.commands import Record, Stream, Wait
from strata.core.memory.planner import Plan
from strata.core.memory.residency import Residency
from strata.core.serving.chunk import Addresses
from strata.core.serving.masters import copy_groups
from strata.core.serving.standing import Standing
from strata.core.serving.steps import Orders
from strata.core.serving.table import blobs_home, publish_table, resident_blobs

CLEARED, SWAPPED = "cleared", "swapped"


def brings_reads(plan: Plan, cache: Residency) -> bool:
    """Whether the next window, or one under way, brings the reads of blobs back."""
    return plan.staging.usage.size_bytes > 0 and cache.num_windows + 1 == plan.options.swap_windows


def swap(plan: Plan, places: Addresses, at: Standing) -> tuple[Standing, Orders]:
    """What there is to do between two windows: land what is on its way, or, once reads were counted, exchange what is
    worth it. Nothing is lent."""
    if at.cache.moving:
        return land(plan, places, at)
    if not at.cache.is_fresh:
        return at, Orders()
    cache = at.cache.exchanged(plan.inventory, most=plan.options.num_swaps)
    if not cache.moving:
        return replace(at, cache=cache), Orders()
    at, orders = _publish(plan, places, at, cache)
    copies = copy_groups(Stream.COPY, blobs_home(plan, (cache.slots[index] for index in cache.moving)))
    cleared = (Record(Stream.VERIFIER, CLEARED), Wait(Stream.COPY, CLEARED))
    return at, orders.then(Orders((), (*cleared, *copies, Record(Stream.COPY, SWAPPED))))


def land(plan: Plan, places: Addresses, at: Standing) -> tuple[Standing, Orders]:
    """The table that names what is on its way, behind the copies; what follows is to await both streams."""
    at, published = _publish(plan, places, at, at.cache.landed())
    return at, Orders((), (Wait(Stream.VERIFIER, SWAPPED),)).then(published)


def _publish(plan: Plan, places: Addresses, at: Standing, cache: Residency) -> tuple[Standing, Orders]:
    at = replace(at, cache=cache, table_version=at.table_version + 1)
    named = (slot for index, slot in enumerate(cache.slots) if index not in cache.moving)
    upload, publish = publish_table(plan, places, resident_blobs(plan, named), version=at.table_version)
    return at, Orders((upload,), (publish,))
