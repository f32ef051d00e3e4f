"""Real bytes, all loans on: commands of every kind fail, drawn for each shape of request, and the card is as before."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random

import pytest
import torch

from strata.config.values import Mtp
from strata.core.commands import Command, Map, Notify, Record, Transfer, Unmap, Wait
from strata.core.errors import DeviceError
from strata.core.events import Failed
from strata.core.extent import Extent, HostExtent
from strata.core.serving.masters import masters_of
from strata.core.serving.table import resident_blobs
from tests.end_to_end.real_card import RealCard, real_card
from tests.end_to_end.test_lending_bits import ALL, ARENA_BYTES, IDS, lending

pytestmark = pytest.mark.soak

NUM_DRAWN = 50
PARKED_BYTES = 4 << 20
AT_ONCE = Transfer | Map | Unmap | Wait | Record | Notify
"""What orders, and what changes hands, fails in the call."""
BASE, NEXT = IDS[:200], IDS[50:350]
SHAPES: dict[str, tuple[tuple[int, ...], int | None]] = {
    "one fresh token": (BASE, None),
    "read by windows": ((*BASE, 5, 6, 7), None),
    "one routed chunk": (IDS[:300][::-1], None),
    "streams, with segments": (IDS[::-1], None),
    "comes back from host memory": (IDS[400:700], None),
    "given up half way": (IDS[300:900], 5),
}
"""Prompt, and after how many steps its client leaves. What is on the card when it begins is `BASE`."""


@dataclass
class Striker:
    """Refuses or spoils the command of kind `due[0]` that `due[1]` of its kind come before. `seen` counts the kinds."""

    seen: Counter[str] = field(default_factory=Counter)
    due: tuple[str, int] | None = None
    struck: list[str] = field(default_factory=list)

    def __call__(self, index: int, command: Command) -> Failed | None:
        kind = type(command).__name__
        self.seen[kind] += 1
        if self.due is None or self.due[0] != kind or self.due[1] != self.seen[kind] - 1:
            return None
        self.struck.append(kind)
        if isinstance(command, AT_ONCE) or index % 2:
            raise DeviceError("planted", command)
        return Failed("planted", command)


def weights(card: RealCard) -> Iterator[tuple[Extent, HostExtent]]:
    """Every weight on the card, where it is at home, and its place in the pack."""
    plan = card.planned.plan
    for (layer, expert), blob in resident_blobs(plan, plan.slots).items():
        yield blob.extent, plan.pack.blobs[layer][expert]
    for region in plan.regions:
        yield from ((master.extent, master.home) for master in masters_of(plan, region.name))


def assert_at_rest(card: RealCard, owners: object) -> None:
    at = card.runner._state.at
    assert not at.is_lending
    at.check()
    assert card.device.card_map() == owners
    for extent, home in weights(card):
        payload = card.device._payload
        assert torch.equal(payload.tensor(extent), payload.tensor(home)), (extent, home)  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", SHAPES)
def test_whichever_command_fails_everything_is_where_it_was(lend_model: Path, shape: str) -> None:
    ids, cancel = SHAPES[shape]
    policy = replace(ALL, short_read_tokens=64)
    options = replace(lending(policy, ring_slots=240), window_rows=3, parked_bytes=PARKED_BYTES)
    striker, rng = Striker(), Random(shape)
    with real_card(lend_model, options, arena_bytes=ARENA_BYTES, mtp=Mtp(), faults=striker) as card:
        for _ in range(2):  # the second time nothing is new: what was lent from the start is home, and all are parked
            card.serve(BASE, max_tokens=1)
            owners = card.device.card_map()
            striker.seen.clear()
            card.serve(ids, max_tokens=4, cancel_after_steps=cancel)
        kinds = dict(striker.seen)
        assert_at_rest(card, owners)
        expected = (card.serve(NEXT, max_tokens=3), list(card.logits))
        for kind in islice(cycle(sorted(kinds)), NUM_DRAWN):
            card.serve(BASE, max_tokens=1)
            striker.seen.clear()
            striker.due = kind, rng.randrange(kinds[kind])
            try:
                card.serve(ids, max_tokens=4, cancel_after_steps=cancel)
            except DeviceError:
                card.runner.recover()
            striker.due = None
            assert_at_rest(card, owners)
            assert (card.serve(NEXT, max_tokens=3), card.logits) == expected, kind
    assert set(striker.struck) == set(kinds)
    assert len(striker.struck) > NUM_DRAWN // 2
