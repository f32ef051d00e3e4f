"""The workspaces of a card's programs: which areas each needs beside the buffers of its pass, and how large they are.

    attention   the normed rows; angles; in a window, partial results of each split of the keys
    moe         router, shared expert and experts together: what the router sorted is used by the experts' launches
    recurrent   the normed rows; projections key head by key head; the convolution's output; what goes out
    ffn         of a dense layer
    sample      of each row of a window
    draft input, draft head     of a drafter; its layer has areas of the kinds above, in sizes of its own

Prices of what `strata.cuda.programs` takes by name. Knows the kernels' fixed sizes; needs no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.triton.sizes import DELTA_BLOCK_ROWS, DOWN_GROUPED, PAIR_BLOCK, SAMPLE_BLOCK, SEARCH_STEPS, SPLIT_KEYS
from strata.core import programs
from strata.core.workspace import Work, WorkArea, Workspace
from strata.model.program_reads import layer_tensor
from strata.model.spec import BlobLayout, ModelSpec, TensorInfo

HALF, FLOAT, DOUBLE, INT, LONG = 2, 4, 8, 4, 8  # bytes
_SHARED_GATE = ".ffn_gate_shexp.weight"


PROGRAMS_OF = {
    "attention": (programs.ATTENTION, programs.DRAFT_KV),
    "recurrent": (programs.RECURRENT,),
    "moe": (programs.ROUTER, programs.SHARED, programs.EXPERTS),
    "ffn": (programs.FFN,),
    "draft input": (programs.DRAFT_INPUT,),
}
"""Which programs of a chunk work in each."""


@dataclass(frozen=True, slots=True)
class CardWork:
    """Of the programs in a chunk, in a window and in a draft, by their kind; `draft` is empty without a drafter."""

    prompt: Mapping[str, Workspace]
    window: Mapping[str, Workspace]
    draft: Mapping[str, Workspace]

    @property
    def of_chunks(self) -> tuple[Work, ...]:
        """What programs of a chunk work in, as the planner is told."""
        return tuple(Work(PROGRAMS_OF[name], areas) for name, areas in self.prompt.items())


def card_work(spec: ModelSpec, *, context_tokens: int) -> CardWork:
    prompt = {"attention": _prompt_attention(spec)}
    window = {"attention": _window_attention(spec, context_tokens), "sample": _sample(spec)}
    if spec.recurrent is not None:
        prompt["recurrent"] = _recurrent(spec, HALF, block_rows=DELTA_BLOCK_ROWS)
        window["recurrent"] = _recurrent(spec, FLOAT, block_rows=0)
    if any(spec.blobs):
        prompt["moe"] = _prompt_moe(spec)
        window["moe"] = _window_moe(spec, spec.dense, spec.blobs, num_experts=spec.num_experts)
    if ffn_size := _dense_ffn_size(spec):
        prompt["ffn"], window["ffn"] = _ffn(spec, ffn_size, HALF), _ffn(spec, ffn_size, FLOAT)
    if spec.drafter is not None:
        prompt["draft input"] = _draft_input(spec, HALF)
    return CardWork(prompt, window, _draft(spec, window["attention"]))


def _draft(spec: ModelSpec, attention: Workspace) -> Mapping[str, Workspace]:
    drafter = spec.drafter
    if drafter is None:
        return {}
    if drafter.blob is None:
        ffn_size = drafter.dense[layer_tensor(spec.num_layers, "ffn_gate.weight")].shape[1]
        ffn = {"ffn": _ffn(spec, ffn_size, FLOAT)}
    else:
        ffn = {"moe": _window_moe(spec, drafter.dense, (drafter.blob,), num_experts=drafter.num_experts)}
    return {
        "draft input": _draft_input(spec, FLOAT),
        "attention": attention,
        **ffn,
        "draft head": _draft_head(spec),
    }


def _draft_input(spec: ModelSpec, x_bytes: int) -> Workspace:
    return (WorkArea("pair", x_bytes * 2 * spec.hidden_size),)


def _draft_head(spec: ModelSpec) -> Workspace:
    blocks = -(-spec.vocab_size // SAMPLE_BLOCK)
    return (
        WorkArea("highest", 0, FLOAT * blocks),
        WorkArea("sums", 0, FLOAT * blocks),
        WorkArea("where", 0, INT * blocks),
    )


def _prompt_attention(spec: ModelSpec) -> Workspace:
    return (
        WorkArea("x", HALF * spec.hidden_size),
        WorkArea("angles", FLOAT * spec.rope.num_dims),
        *_query_gate(spec),
    )


def _window_attention(spec: ModelSpec, context_tokens: int) -> Workspace:
    splits = -(-context_tokens // SPLIT_KEYS)
    return (
        WorkArea("x", FLOAT * spec.hidden_size),
        WorkArea("angles", FLOAT * spec.rope.num_dims),
        WorkArea("part_out", FLOAT * splits * spec.num_heads * spec.head_dim),
        WorkArea("part_state", FLOAT * 2 * splits * spec.num_heads),
        *_query_gate(spec),
    )


def _query_gate(spec: ModelSpec) -> Workspace:
    """Queries as projected, each with its gate behind it."""
    if not spec.has_attention_gate:
        return ()
    return (WorkArea("query_gate", FLOAT * 2 * spec.num_heads * spec.head_dim),)


def _recurrent(spec: ModelSpec, x_bytes: int, *, block_rows: int) -> Workspace:
    """What a chunk's blocks of rows are solved to lies over the projections, which are done with by then."""
    shape = spec.recurrent
    assert shape is not None
    solved = shape.num_value_heads * (shape.head_width + block_rows)
    return (
        WorkArea("x", x_bytes * spec.hidden_size),
        WorkArea("interleaved", FLOAT * max(shape.num_channels + shape.value_width, solved)),
        WorkArea("mixed", FLOAT * shape.num_channels),
        WorkArea("act", x_bytes * shape.value_width),
    )


