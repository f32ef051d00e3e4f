"""What the planner knows of a model: sizes, never contents. Made by `strata.model.inventory` from a GGUF file."""

from dataclasses import dataclass
from enum import StrEnum

from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up
from strata.core.workspace import Work, Workspace


class StateKind(StrEnum):
    """What a model remembers of the tokens before: everything a conversation consists of, on the card."""

    KV = "kv"  # a cell for each position: forgetting the last cells goes back to any position before
    PAIRS = "pairs"  # the drafter's cells: each is made with the token behind it, so the last one kept is not sure
    RECURRENT = "recurrent"  # all positions folded into one value: there is no way back but a copy made in time


@dataclass(frozen=True, slots=True)
class WeightItem:
    """One dense tensor in the form it lies in the file. `name` is its GGUF name."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DrafterInventory:
    """The NextN block behind the trunk. `num_experts` routed experts of `blob_bytes` each lie one behind the other on
    the 256-byte grid and are the *block* of `lending.md` 2. `weights`: its dense tensors, which are never lent;
    `heads`: the tensors of its own draft head, () where it uses the model's."""

    num_experts: int
    blob_bytes: int
    weights: tuple[WeightItem, ...]
    heads: tuple[WeightItem, ...] = ()

    @property
    def slot_bytes(self) -> int:
        """The distance between two experts of the block."""
        return align_up(self.blob_bytes, SLOT_ALIGNMENT_BYTES)

    @property
    def block_bytes(self) -> int:
        return self.num_experts * self.slot_bytes


@dataclass(frozen=True, slots=True)
class ModelInventory:
    """`blob_bytes[layer]` is the size of one routed expert's blob in that layer, 0 for a layer without experts.
    Trunk layers only; `drafter` is None unless one was asked for. `heads`: the names in `weights` of the output head of
    its own, () where it is tied to the embedding. `activation_bytes` is 4 on the CPU reference. `prompt_work`,
    `window_work` and `draft_work`: the workspaces of programs in a chunk, a window and a draft, () on the CPU
    reference, whose working memory is torch's.

    `state_bytes[layer]` is what a recurrent layer has in place of K/V, and 0 for a layer that attends; () where all of
    them do. `mixer_floats`: numbers a row that the widest layer works in before its FFN; None: query, key, value and
    output of plain attention. `journal_bytes`: what a recurrent layer notes of one row of a window that may be taken
    back (`strata.core.programs`).

    Of a *part*, one stage's layers, numbered from 0: `first_layer` is where they begin in the model, and `has_head`
    says whether they are its last ones. Only the first part embeds, only the last samples and has a drafter."""

    architecture: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_tokens: int
    num_experts: int
    num_experts_used: int
    weights: tuple[WeightItem, ...]
    blob_bytes: tuple[int, ...]
    activation_bytes: int = 4
    drafter: DrafterInventory | None = None
    heads: tuple[str, ...] = ()
    prompt_work: tuple[Work, ...] = ()
    window_work: tuple[Workspace, ...] = ()
    draft_work: tuple[Workspace, ...] = ()
    state_bytes: tuple[int, ...] = ()
    mixer_floats: int | None = None
    journal_bytes: int = 0
    first_layer: int = 0
    has_head: bool = True

    @property
    def state_kinds(self) -> frozenset[StateKind]:
        """Every kind of state that some layer has."""
        kinds = {size > 0 for size in self.state_bytes} or {False}
        return frozenset(StateKind.RECURRENT if is_recurrent else StateKind.KV for is_recurrent in kinds)

    def is_recurrent(self, layer: int) -> bool:
        return bool(self.state_bytes) and self.state_bytes[layer] > 0

    @property
    def mixer_bytes(self) -> int:
        """Of one row, in the widest layer."""
        floats = self.mixer_floats
        if floats is None:
            floats = 2 * (self.num_heads + self.num_kv_heads) * self.head_dim
        return floats * self.activation_bytes

    @property
    def num_moe_layers(self) -> int:
        return sum(size > 0 for size in self.blob_bytes)

    @property
    def num_pairs(self) -> int:
        """(layer, expert) pairs: how many blobs there are."""
        return self.num_moe_layers * self.num_experts

    @property
    def max_blob_bytes(self) -> int:
        """MAXBLOB of `lending.md` 2; 0 in a dense model."""
        return max(self.blob_bytes, default=0)

    @property
    def stride_bytes(self) -> int:
        """MAXBLOB on the 256-byte grid: the distance between ring slots."""
        return align_up(self.max_blob_bytes, SLOT_ALIGNMENT_BYTES)

    @property
    def expert_bytes(self) -> int:
        return sum(self.blob_bytes) * self.num_experts

    @property
    def dense_bytes(self) -> int:
        return sum(item.size_bytes for item in self.weights)
