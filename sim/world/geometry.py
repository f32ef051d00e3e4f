"""The shape of one small world: a model of sizes, a card, and what the planner is asked for.

Values only, so that a trace can carry them. Chooses nothing: whoever draws worlds says every number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from strata.core import programs
from strata.core.errors import Refusal
from strata.core.inventory import DrafterInventory, ModelInventory, WeightItem
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import NEVER, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.workspace import Work, WorkArea
from strata.plan_check import check_plan

HIDDEN_SIZE = 4
VOCAB_SIZE = 257
STATE_BYTES = 16
"""Of a recurrent layer of `programs.py`: the position it stands at, and a hash of the ids before it. A row of its
journal is the state behind that row."""
FEW_TOKENS = (3, 3, 3, 4, 4, 2)
"""Where windows may have several rows, a reply consists of these, so that it often says again what was said; one of
them is a terminator."""
SLOT_GRID_BYTES = 256
MAX_EXPERTS = 32
"""The model of `programs.py` keeps a set of experts in 32 bits."""
EMBEDDING, HEAD = "token_embd.weight", "output.weight"


class Delivery(StrEnum):
    """When the host learns what is over. Any of them is legal; within one stream the order is kept."""

    ALL = "all"  # at once
    ONE = "one"  # one event a call, oldest first
    CROSSED = "crossed"  # one event a call, from the stream that was notified last
    DRAWN = "drawn"  # once the streams got there: bytes change when a stream goes on, and decisions say which one does


@dataclass(frozen=True, slots=True)
class Geometry:
    """`blob_bytes[layer]` is 0 for a dense layer; None lets the planner choose, as in `PlanOptions`. `recurrent`: the
    layers that have state in place of K/V, for which there are `num_checkpoints` slots. The drafter has
    `drafter_experts` experts, none without one; `head_bytes` and `draft_head_bytes` are 0 where there is no such head.
    What follows is what `LendingPolicy` says, and by default nothing but cache slots is lent. Then what programs of a
    chunk work in, bytes a row, whether that comes out of the tail of a loan, how many fresh tokens windows read, and
    how many blobs of the cache are exchanged every `swap_windows` windows; `window_rows`: how many rows a window may
    have; a drafter fills them with drafts that it finds likely by `least_draft_percent` or more. `pinned_bytes` of the
    pack are pinned, None: all; its router may choose all experts, so a token uses as many then. Last, cards: `splits`
    are the first layers of all stages but the first, () for one card; `arenas` their bytes, `arena_bytes` being the
    first one's. `first_layer` and `has_head` are those of a part."""

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
    num_checkpoints: int = 0
    drafter_experts: int = 0
    drafter_blob_bytes: int = 0
    draft_head_bytes: int = 0
    head_bytes: int = 0
    room_min_tokens: int = NEVER
    is_elastic: bool = False
    lends_block: bool = False
    lends_head: bool = False
    retains_startup: bool = False
    repeat_min_tokens: int = NEVER
    mixer_work_bytes: int = 0
    moe_work_bytes: int = 0
    ffn_work_bytes: int = 0
    has_slab: bool = False
    short_read_tokens: int = 0
    num_swaps: int = 0
    swap_windows: int = 1
    window_rows: int = 1
    least_draft_percent: int = 0
    pinned_bytes: int | None = None
    splits: tuple[int, ...] = ()
    arenas: tuple[int, ...] = ()
    first_layer: int = 0
    has_head: bool = True

    def parts(self) -> "tuple[Geometry, ...]":
        """One world a stage: its layers, numbered from 0, on its card."""
        starts, ends = (0, *self.splits), (*self.splits, self.num_layers)
        sides = zip(starts, ends, (self.arena_bytes, *self.arenas), strict=True)
        return tuple(self._part(start, end, arena_bytes) for start, end, arena_bytes in sides)

    def _part(self, start: int, end: int, arena_bytes: int) -> "Geometry":
        part = replace(
            self,
            blob_bytes=self.blob_bytes[start:end],
            recurrent=tuple(layer - start for layer in self.recurrent if start <= layer < end),
            arena_bytes=arena_bytes,
            splits=(),
            arenas=(),
            first_layer=start,
            has_head=end == self.num_layers,
        )
        if part.has_head:
            return part
        return replace(
            part, head_bytes=0, drafter_experts=0, drafter_blob_bytes=0, draft_head_bytes=0, room_min_tokens=NEVER
        )

    @property
    def embeddings(self) -> tuple[WeightItem, ...]:
        """The last part has them too where they are the head."""
        has_some = self.first_layer == 0 or (self.has_head and not self.head_bytes)
        return (WeightItem(EMBEDDING, 496),) if has_some else ()

    @property
    def work_bytes(self) -> dict[str, int]:
        """Program -> bytes a row that it works in beside its buffers, of those that need any."""
        rows = (
            ((programs.ATTENTION, programs.RECURRENT), self.mixer_work_bytes),
            ((programs.ROUTER, programs.EXPERTS), self.moe_work_bytes),
            ((programs.FFN,), self.ffn_work_bytes),
        )
        return {name: size_bytes for names, size_bytes in rows if size_bytes for name in names}

    @property
    def has_work(self) -> bool:
        """Whether any program needs some."""
        return bool(self.mixer_work_bytes or self.moe_work_bytes or self.ffn_work_bytes)

    def is_recurrent(self, layer: int) -> bool:
        return layer in self.recurrent

    @property
    def slot_bytes(self) -> int:
        """What a checkpoint takes, on a grid."""
        return -(-self.state_bytes // SLOT_GRID_BYTES) * SLOT_GRID_BYTES

    @property
    def state_bytes(self) -> int:
        """Of all recurrent layers, and of what the drafter keeps beside them."""
        num_recurrent = sum(self.is_recurrent(layer) for layer in range(len(self.blob_bytes)))
        return STATE_BYTES * num_recurrent + self.kept_row_bytes

    @property
    def kept_row_bytes(self) -> int:
        """Of the hidden row of the last token, which a drafter has where that token is not read again."""
        return 4 * HIDDEN_SIZE if self.drafts and not self.can_rewind else 0

    @property
    def num_experts_used(self) -> int:
        return 2 if self.pinned_bytes is None else self.num_experts

    @property
    def can_rewind(self) -> bool:
        """Whether a conversation can be taken up before its end."""
        return not any(self.is_recurrent(layer) for layer in range(len(self.blob_bytes)))

    @property
    def drafts(self) -> bool:
        """Whether the drafter drafts, and so has cells of its own."""
        return self.drafter_experts > 0 and self.window_rows > 1

    @property
    def num_caches(self) -> int:
        """Layers that have K/V, the drafter's included."""
        return sum(not self.is_recurrent(layer) for layer in range(self.num_layers)) + self.drafts

    @property
    def num_layers(self) -> int:
        return len(self.blob_bytes)

    @property
    def layers(self) -> range:
        """By their numbers in the model."""
        return range(self.first_layer, self.first_layer + self.num_layers)

    @property
    def draft_weights(self) -> tuple[WeightItem, ...]:
        return (WeightItem(f"blk.{self.num_layers}.attn", 90),) if self.drafter_experts else ()

    @property
    def draft_heads(self) -> tuple[WeightItem, ...]:
        return (WeightItem(f"blk.{self.num_layers}.head", self.draft_head_bytes),) if self.draft_head_bytes else ()

    @property
    def heads(self) -> tuple[WeightItem, ...]:
        return (WeightItem(HEAD, self.head_bytes),) if self.head_bytes else ()

    def policy(self) -> LendingPolicy:
        return LendingPolicy(
            room_min_tokens=self.room_min_tokens,
            is_elastic=self.is_elastic,
            lends_block=self.lends_block,
            lends_head=self.lends_head,
            retains_startup=self.retains_startup,
            repeat_min_tokens=self.repeat_min_tokens,
            short_read_tokens=self.short_read_tokens,
        )

    def drafter(self) -> DrafterInventory | None:
        if not self.drafter_experts:
            return None
        return DrafterInventory(self.drafter_experts, self.drafter_blob_bytes, self.draft_weights, self.draft_heads)

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
            num_experts_used=self.num_experts_used,
            weights=(
                *self.embeddings,
                *(WeightItem(f"blk.{layer}", 100 + layer) for layer in self.layers),
                *self.heads,
            ),
            blob_bytes=self.blob_bytes,
            journal_bytes=STATE_BYTES,
            state_bytes=tuple(STATE_BYTES * self.is_recurrent(layer) for layer in range(len(self.blob_bytes))),
            drafter=self.drafter(),
            heads=tuple(item.name for item in self.heads),
            prompt_work=tuple(_work(self.work_bytes)),
            first_layer=self.first_layer,
            has_head=self.has_head,
        )

    def plan(self) -> Plan | Refusal:
        return _plan(self)