def _prompt_moe(spec: ModelSpec) -> Workspace:
    used, experts = spec.num_experts_used, spec.num_experts
    tile_rows = DOWN_GROUPED.block_rows
    return (
        WorkArea("x", FLOAT * spec.hidden_size),
        WorkArea("logits", FLOAT * experts),
        # int32 [blocks of pairs, experts]: one block more than whole ones
        WorkArea("counts", -(-INT * used * experts // PAIR_BLOCK), INT * experts),
        WorkArea("starts", 0, INT * (experts + 1)),
        WorkArea("sorted_pairs", INT * used),
        # int32 [tiles, 4]: of each expert, one tile more than whole ones
        WorkArea("tiles", -(-4 * INT * used // tile_rows), 4 * INT * (experts + 1)),
        WorkArea("num_tiles", 0, INT),
        WorkArea("selected", 0, experts),
        WorkArea("act", HALF * used * _expert_ffn_size(spec.blobs)),
        *_shared(spec, spec.dense, HALF),
    )


def _window_moe(
    spec: ModelSpec, dense: Mapping[str, TensorInfo], blobs: tuple[BlobLayout | None, ...], *, num_experts: int
) -> Workspace:
    return (
        WorkArea("logits", FLOAT * num_experts),
        WorkArea("act", FLOAT * spec.num_experts_used * _expert_ffn_size(blobs)),
        *_shared(spec, dense, FLOAT),
    )


def _shared(spec: ModelSpec, dense: Mapping[str, TensorInfo], act_bytes: int) -> Workspace:
    """Of the shared expert, which runs between a layer's router and its experts; () where no layer has one."""
    ffn_size = max((info.shape[1] for name, info in dense.items() if name.endswith(_SHARED_GATE)), default=0)
    if not ffn_size:
        return ()
    return (
        WorkArea("shared_gate", FLOAT * ffn_size),
        WorkArea("shared_up", FLOAT * ffn_size),
        WorkArea("shared_act", act_bytes * ffn_size),
        WorkArea("shared_out", FLOAT * spec.hidden_size),
        WorkArea("shared_share", FLOAT),
    )


def _ffn(spec: ModelSpec, ffn_size: int, x_bytes: int) -> Workspace:
    return (
        WorkArea("x", x_bytes * spec.hidden_size),
        WorkArea("gate", FLOAT * ffn_size),
        WorkArea("up", FLOAT * ffn_size),
        WorkArea("act", x_bytes * ffn_size),
    )


def _sample(spec: ModelSpec) -> Workspace:
    blocks = -(-spec.vocab_size // SAMPLE_BLOCK)
    return (
        WorkArea("scores", FLOAT * spec.vocab_size),
        WorkArea("highest", FLOAT * blocks),
        WorkArea("best", DOUBLE * blocks),
        WorkArea("where", INT * blocks),
        WorkArea("sums", LONG * 2 * blocks * 16),
        WorkArea("found", LONG * (SEARCH_STEPS + 1)),
        WorkArea("keep", LONG),
    )


def _expert_ffn_size(blobs: tuple[BlobLayout | None, ...]) -> int:
    return max(blob.gate.rows for blob in blobs if blob is not None)


def _dense_ffn_size(spec: ModelSpec) -> int:
    """Of the widest layer without experts; 0 when there is none."""
    names = (layer_tensor(layer, "ffn_gate.weight") for layer, blob in enumerate(spec.blobs) if blob is None)
    return max((spec.dense[name].shape[1] for name in names), default=0)
