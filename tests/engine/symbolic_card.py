"""A runner over the twin without bytes, and a player that puts into staging what the programs would have left."""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sim.clock import VirtualClock
from sim.device import Faults, SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from strata.core import programs
from strata.core.commands import Command
from strata.core.errors import Refusal
from strata.core.extent import HostExtent
from strata.core.inventory import DrafterInventory, ModelInventory, WeightItem
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import RESULT_BYTES
from strata.core.serving.checkpoints import parked_space_bytes
from strata.core.serving.launches import Recipe
from strata.core.serving.request import GenerationRequest
from strata.core.serving.states import Windowing
from strata.device import Device
from strata.engine.runner import HasClosed, HasSampled, Runner
from strata.plan_check import check_plan

SEGMENT_BYTES = 256 * 1024
PROGRAMS = (programs.EMBED, programs.ATTENTION, programs.ROUTER, programs.EXPERTS)
PROGRAMS += (programs.COMBINE, programs.FFN, programs.HEAD, programs.SAMPLE, programs.RECURRENT, programs.SHARED)
PROGRAMS += (programs.COMMIT, programs.DRAFT_INPUT, programs.DRAFT_KV, programs.DRAFT_HEAD)


def small_inventory(*, blob_bytes: tuple[int, ...] = (700, 0, 512, 640), num_experts: int = 12) -> ModelInventory:
    """Four layers, one of them dense, blobs of three sizes, rows of a few floats."""
    return ModelInventory(
        architecture="test",
        num_layers=len(blob_bytes),
        hidden_size=4,
        num_heads=2,
        num_kv_heads=1,
        head_dim=2,
        vocab_size=31,
        context_tokens=4096,
        num_experts=num_experts,
        num_experts_used=2,
        weights=(WeightItem("token_embd.weight", 496), *(WeightItem(f"blk.{i}", 100) for i in range(len(blob_bytes)))),
        blob_bytes=blob_bytes,
    )


def hybrid_inventory() -> ModelInventory:
    """The small one with two recurrent layers."""
    return replace(small_inventory(), state_bytes=(0, 512, 0, 256))


def lending_inventory() -> ModelInventory:
    """120 blobs of three sizes, of which about a third fits half a MiB beside the rest."""
    return small_inventory(blob_bytes=(8192, 0, 7000, 8100), num_experts=40)


def drafting_inventory() -> ModelInventory:
    """The same with a head of its own and a drafter: its experts are wider than the trunk's, so that the block has room
    for 46 ring slots in 40 of its own."""
    drafter = DrafterInventory(40, 9300, (WeightItem("blk.4.attn", 300),), (WeightItem("blk.4.nextn.head", 9000),))
    plain = lending_inventory()
    weights = (*plain.weights, WeightItem("output.weight", 70_000))
    return replace(plain, weights=weights, heads=("output.weight",), drafter=drafter)


def dense_reads(inventory: ModelInventory) -> dict[tuple[str, int | None], tuple[str, ...]]:
    reads: dict[tuple[str, int | None], tuple[str, ...]] = {
        (program, layer): (f"blk.{layer}",)
        for layer in range(inventory.num_layers)
        for program in (programs.ATTENTION, programs.RECURRENT, programs.ROUTER, programs.FFN)
    }
    head = inventory.heads or ("token_embd.weight",)
    reads |= {(programs.EMBED, None): ("token_embd.weight",), (programs.HEAD, None): head}
    if inventory.drafter is not None:
        own = tuple(item.name for item in inventory.drafter.weights)
        drafter = inventory.num_layers
        reads |= {(program, drafter): own for program in (programs.ATTENTION, programs.ROUTER, programs.DRAFT_KV)}
        reads |= {(programs.DRAFT_INPUT, None): own}
        reads |= {(programs.DRAFT_HEAD, None): tuple(item.name for item in inventory.drafter.heads) or head}
    return reads


