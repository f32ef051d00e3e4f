"""The shape of one small world: a model of sizes, a card, and what the planner is asked for.

Values only, so that a trace can carry them. Chooses nothing: whoever draws worlds says every number.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from strata.core.errors import Refusal
from strata.core.inventory import ModelInventory, WeightItem
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions

HIDDEN_SIZE = 4
VOCAB_SIZE = 257
STATE_BYTES = 16
"""Of a recurrent layer of `programs.py`: the position it stands at, and a hash of the ids before it."""
MAX_EXPERTS = 32
"""The model of `programs.py` keeps a set of experts in 32 bits."""


class Delivery(StrEnum):
    """When the host learns what is over. Any of them is legal; within one stream the order is kept."""

    ALL = "all"  # at once
    ONE = "one"  # one event a call, oldest first
    CROSSED = "crossed"  # one event a call, from the stream that was notified last
    DRAWN = "drawn"  # once the streams got there: bytes change when a stream goes on, and decisions say which one does


@dataclass(frozen=True, slots=True)
class Geometry:
    """`blob_bytes[layer]` is 0 for a dense layer; None lets the planner choose, as in `PlanOptions`. `recurrent`: the
    layers that have state in place of K/V."""

    blob_bytes: tuple[int, ...]
    num_experts: int
    context_tokens: int
    arena_bytes: int
    segment_bytes: int
    chunk_tokens: int | None = None
    max_chunk_tokens: int | None = None
    ring_slots: int | None = None
    num_cache_slots: int | None = None
    min_cache_slots: int | None = None
    parked_bytes: int = 0
    is_reread: bool = False
    delivery: Delivery = Delivery.ALL
    recurrent: tuple[int, ...] = ()

    def is_recurrent(self, layer: int) -> bool:
        return layer in self.recurrent

    @property
    def can_rewind(self) -> bool:
        """Whether a conversation can be taken up before its end."""
        return not any(self.is_recurrent(layer) for layer in range(len(self.blob_bytes)))

    def inventory(self) -> ModelInventory:
        """One head, two floats a head: a K/V cell is four bytes of K and four of V."""
        assert self.num_experts <= MAX_EXPERTS, self.num_experts
        return ModelInventory(
            architecture="world",
            num_layers=len(self.blob_bytes),
            hidden_size=HIDDEN_SIZE,
            num_heads=1,
            num_kv_heads=1,
            head_dim=2,
            vocab_size=VOCAB_SIZE,
            context_tokens=self.context_tokens,
            num_experts=self.num_experts,
            num_experts_used=2,
            weights=(
                WeightItem("token_embd.weight", 496),
                *(WeightItem(f"blk.{layer}", 100 + layer) for layer in range(len(self.blob_bytes))),
            ),
            blob_bytes=self.blob_bytes,
            state_bytes=tuple(STATE_BYTES * self.is_recurrent(layer) for layer in range(len(self.blob_bytes))),
        )

    def plan(self) -> Plan | Refusal:
        return _plan(self)


@lru_cache(maxsize=16)
def _plan(geometry: Geometry) -> Plan | Refusal:
    """Asked for by whoever draws a geometry, and again by whoever makes a card of it."""
    options = PlanOptions(
        geometry.context_tokens,
        chunk_tokens=geometry.chunk_tokens,
        max_chunk_tokens=geometry.max_chunk_tokens,
        ring_slots=geometry.ring_slots,
        num_cache_slots=geometry.num_cache_slots,
        min_cache_slots=geometry.min_cache_slots,
        parked_bytes=geometry.parked_bytes,
        is_reread=geometry.is_reread,
    )
    return plan_card(geometry.inventory(), geometry.arena_bytes, options)
