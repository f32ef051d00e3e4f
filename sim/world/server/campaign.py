"""Worlds from consecutive seeds until so many steps are done, and what came of them. A step is one act of a client.

The digest is of all worlds together, each with everything that happened in it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from sim.world.server.draw import draw_world
from sim.world.server.world import run_world

SOMETIMES = (
    "whole reply",
    "stream",
    "queue_full",
    "overloaded",
    "too_many_connections",
    "shutting_down",
    "engine_error",
    "stream, then engine_error",
    "stream, then shutting_down",
    "connection refused",
    "left before its end",
    "left in stream before its end",
    "half-closed before its end",
    "stalled, stream",
    "stalled, stream cut, reset",
    "/ready stuck",
    "half a body: 408",
    "too long a body: 413",
    "endless head: 431",
    "not a word: 0",
    "a comment in a stream",
    "a stream ends well while draining",
    "bytes lent",
    "prefix reused",
    "device lost",
    "device lost at start",
    "stopped at once",
    "failure survived",
)
"""What a long campaign has seen; a name that never held shows that worlds are drawn too narrowly."""


@dataclass(slots=True)
class Campaign:
    """`faults_found`: seed -> what was wrong in its world."""

    seed: int
    num_worlds: int = 0
    num_steps: int = 0
    virtual_s: float = 0.0
    num_failures: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    sometimes: Counter[str] = field(default_factory=Counter)
    faults_found: dict[int, tuple[str, ...]] = field(default_factory=dict)
    digest: str = ""

    def report(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "worlds": self.num_worlds,
            "steps": self.num_steps,
            "virtual_seconds": round(self.virtual_s, 6),
            "requests": dict(sorted(self.outcomes.items())),
            "failures_fired": self.num_failures,
            "sometimes": dict(sorted(self.sometimes.items())),
            "never": never_held(self.outcomes + self.sometimes),
            "faults_found": {str(seed): list(found) for seed, found in self.faults_found.items()},
            "digest": self.digest,
        }


def never_held(counts: Mapping[str, int]) -> list[str]:
    return [name for name in SOMETIMES if not counts.get(name)]


def run_campaign(*, seed: int, steps: int, sink: Callable[[str], None] | None = None) -> Campaign:
    """Worlds from `seed` on, until they had at least `steps` steps together."""
    campaign, everything = Campaign(seed), sha256()
    while campaign.num_steps < steps:
        world_seed = seed + campaign.num_worlds
        plan = draw_world(world_seed)
        outcome = run_world(plan, sink)
        everything.update(outcome.digest.encode())
        campaign.num_worlds += 1
        campaign.num_steps += plan.num_steps
        campaign.virtual_s += outcome.virtual_s
        campaign.num_failures += outcome.num_failures
        campaign.outcomes += outcome.tally.outcomes
        campaign.sometimes += outcome.tally.sometimes
        if outcome.faults_found:
            campaign.faults_found[world_seed] = outcome.faults_found
    campaign.digest = everything.hexdigest()
    return campaign
