"""A runner over a body with real bytes: the twin, the CUDA body on the driver without a card, or a card. Programs are
as good as none; what counts is which bytes come home. Failures are planted into any of them (`strata.trace.faults`).

Segments are as large as a card maps them, so that all bodies have one plan.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from sim.bytes import BytesPayload, fill_pattern, positional_digest
from sim.device import SimDevice, describe_twin
from strata.core import programs
from strata.core.commands import Access, Command, Digest, Map, Notify, Record, Stream, Transfer, Unmap, Wait
from strata.core.errors import DeviceError, Refusal
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.inventory import DrafterInventory, ModelInventory, WeightItem
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Idle
from strata.core.units import MIB, align_up
from strata.cuda.open import open_device
from strata.device import Device, Memory, Programs
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.trace.faults import FaultyDevice
from tests.cuda.builders import fake_driver
from tests.cuda.host_views import HostViews
from tests.device.cuda_bodies import why_no_card
from tests.engine.symbolic_card import PROGRAMS, dense_reads, lending_inventory, pack_manifest

SEGMENT_BYTES = 2 * MIB
TERMINATORS = (1, 2)
TOKEN = 5
GRID_BYTES = 256
"""Of the blobs in a block."""
CANNOT_FAIL_LATE = Map | Unmap | Transfer | Wait | Record | Notify
"""What a card says at once of such a command is all that it says."""


@dataclass(frozen=True)
class Scenario:
    inventory: ModelInventory
    options: PlanOptions
    arena_bytes: int


def _large(blob_bytes: tuple[int, ...], **rest: Any) -> ModelInventory:
    return replace(lending_inventory(), blob_bytes=blob_bytes, **rest)


def _drafting() -> ModelInventory:
    drafter = DrafterInventory(40, 100_000, (WeightItem("blk.4.attn", 300),), (WeightItem("blk.4.nextn.head", 9000),))
    plain = _large((90_000, 0, 70_000, 81_000))
    weights = (*plain.weights, WeightItem("output.weight", 4_300_000))
    return replace(plain, weights=weights, heads=("output.weight",), drafter=drafter)


ELASTIC = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=256)
SCENARIOS = {
    "lent slots of a hybrid": Scenario(
        _large((65_536, 0, 56_000, 64_800), state_bytes=(0, 512, 0, 256)), PlanOptions(1024, min_cache_slots=4), 4 * MIB
    ),
    "moved segments of block and head": Scenario(
        _drafting(),
        PlanOptions(1024, min_cache_slots=4, ring_slots=4, policy=ELASTIC, segment_bytes=SEGMENT_BYTES),
        16 * MIB,
    ),
}


def byte_programs(inventory: ModelInventory, device: str) -> Programs:
    """The router chooses every third expert, sampling gives one token, a recurrent layer counts rows."""
    counts = torch.tensor([int(expert % 3 == 0) for expert in range(inventory.num_experts)], dtype=torch.int32)
    result = torch.zeros(programs.RESULT_BYTES // 8, dtype=torch.int64)
    result[0], result[programs.SAMPLED_WORD] = TOKEN, 1
    chosen, sampled = counts.view(torch.uint8).to(device), result.view(torch.uint8).to(device)

    def router(memory: Memory, args: Any) -> None:
        memory.write(args.buffers.router_counts).copy_(chosen)

    def sample(memory: Memory, args: Any) -> None:
        memory.write(args.window.result).copy_(sampled)

    def recurrent(memory: Memory, args: Any) -> None:
        if args.journal is None:
            memory.write(args.state).add_((args.rows + args.layer) % 251)

    known = {programs.ROUTER: router, programs.SAMPLE: sample, programs.RECURRENT: recurrent}
    return {name: known.get(name, lambda memory, args: None) for name in PROGRAMS}


@dataclass
class ByteCard:
    """`fail_in`: commands until one fails, None for never; `asked`: what was, since `fail` was said; `masters`: the
    digest of everything in the pack."""

    plan: Plan
    runner: Runner = field(init=False)
    device: Device = field(init=False)
    fail_in: int | None = None
    is_refused: bool = True
    asked: list[Command] = field(default_factory=list)
    masters: dict[HostExtent, int] = field(default_factory=dict)

    def fail(self, fail_in: int | None, *, is_refused: bool = True) -> None:
        self.fail_in, self.is_refused = fail_in, is_refused
        self.asked.clear()

    def faults(self, index: int, command: Command) -> Failed | None:
        del index
        self.asked.append(command)
        if self.fail_in is None or len(self.asked) != self.fail_in + 1:
            return None
        if self.is_refused or isinstance(command, CANNOT_FAIL_LATE):
            raise DeviceError("planted", command)
        return Failed("planted", command)

    def serve(self, request: GenerationRequest) -> int:
        """The number of sampled tokens."""
        self.runner.begin(request)
        num_sampled = 0
        while not isinstance(outcome := self.runner.advance(is_cancelled=False), HasClosed):
            if isinstance(outcome, HasSampled):
                num_sampled += len(outcome.token_ids)
                if num_sampled >= request.max_tokens:
                    self.runner.end()
                    return num_sampled
                self.runner.resume(*outcome.token_ids)
        return num_sampled

    def homes(self) -> Iterator[tuple[Access, HostExtent]]:
        """Everything that is a copy of the master's bytes at rest: slots, block, head and every other weight."""
        for slot in self.plan.slots:
            home = self.plan.pack.blobs[slot.layer][slot.expert]
            yield Access(Extent(slot.extent.offset_bytes, home.size_bytes), "cache"), home
        for name, extent in self.plan.weights.items():
            yield Access(extent, self.plan.owners[name]), self.plan.pack.weights[name]
        at = self.plan.block.offset_bytes
        for home in self.plan.pack.block:
            yield Access(Extent(at, home.size_bytes), "block"), home
            at += align_up(home.size_bytes, GRID_BYTES)

    def assert_all_home(self) -> None:
        state = self.runner._state
        assert isinstance(state, Idle) and not state.at.is_lending
        wrong = self.not_home()
        assert not wrong, wrong

    def not_home(self) -> list[Access]:
        """What has not the master's bytes."""
        rows = list(self.homes())
        found = self.digests([access for access, _ in rows])
        return [access for (access, home), digest in zip(rows, found, strict=True) if self.masters[home] != digest]

    def state_digests(self) -> list[int]:
        return self.digests([Access(extent, "state") for extent in self.plan.state if extent.size_bytes])

    def digests(self, accesses: Any) -> list[int]:
        """By the body itself, from the card to staging."""
        assert 8 * len(accesses) <= self.device.describe().staging_bytes
        words = [HostExtent(HostSpace.STAGING, 8 * index, 8) for index in range(len(accesses))]
        for access, word in zip(accesses, words, strict=True):
            self.device.submit([Digest(Stream.VERIFIER, access, word)])
        self.device.submit([Notify(Stream.VERIFIER, "digested")])
        while Reached("digested") not in self.device.completions():
            pass
        return [int.from_bytes(self.device.host(word), "little") for word in words]