def _work(work_bytes: Mapping[str, int]) -> Iterator[Work]:
    """Router and experts share what they work in; others have their own."""
    for names in ((programs.ATTENTION,), (programs.RECURRENT,), (programs.ROUTER, programs.EXPERTS), (programs.FFN,)):
        if names[0] in work_bytes:
            yield Work(names, (WorkArea("work", work_bytes[names[0]]),))


OTHER_OPTIONS: tuple[Mapping[str, Any], ...] = (
    {},
    {"ring_slots": 2},
    {"ring_slots": None},
    {"max_chunk_tokens": 256},
    {"num_cache_slots": None, "min_cache_slots": 1},
    {"num_cache_slots": 6},
    {"is_reread": True},
    {"is_reread": False, "room_min_tokens": NEVER},
    {"room_min_tokens": 0},
    {"is_elastic": False, "lends_block": False, "lends_head": False, "repeat_min_tokens": NEVER},
    {"retains_startup": False, "repeat_min_tokens": 2},
    {"parked_bytes": 0},
    {"num_swaps": 2, "swap_windows": 1},
    {"num_swaps": 0},
)
"""What the next start on the same pack may ask for in another way; what lies in a pack are model and drafter alone."""


def with_other_options(geometry: Geometry, pick: int) -> Geometry | None:
    """None where they have no plan on this card."""
    other = replace(geometry, **OTHER_OPTIONS[pick % len(OTHER_OPTIONS)])
    if other.repeat_min_tokens != NEVER and not other.is_elastic:
        return None
    if other.room_min_tokens != NEVER and not other.drafter_experts:
        return None
    before, plan = geometry.plan(), other.plan()
    assert not isinstance(before, Refusal), before
    if isinstance(plan, Refusal) or (geometry.pinned_bytes is not None and plan.pack != before.pack):
        return None  # what comes first where not all is pinned depends on the slots
    return other


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
        window_rows=geometry.window_rows,
        parked_bytes=geometry.parked_bytes,
        checkpoint_bytes=geometry.num_checkpoints * geometry.slot_bytes,
        is_reread=geometry.is_reread,
        policy=geometry.policy(),
        segment_bytes=geometry.segment_bytes,
        has_slab=geometry.has_slab,
        num_swaps=geometry.num_swaps,
        swap_windows=geometry.swap_windows,
        least_probability=geometry.least_draft_percent / 100,
        pinned_bytes=geometry.pinned_bytes,
    )
    plan = plan_card(geometry.inventory(), geometry.arena_bytes, options)
    if isinstance(plan, Plan):
        check_plan(plan)
    return plan
