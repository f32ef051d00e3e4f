"""Windows that must stage blobs: layer by layer, where a window is one graph otherwise.

    verifier stream   mixer, router, counts | the host sees them | blobs -> slots, row | experts ... router, counts |

Blobs in memory that is not pinned have no address that a kernel could follow (`lending.md` 3.5), so those that a router
chose are copied into slots of the verifier, on the window's own stream: behind the last reader of these slots, ahead of
the next. The layer reads through a row of addresses of its own; what lies in a slot of the cache or in pinned memory it
reads where a graph would. Layers of which nothing can be missing ask nothing.
"""

from dataclasses import replace

from strata.core.commands import Access, Command, Copy, CopyPair, Launch, Stream
from strata.core.memory.planner import Plan
from strata.core.memory.shapes import Slot
from strata.core.programs import ExpertsArgs
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import address_row
from strata.core.serving.masters import copy_groups
from strata.core.serving.standing import Standing
from strata.core.serving.steps import Orders, Upload
from strata.core.serving.table import address_words, blobs_home, resident_blobs


def hold_back(plan: Plan, launched: Orders) -> tuple[Orders, Orders]:
    """As much of a window as goes before the experts of the first layer that may have to stage some, with the counts of
    its router on their way to the host; and what is held back until they are there, checks of what comes home too."""
    commands = launched.commands
    first = next((at for at, command in enumerate(commands) if plan.staged and _may_stage(plan, command)), None)
    if first is None:
        return launched, Orders()
    counts = CopyPair(Access(plan.verifier.buffers.router_counts, "verifier"), plan.staging.router_counts)
    held = Orders((), commands[first:], checks=launched.checks)
    return replace(launched, commands=(*commands[:first], Copy(Stream.VERIFIER, (counts,))), checks=()), held


def _may_stage(plan: Plan, command: Command) -> bool:
    """Whether it reads experts through the table, in a layer of which some have no address there."""
    if not isinstance(command, Launch) or not isinstance(command.args, ExpertsArgs):
        return False
    return command.args.addresses != plan.verifier.addresses and bool(plan.staged[command.args.layer])


def stage(plan: Plan, places: Addresses, at: Standing, held: Orders, experts: tuple[int, ...]) -> Orders:
    """What was held back, behind the copies that it needs: its router chose `experts`."""
    reader, *behind = held.commands
    assert isinstance(reader, Launch) and isinstance(reader.args, ExpertsArgs), reader
    layer, slots = reader.args.layer, plan.verifier.staged
    missing = sorted(plan.staged[layer].intersection(experts))
    assert len(missing) <= len(slots), (missing, slots)
    taken = [Slot(layer, expert, slot) for expert, slot in zip(missing, slots, strict=False)]
    staged = resident_blobs(plan, taken, owner="verifier")
    row, home = Access(plan.verifier.addresses, "verifier"), address_row(plan.staging.table, plan, layer=layer)
    resident = resident_blobs(plan, (slot for slot in at.cache.slots if slot.layer == layer))
    upload = Upload(home, address_words(plan, places, {**resident, **staged}, range(layer, layer + 1)))
    pairs = [CopyPair(home, row), *blobs_home(plan, taken, owner="verifier")]
    reads = tuple(row if isinstance(read, Access) and read.owner == "table" else read for read in reader.reads)
    args = replace(reader.args, addresses=row.extent)
    launch = replace(reader, args=args, reads=(*reads, *staged.values()))
    return Orders((upload,), (*copy_groups(Stream.VERIFIER, pairs), launch, *behind), checks=held.checks)
