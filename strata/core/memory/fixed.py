"""Regions whose size does not depend on a read: dense weights, address table, K/V, state, verifier, drafter, heads.

Those that an elastic loan lends come first (`zone.py`); without one the order is that of `NAMES`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from strata.core.extent import Extent
from strata.core.inventory import ModelInventory, WeightItem
from strata.core.memory.bump import Bump
from strata.core.memory.layout import DraftLayout, VerifierLayout, carve_draft, carve_verifier, table_bytes
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions, Region, kv_layout_of

WEIGHTS, DRAFTER, VERIFIER, BLOCK, DRAFT_HEAD, HEAD = "weights", "drafter", "verifier", "block", "draft head", "head"
DRAFT = "draft"
"""What the drafter works in."""
NAMES = (WEIGHTS, "table", "kv", "state", VERIFIER, DRAFT, DRAFTER, BLOCK, DRAFT_HEAD, HEAD)


@dataclass(frozen=True, slots=True)
class FixedRegions:
    """`owners[name]`: the region that a dense tensor lies in. `kv` and `state` have one extent a layer, empty where its
    state is of the other kind. `block`: the drafter's experts, 0 bytes without one. `lent`: the names of the regions in
    front, which an elastic loan lends. `draft` is None where nothing drafts; else K/V of the drafter is the last of
    `kv`, and what it has of the last token the last of `state`."""

    weights: Mapping[str, Extent]
    owners: Mapping[str, str]
    table: Extent
    kv: tuple[Extent, ...]
    state: tuple[Extent, ...]
    verifier: VerifierLayout
    draft: DraftLayout | None
    block: Extent
    regions: tuple[Region, ...]
    lent: tuple[str, ...]

    @property
    def end_bytes(self) -> int:
        return self.regions[-1].extent.end_bytes


def carve_fixed(inventory: ModelInventory, options: PlanOptions) -> FixedRegions:
    bump, regions = Bump(), list[Region]()
    lent = lent_regions(options.policy)
    dense = _dense_items(inventory, options.policy)
    weights: dict[str, Extent] = {}
    drafts = inventory.drafter is not None and options.window_rows > 1
    for name in (*lent, *(name for name in NAMES if name not in lent)):
        start = bump.offset_bytes
        match name:
            case "table":
                table = bump.take(table_bytes(inventory))
            case "kv":
                kv = _carve_kv(bump, inventory, options, drafts=drafts)
            case "state":
                state = tuple(bump.take(size_bytes) for size_bytes in _state_bytes(inventory, drafts=drafts))
            case "verifier":
                verifier = carve_verifier(bump, inventory, options)
            case "draft":
                draft = carve_draft(bump, inventory, max_rows=options.window_rows) if drafts else None
            case "block":
                block = bump.take(inventory.drafter.block_bytes if inventory.drafter else 0)
            case _:
                weights |= {item.name: bump.take(item.size_bytes) for item in dense[name]}
        regions.append(Region(name, Extent(start, bump.offset_bytes - start)))
    owners = {item.name: name for name, items in dense.items() for item in items}
    return FixedRegions(weights, owners, table, kv, state, verifier, draft, block, tuple(regions), lent)


def lent_regions(policy: LendingPolicy) -> tuple[str, ...]:
    """The regions that the elastic loan takes, in the order of release (`lending.md` 3.2)."""
    if not policy.is_elastic:
        return ()
    drafting = (BLOCK, DRAFT_HEAD) if policy.lends_block else ()
    return (VERIFIER, *drafting, *((HEAD,) if policy.lends_head else ()))


def _dense_items(inventory: ModelInventory, policy: LendingPolicy) -> dict[str, tuple[WeightItem, ...]]:
    """Dense tensors by the region they lie in; the output head has one of its own only where it is lent."""
    heads = inventory.heads if policy.lends_head else ()
    drafter = inventory.drafter
    return {
        WEIGHTS: tuple(item for item in inventory.weights if item.name not in heads),
        DRAFTER: drafter.weights if drafter else (),
        DRAFT_HEAD: drafter.heads if drafter else (),
        HEAD: tuple(item for item in inventory.weights if item.name in heads),
    }


def _carve_kv(bump: Bump, inventory: ModelInventory, options: PlanOptions, *, drafts: bool) -> tuple[Extent, ...]:
    layer_bytes = kv_layout_of(inventory, options).size_bytes
    trunk = [0 if inventory.is_recurrent(layer) else layer_bytes for layer in range(inventory.num_layers)]
    return tuple(bump.take(size_bytes) for size_bytes in (*trunk, *((layer_bytes,) if drafts else ())))


def _state_bytes(inventory: ModelInventory, *, drafts: bool) -> tuple[int, ...]:
    """Of each layer, and where something drafts, of the drafter: where state cannot be rewound, the hidden row of the
    last token, which the next one makes a pair."""
    trunk = inventory.state_bytes or (0,) * inventory.num_layers
    row_bytes = inventory.hidden_size * inventory.activation_bytes if any(trunk) else 0
    return (*trunk, *((row_bytes,) if drafts else ()))
