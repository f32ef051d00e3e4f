"""Cutting buffers out of bytes by bumping. Price is carve: one function gives both the extents and, run from offset
0, the bytes that they take, so the two can never disagree (`lending.md` 5, invariant 11).

    prompt arena:  header | tokens | hidden | normed | attention | router ... | expert rows | addresses | ring | slab
    verifier:      the same pass buffers for one window, scratch | logits | sampler inputs | result | journals
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from strata.core.commands import Access
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.bump import Bump, Gauge
from strata.core.memory.scratch import SCRATCH, SLAB_OWNER, carve_scratch
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import HEADER_BYTES, RESULT_BYTES, DraftBuffers, PassBuffers, WindowBuffers
from strata.core.serving.request import SAMPLING_BYTES
from strata.core.workspace import Workspace, price_workspaces

INT32_BYTES = 4
INT64_BYTES = 8
FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """Everything a prompt chunk works in. `addresses`: int64 [num_layers, num_experts], where the chunk under way reads
    each blob; 0 bytes in a dense model. `ring` may be empty when every expert is resident. `scratch`: by program, what
    it works in beside these; `slab_bytes` of it lie behind the ring, in the bytes that the layout was cut from."""

    chunk_tokens: int
    buffers: PassBuffers
    addresses: Extent
    ring: tuple[Extent, ...]
    scratch: Mapping[str, Access]
    slab_bytes: int


@dataclass(frozen=True, slots=True)
class VerifierLayout:
    """Everything decode windows run in, for windows of up to `max_rows` rows. `journals`: one extent a layer, empty for
    a layer that attends, and for all where no window has a row that could be taken back. `staged`: slots for pageable
    blobs of the layer under way, and `addresses`, int64 [num_experts], where it reads each; none where nothing is
    staged."""

    max_rows: int
    buffers: PassBuffers
    window: WindowBuffers
    journals: tuple[Extent, ...]
    addresses: Extent
    staged: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class DraftLayout:
    """Everything the drafter runs in, for the rows of a window."""

    buffers: PassBuffers
    draft: DraftBuffers


def carve_pass(
    bump: Bump, inventory: ModelInventory, *, max_rows: int, work: tuple[Workspace, ...] = ()
) -> PassBuffers:
    """Buffers of one pass over the layers; sizes as `PassBuffers` documents them."""
    element = inventory.activation_bytes
    has_experts = inventory.num_moe_layers > 0
    used = inventory.num_experts_used if has_experts else 0
    return PassBuffers(
        max_rows=max_rows,
        header=bump.take(HEADER_BYTES),
        tokens=bump.take(max_rows * INT32_BYTES),
        hidden=bump.take(max_rows * inventory.hidden_size * element),
        normed=bump.take(max_rows * inventory.hidden_size * element),
        attention=bump.take(max_rows * inventory.mixer_bytes),
        router_ids=bump.take(max_rows * used * INT32_BYTES),
        router_weights=bump.take(max_rows * used * FLOAT_BYTES),
        router_counts=bump.take(inventory.num_experts * INT32_BYTES if has_experts else 0),
        expert_rows=bump.take(max_rows * used * inventory.hidden_size * element),
        next_tokens=bump.take(max_rows * INT32_BYTES if inventory.drafter else 0),
        scratch=bump.take(price_workspaces(work, max_rows=max_rows)),
    )


def carve_verifier(bump: Bump, inventory: ModelInventory, options: PlanOptions) -> VerifierLayout:
    """Where blobs are exchanged, windows count those that they read."""
    max_rows, num_staged = options.window_rows, options.num_staged
    buffers = carve_pass(bump, inventory, max_rows=max_rows, work=inventory.window_work)
    window = WindowBuffers(
        logits=bump.take(max_rows * inventory.vocab_size * FLOAT_BYTES),
        params=bump.take(SAMPLING_BYTES),
        bias=bump.take(inventory.vocab_size * FLOAT_BYTES),
        counts=bump.take(inventory.vocab_size * INT32_BYTES),
        seen=bump.take(inventory.vocab_size),
        terminators=bump.take(inventory.vocab_size),
        result=bump.take(RESULT_BYTES),
        sampled=bump.take(max_rows * INT32_BYTES if inventory.drafter else 0),
        usage=bump.take(table_bytes(inventory) // INT64_BYTES * INT32_BYTES if options.num_swaps else 0),
    )
    journal_bytes = max_rows * inventory.journal_bytes if max_rows > 1 else 0
    layers = range(inventory.num_layers)
    journals = tuple(bump.take(journal_bytes if inventory.is_recurrent(layer) else 0) for layer in layers)
    addresses = bump.take(inventory.num_experts * INT64_BYTES if num_staged else 0)
    staged = tuple(bump.take(inventory.stride_bytes) for _ in range(num_staged))
    return VerifierLayout(max_rows, buffers, window, journals, addresses, staged)


def carve_draft(bump: Bump, inventory: ModelInventory, *, max_rows: int) -> DraftLayout:
    """Not in the verifier's region, which may be lent for longer than the block."""
    assert inventory.drafter is not None
    num_experts = inventory.drafter.num_experts
    sizes = replace(inventory, num_experts=num_experts)
    buffers = carve_pass(bump, sizes, max_rows=max_rows, work=inventory.draft_work)
    logits = bump.take(inventory.vocab_size * FLOAT_BYTES)
    return DraftLayout(buffers, DraftBuffers(logits, bump.take(num_experts * INT64_BYTES)))


def carve_prompt(
    bump: Bump, inventory: ModelInventory, *, chunk_tokens: int, ring_slots: int, scratch: Extent | None
) -> PromptLayout:
    """`scratch`: the region that programs work in; None: they work in the slab, cut from these bytes too."""
    buffers = carve_pass(bump, inventory, max_rows=chunk_tokens)
    addresses = bump.take(table_bytes(inventory))
    stride_bytes = inventory.stride_bytes
    ring = tuple(bump.take(stride_bytes) for _ in range(ring_slots))
    carve_end_bytes = bump.offset_bytes
    place, owner = (bump, SLAB_OWNER) if scratch is None else (Bump(scratch.offset_bytes), SCRATCH)
    work = carve_scratch(place, inventory, chunk_tokens=chunk_tokens, owner=owner)
    return PromptLayout(chunk_tokens, buffers, addresses, ring, work, bump.offset_bytes - carve_end_bytes)


def price_prompt(inventory: ModelInventory, *, chunk_tokens: int, ring_slots: int, has_slab: bool) -> int:
    """Bytes that `carve_prompt` takes on the 256-byte grid, those of the slab with it."""
    bump, scratch = Gauge(), None if has_slab else Extent(0, 0)
    carve_prompt(bump, inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots, scratch=scratch)
    return bump.offset_bytes


def table_bytes(inventory: ModelInventory) -> int:
    """Bytes of an address table: int64 [num_layers, num_experts], rows of dense layers unused."""
    return inventory.num_layers * inventory.num_experts * INT64_BYTES if inventory.num_moe_layers else 0
