"""Ordering pairs are counted as they happened, and each that could happen does, or it is said why not."""

from collections import Counter

import pytest

from fuzz.campaign import PAIRS_EVERY, Tally, run_seed
from fuzz.pairs import TOUCHES, all_pairs, cover, why_impossible
from sim.device import SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from sim.world.pairs import BEFORE, BESIDE, COPY_IN, COPY_OUT, HOST_ACCESS, LAUNCH, Pair, Pairs
from strata.core.commands import Access, Copy, CopyPair, Launch, Map, Notify, Record, Stream, Transfer, Wait
from strata.core.extent import Extent, HostExtent, HostSpace

NUM_WORLDS = 60
LUCKY_SEED = 1296
"""Of a world in which the host writes staging while a copy reads it: one in a hundred does."""
SLOT, OTHER = Access(Extent(0, 8), "prompt"), Access(Extent(8, 8), "prompt")
STAGED = HostExtent(HostSpace.STAGING, 0, 8)


class Watched(SimDevice):
    """Counts what is submitted once it was taken."""

    def __init__(self) -> None:
        description = describe_twin(arena_bytes=16, segment_bytes=16, pack_bytes=8, staging_bytes=8)
        super().__init__(description, {"work": lambda memory, args: None}, SymbolicPayload(description))
        self.pairs = Pairs(self._graphs)
        self.seal()
        self.submit([Map(0, Extent(0, 16)), Transfer(Extent(0, 16), "", "prompt")])

    def _apply(self, command, by):
        super()._apply(command, by)
        self.pairs.note(command, by, self._shadow)

    def host(self, extent):
        view = super().host(extent)
        self.pairs.note_host(self._shadow.clocks)
        return view

    def counts(self, *kinds: str) -> Counter[str]:
        """Of pairs of these kinds, in words."""
        return Counter({str(p): n for p, n in self.pairs.counts.items() if {p.first, p.second} <= set(kinds)})


def copy_in(target: Access) -> Copy:
    return Copy(Stream.COPY, (CopyPair(HostExtent(HostSpace.PACK, 0, 8), target),))


def work(read: Access) -> Launch:
    return Launch(Stream.PROMPT, "work", None, (read,), ())


def test_what_is_ordered_is_before_and_what_is_not_is_beside() -> None:
    device = Watched()
    device.submit([copy_in(SLOT), Record(Stream.COPY, "copied"), Wait(Stream.PROMPT, "copied"), work(SLOT)])
    assert device.counts(COPY_IN, LAUNCH) == {"copy in before launch, prompt": 1}
    device.submit([copy_in(OTHER)])
    assert device.counts(COPY_IN, LAUNCH) == {
        "copy in before launch, prompt": 1,
        "copy in before copy in, prompt": 1,
        "copy in beside launch, prompt": 1,
    }


def test_the_host_is_behind_what_it_was_told_of() -> None:
    device = Watched()
    device.submit([copy_in(SLOT), Copy(Stream.COPY, (CopyPair(SLOT, STAGED),)), Notify(Stream.COPY, "out")])
    device.completions()
    device.host(STAGED)
    device.submit([Transfer(SLOT.extent, "prompt", "cache")])
    assert device.counts(COPY_OUT, HOST_ACCESS) == {"copy out before host access, staging": 1}
    assert device.pairs.counts[Pair("copy out", BEFORE, "transfer", "prompt")] == 1
    assert device.pairs.counts[Pair("transfer", BEFORE, "transfer", "cache")] == 0


def test_every_pair_that_cannot_be_has_a_reason_and_no_pair_is_named_twice() -> None:
    pairs = list(all_pairs())
    assert len(pairs) == len(set(pairs))
    possible = [pair for pair in pairs if not why_impossible(pair)]
    assert {pair.region for pair in possible} == set(TOUCHES)
    assert {pair.relation for pair in possible} == {BEFORE, BESIDE}


def test_what_is_seen_although_it_cannot_be_is_told() -> None:
    wrong, unknown = Pair("window", BESIDE, "transfer", "cache"), Pair("fill", BEFORE, "fill", "nowhere")
    coverage = cover({wrong: 1, unknown: 2, Pair("window", BEFORE, "transfer", "cache"): 3})
    assert set(coverage.contradicted) == {wrong, unknown}
    assert Pair("window", BEFORE, "transfer", "cache") not in coverage.missing
    assert Pair("window", BEFORE, "launch", "cache") in coverage.missing


@pytest.mark.slow
def test_worlds_show_every_pair_that_can_be() -> None:
    tally = Tally()
    for seed in (*range(0, NUM_WORLDS * PAIRS_EVERY, PAIRS_EVERY), LUCKY_SEED):
        assert run_seed(seed, tally, with_all_loans=False) is None
    coverage = cover(tally.pairs)
    assert (coverage.missing, coverage.contradicted) == ((), ())
