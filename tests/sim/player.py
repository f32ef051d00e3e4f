"""Draws long runs for the twin and its naive model from a seed."""

import random

from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    TableRead,
    TableVersion,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.extent import Extent, HostExtent, HostSpace
from tests.sim.naive_card import NaiveCard

SEGMENT, NUM_SEGMENTS, RANGE, STAGING, PACK, PARKED = 5, 4, 25, 7, 11, 9
"""Tiny, and without common factors. There is one place more than there are segments."""
SIZES = {HostSpace.PACK: PACK, HostSpace.STAGING: STAGING, HostSpace.PARKED: PARKED}


class Player:
    """Draws steps that are mostly right, so that runs get deep: owners and versions as they are, now and then not."""

    def __init__(self, seed: int, naive: NaiveCard) -> None:
        self.random, self.naive = random.Random(seed), naive
        self.version = 0

    def step(self) -> object:
        pick = self.random.choices(
            [
                self.fill,
                self.copy,
                self.launch,
                self.transfer,
                self.remap,
                self.order,
                self.host,
                self.capture,
                self.replay,
            ],
            [4, 6, 8, 2, 2, 6, 1, 1, 3],
        )[0]
        return "quiesce" if self.random.random() < 0.1 else pick()

    def stream(self) -> Stream:
        return self.random.choice([Stream.PROMPT, Stream.COPY, Stream.VERIFIER])

    def access(self) -> Access:
        extent = Extent(self.random.randrange(RANGE - 4), self.random.randint(1, 4))
        owner = self.naive.arena[extent.offset_bytes].owner if self.random.random() < 0.95 else self.random.choice("ab")
        return Access(extent, owner, self.random.choice((None, None, "x", "y")))

    def reads(self) -> tuple:
        if self.random.random() < 0.4:
            known = [*self.naive.versions][-2:]
            return (TableRead(self.random.choice([*known, self.version])),)
        return tuple(self.access() for _ in range(self.random.randint(0, 2)))

    def fill(self) -> Fill:
        return Fill(self.stream(), self.access(), 0)

    def copy(self) -> Copy:
        access = self.access()
        space = self.random.choice([*HostSpace])
        limit = SIZES[space] - access.extent.size_bytes
        host = HostExtent(space, self.random.randint(0, limit), access.extent.size_bytes)
        if space is not HostSpace.PACK and self.random.random() < 0.4:
            return Copy(self.stream(), (CopyPair(access, host),))
        publishes = None
        if self.random.random() < 0.5:
            self.version += self.random.choice((1, 1, 1, 0))
            publishes = TableVersion(self.version, tuple(self.access() for _ in range(self.random.randint(0, 2))))
        return Copy(self.stream(), (CopyPair(host, access),), publishes)

    def launch(self) -> Launch:
        writes = tuple(self.access() for _ in range(self.random.randint(0, 1)))
        return Launch(self.stream(), "work", None, self.reads(), writes)

    def transfer(self) -> Transfer:
        access = self.access()
        return Transfer(access.extent, access.owner, self.random.choice("aab"), in_place=self.random.random() < 0.4)

    def remap(self) -> Map | Unmap:
        extent = Extent(SEGMENT * self.random.randrange(RANGE // SEGMENT), SEGMENT)
        return Unmap(extent) if self.random.random() < 0.3 else Map(self.random.randint(0, NUM_SEGMENTS), extent)

    def order(self) -> Record | Wait | Notify | str:
        event = self.random.choice("pqr")
        return self.random.choice([Record(self.stream(), event), Wait(self.stream(), event), "completions",
                                   Notify(self.stream(), "t")])  # fmt: skip

    def host(self) -> HostExtent:
        space, start = self.random.choice((HostSpace.STAGING, HostSpace.PARKED)), self.random.randrange(STAGING)
        return HostExtent(space, start, self.random.randint(1, STAGING - start))

    def capture(self) -> tuple:
        return (self.random.choice("gh"), tuple(self.launch() for _ in range(self.random.randint(1, 2))))

    def replay(self) -> GraphLaunch:
        return GraphLaunch(self.stream(), self.random.choice("gh"), self.version)