@contextmanager
def twin(plan: Plan, make: Callable[[str], Programs], sizes: dict[str, int]) -> Iterator[Device]:
    description = describe_twin(**sizes)
    device = SimDevice(description, make("cpu"), BytesPayload(description), manifest=pack_manifest(plan))
    yield device
    device.close()


@contextmanager
def cuda_on_fake(plan: Plan, make: Callable[[str], Programs], sizes: dict[str, int]) -> Iterator[Device]:
    with fake_driver() as fake:
        device = open_device(make("cpu"), **sizes, api=fake, make_views=HostViews)
        yield device
        device.close()
        assert fake.leftovers() == {}


@contextmanager
def cuda(plan: Plan, make: Callable[[str], Programs], sizes: dict[str, int]) -> Iterator[Device]:
    why = why_no_card()
    if why is not None:
        pytest.skip(why)
    device = open_device(lambda description, limits: make("cuda:0"), **sizes)
    yield device
    device.close()


BODIES: dict[str, Any] = {"twin": twin, "cuda-on-fake-driver": cuda_on_fake, "cuda": cuda}


@contextmanager
def byte_card(scenario: Scenario, body: str) -> Iterator[ByteCard]:
    """Started and idle."""
    torch.set_num_threads(1)
    plan = plan_card(scenario.inventory, scenario.arena_bytes, scenario.options)
    assert not isinstance(plan, Refusal), plan
    sizes = {
        "arena_bytes": plan.arena_bytes,
        "segment_bytes": SEGMENT_BYTES,
        "pack_bytes": plan.pack.size_bytes,
        "staging_bytes": plan.staging.size_bytes,
        "behind_bytes": plan.behind_bytes,
        "parked_bytes": parked_space_bytes(plan),
    }
    card = ByteCard(plan)
    with ExitStack() as opened:
        device = opened.enter_context(BODIES[body](plan, lambda where: byte_programs(scenario.inventory, where), sizes))
        for seed, (home, _) in enumerate(pack_manifest(plan)):
            data = torch.frombuffer(device.host(home), dtype=torch.uint8)
            fill_pattern(data, seed)
            card.masters[home] = positional_digest(data)
        device.seal()
        card.device = FaultyDevice(device, card.faults)
        recipe = Recipe(plan, dense_reads(scenario.inventory))
        card.runner = Runner(card.device, recipe, TERMINATORS, pause=lambda: None)
        card.runner.start()
        yield card
