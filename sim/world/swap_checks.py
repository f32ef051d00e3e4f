"""Swaps of the expert cache in a world (`lending.md` 4, 3; 4.1; 5, invariant 8): what may be exchanged, when, and that
nothing is under way when anything is lent. Judged by the twin's facts and the geometry; which blobs are worth it is a
pure function of its own (`tests/core/test_residency.py`).
"""

from collections.abc import Callable, Iterable, Iterator

from sim.errors import TwinError
from sim.shadow import Shadow
from sim.streams import ACTOR_OF, HOST, Operation
from sim.world.geometry import Geometry
from sim.world.loans import CACHE, NOBODY, PROMPT, Rows
from sim.world.table_checks import newest_version
from strata.core.commands import Access, Command, Copy, CopyPair, Stream, Transfer
from strata.core.extent import Extent

Named = Iterable[tuple[int, int, str]]
"""Start, end, name."""


class SwapRule(TwinError):
    """A rule of swaps is broken."""


class SwapWatch:
    """Which blob lies in which slot, as copies have it. `named`: what was on the card at start; `owners` of its bytes
    when everything was at home. `num_swaps` and `num_landings` so far."""

    def __init__(self, geometry: Geometry, named: Named, owners: Rows) -> None:
        self._geometry, self._owners = geometry, owners
        self._cache = next((Extent(start, size) for start, size, owner in owners if owner == CACHE), Extent(0, 0))
        inside = [(start, name) for start, end, name in named if self._cache.contains(Extent(start, end - start))]
        self._holds = dict(sorted(inside))
        self.num_swaps = 0

    def check(self, command: Command, shadow: Shadow, index: int, rows: Callable[[], Rows]) -> None:
        """`command` is about to be taken, and none before it failed on its way; `rows`: who owns what now."""
        if isinstance(command, Transfer) and command.taker == PROMPT and command.giver != NOBODY:
            self._check_all_landed(shadow, _asked_by_host(command, shadow, index))
        elif isinstance(command, Copy) and command.stream is Stream.COPY:
            swapped = [pair for pair in command.pairs if self._is_swap(pair)]
            if swapped:
                self._check_swap(swapped, shadow, _asked_by_host(command, shadow, index), rows())

    def note(self, command: Command) -> None:
        """`command` was taken."""
        if isinstance(command, Copy):
            for pair in command.pairs:
                if self._is_swap(pair):
                    assert isinstance(pair.target, Access)
                    self._holds[pair.target.extent.offset_bytes] = pair.target.content or ""
                    self.num_swaps += 1

    def _is_swap(self, pair: CopyPair) -> bool:
        """Another blob than the slot holds, wherever in the cache: the same one again is a refill."""
        target = pair.target
        if not isinstance(target, Access) or target.owner != CACHE:
            return False
        return self._holds.get(target.extent.offset_bytes) != target.content

    def _check_swap(self, pairs: list[CopyPair], shadow: Shadow, by: Operation, rows: Rows) -> None:
        if len(pairs) > self._geometry.num_swaps:
            raise SwapRule(f"{len(pairs)} blobs are exchanged at once, {self._geometry.num_swaps} may be", by.command)
        if rows != self._owners:
            raise SwapRule(f"blobs are exchanged while something is lent: {rows}", by.command)
        newest, targets = newest_version(shadow), [pair.target for pair in pairs]
        assert newest is not None
        if newest.upload.tick > shadow.clocks.of(ACTOR_OF[Stream.COPY])[newest.upload.actor]:
            raise SwapRule(f"{targets} are written beside {newest.upload}, which clears their entries", by.command)
        for target in targets:
            assert isinstance(target, Access)
            self._check_place(target, by)
            if any(entry.extent.overlaps(target.extent) for entry in newest.entries):
                raise SwapRule(f"{target} is written, and table version={newest.version} still names it", by.command)
        written = {target.extent.offset_bytes for target in targets if isinstance(target, Access)}
        for access in self._blobs(but=written):
            shadow.check_read(access, by)  # what was lent is home, and what was exchanged before is there

    def _check_place(self, target: Access, by: Operation) -> None:
        start, offsets = target.extent.offset_bytes, [*self._holds, self._cache.end_bytes]
        if start not in self._holds:
            raise SwapRule(f"{target} is no slot of the cache", by.command)
        if target.extent.end_bytes > offsets[offsets.index(start) + 1]:
            raise SwapRule(f"{target} is larger than its slot", by.command)
        if target.content in self._holds.values():
            raise SwapRule(f"{target} is resident in another slot", by.command)

    def _check_all_landed(self, shadow: Shadow, by: Operation) -> None:
        """The host knows of every slot that its blob is there."""
        for access in self._blobs(but=()):
            shadow.check_read(access, by)

    def _blobs(self, *, but: Iterable[int]) -> Iterator[Access]:
        for start, name in self._holds.items():
            if start not in but:
                layer = int(name.split()[1])
                yield Access(Extent(start, self._geometry.blob_bytes[layer]), CACHE, name)


def _asked_by_host(command: Command, shadow: Shadow, index: int) -> Operation:
    """What the host knows now is what counts."""
    return Operation(HOST, shadow.clocks.of(HOST)[HOST], index, command)
