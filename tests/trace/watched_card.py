"""A card whose runner is watched, as a server with --trace has it, and which fails when a test says so."""

from pathlib import Path

from sim.symbolic import SymbolicPayload
from sim.world.recording import replay_on_twin
from strata.core.commands import Command
from strata.core.errors import DeviceError
from strata.core.inventory import ModelInventory
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe
from strata.device import Device
from strata.engine.watched import WatchedRunner
from strata.trace.command_trace import CommandTrace, read_trace, sizes_of
from strata.trace.fingerprint import fingerprint_programs
from strata.trace.keeper import Keeper
from strata.trace.naming import plan_facts, plan_places
from strata.trace.replay import Replayed, program_names
from strata.trace.tail import Tail
from tests.engine.symbolic_card import Card, lending_inventory, symbolic_card

OPTIONS = PlanOptions(600, min_cache_slots=4)


class WatchedCard:
    """A card whose runner is watched; `fail` is asked before every command."""

    def __init__(
        self,
        path: Path,
        *,
        max_entries: int = 100_000,
        inventory: ModelInventory | None = None,
        options: PlanOptions = OPTIONS,
        arena_bytes: int = 512 * 1024,
        seed: int = 0,
        fails_at: int | None = None,
    ) -> None:
        self.path, self.said, self.num_commands = path, list[str](), 0
        self.fails_at = fails_at
        self.error: type[Exception] = DeviceError
        self._max_entries = max_entries
        self.card: Card = symbolic_card(
            inventory or lending_inventory(),
            options,
            arena_bytes=arena_bytes,
            seed=seed,
            faults=self._ask,
            make_runner=self._make_runner,
        )

    def _make_runner(self, device: Device, recipe: Recipe) -> WatchedRunner:
        reads = [[program, layer, list(names)] for (program, layer), names in recipe.dense_reads.items()]
        serving = plan_facts(recipe.plan) | {"terminators": [1, 2], "dense_reads": reads}
        tail = Tail(sizes_of(device.describe()), plan_places(recipe.plan), serving, max_entries=self._max_entries)
        keeper = Keeper(device, tail, self.path, self.said.append)
        return WatchedRunner(keeper.device, recipe, (1, 2), lambda: None, keeper)

    def _ask(self, index: int, command: Command) -> None:
        self.num_commands += 1
        if index == self.fails_at:
            raise self.error("the card fell off the bus", command)  # type: ignore[call-arg]

    def trace(self) -> CommandTrace:
        return read_trace(self.path.read_text(encoding="utf-8"))

    def replay(self) -> Replayed:
        trace = self.trace()
        programs = fingerprint_programs(program_names(trace), digest=lambda view: 0, fill=lambda view, seed: None)
        return replay_on_twin(trace, SymbolicPayload, programs, fill_pack=None)