@dataclass
class Card:
    """`counts` plays the router: rows of each expert in the layer about to be read. `hot`: blobs that every window
    reads, None where each is read now and then."""

    plan: Plan
    device: SimDevice
    payload: SymbolicPayload
    runner: Runner
    rng: random.Random
    commands: list[Command] = field(default_factory=list)
    hot: frozenset[tuple[int, int]] | None = None

    def play(self, *, num_standing: int | None = None) -> None:
        """What the programs would have left in staging before the next look at it. `num_standing`: rows of a window
        that stand, drawn where it is None."""
        counts = [self.rng.choice((0, 0, 1, 5)) for _ in range(self.plan.inventory.num_experts)]
        counts[0] = counts[0] or int(not any(counts))  # a router chooses somebody
        if self.plan.staged:  # and no more than rows of a window may
            chosen = [expert for expert, rows in enumerate(counts) if rows]
            for expert in chosen[: -len(self.plan.verifier.staged)]:
                counts[expert] = 0
        staged = self.payload.host(self.plan.staging.router_counts)
        staged[:] = struct.pack(f"<{len(counts)}i", *counts)
        result = self.payload.host(self.plan.staging.result)
        state = self.runner._state
        num_rows = state.rows if isinstance(state, Windowing) else 1
        words = [self.rng.randrange(self.plan.inventory.vocab_size) for _ in range(RESULT_BYTES // 8)]
        words[programs.SAMPLED_WORD] = self.rng.randint(1, num_rows) if num_standing is None else num_standing
        result[:] = struct.pack(f"<{len(words)}q", *words)
        found = [self.rng.random() for _ in range(programs.MAX_WINDOW_ROWS - 1)]
        struct.pack_into(f"<{len(found)}d", result, 8 * programs.PROBABILITY_WORD, *found)
        self._play_reads()

    def _play_reads(self) -> None:
        inventory, most = self.plan.inventory, self.plan.options.swap_windows
        pairs = ((layer, e) for layer in range(inventory.num_layers) for e in range(inventory.num_experts))
        if self.plan.staging.usage.size_bytes:
            if self.hot is None:
                reads = [self.rng.randint(0, most) if inventory.blob_bytes[layer] else 0 for layer, _ in pairs]
            else:
                reads = [most * (pair in self.hot) for pair in pairs]
            self.payload.host(self.plan.staging.usage)[:] = struct.pack(f"<{len(reads)}i", *reads)

    def serve(self, request: GenerationRequest, *, cancel_after_steps: int | None = None) -> int:
        """Read and answer; the number of sampled tokens."""
        self.runner.begin(request)
        num_sampled = num_steps = 0
        while True:
            self.play()
            num_steps += 1
            is_cancelled = cancel_after_steps is not None and num_steps > cancel_after_steps
            outcome = self.runner.advance(is_cancelled=is_cancelled)
            if isinstance(outcome, HasClosed):
                return num_sampled
            if isinstance(outcome, HasSampled):
                num_sampled += len(outcome.token_ids)
                if num_sampled == request.max_tokens:
                    self.runner.end()
                    return num_sampled
                self.runner.resume(*outcome.token_ids)


def pack_manifest(plan: Plan) -> list[tuple[HostExtent, str]]:
    """What lies where in the pack, by the names of `docs/lending.md`'s words, not by the core's."""
    rows = [(home, f"weight {name}") for name, home in plan.pack.weights.items()]
    for layer, row in enumerate((*plan.pack.blobs, plan.pack.block)):
        rows += [(home, f"blob {layer} {expert}") for expert, home in enumerate(row)]
    return rows


def symbolic_card(
    inventory: ModelInventory,
    options: PlanOptions,
    *,
    arena_bytes: int,
    seed: int = 0,
    faults: Faults | None = None,
    clock: VirtualClock | None = None,
    make_runner: Callable[[Device, Recipe], Runner] | None = None,
) -> Card:
    """Started and idle. `faults` sees every command from the first one on, and so does `clock`."""
    plan = plan_card(inventory, arena_bytes, options)
    assert not isinstance(plan, Refusal), plan
    check_plan(plan)
    description = describe_twin(
        arena_bytes=arena_bytes,
        segment_bytes=options.segment_bytes or SEGMENT_BYTES,
        pack_bytes=plan.pack.size_bytes,
        pageable_pack_bytes=plan.pack.pageable_bytes,
        staging_bytes=plan.staging.size_bytes,
        behind_bytes=plan.behind_bytes,
        parked_bytes=parked_space_bytes(plan),
    )
    payload = SymbolicPayload(description)
    commands: list[Command] = []

    def watch(index: int, command: Command):  # type: ignore[no-untyped-def]
        commands.append(command)
        return faults(index, command) if faults else None

    programs = {name: lambda memory, args: None for name in PROGRAMS}
    device = SimDevice(description, programs, payload, faults=watch, manifest=pack_manifest(plan), clock=clock)
    device.seal()
    recipe = Recipe(plan, dense_reads(inventory))
    if make_runner is None:
        runner = Runner(device, recipe, terminators=(1, 2), pause=lambda: None)
    else:
        runner = make_runner(device, recipe)
    runner.start()
    return Card(plan, device, payload, runner, random.Random(seed), commands)


def prompt(num_tokens: int, *, max_tokens: int = 2, first: int = 0) -> GenerationRequest:
    """Prompts with different `first` share no prefix, so neither can take over anything from the other."""
    return GenerationRequest("r", tuple((first + i) % 31 for i in range(num_tokens)), max_tokens)
