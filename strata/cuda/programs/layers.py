"""The dense programs of a pass on a card: embed, attention, ffn. Rules of all programs here: work is queued on the
current stream and nothing is waited for, looked at or allocated, so a window can be captured as it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from kernels.triton import launch_attention, launch_dense, launch_rows
from kernels.triton.launch_attention import KvLayer
from kernels.triton.sizes import SPLIT_KEYS, prompt_attention_size, window_attention_size
from strata.core.extent import Extent
from strata.core.kv import CellType, kv_layout
from strata.core.programs import EmbedArgs, LayerArgs, PassBuffers
from strata.cuda.programs.model import CardModel
from strata.cuda.programs.views import Areas, activation, areas_of, first_rows, is_window, typed
from strata.cuda.programs.weights import DenseWeights
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class LayerPrograms:
    model: CardModel
    weights: DenseWeights

    def embed(self, memory: Memory, args: EmbedArgs) -> None:
        """tokens -> hidden."""
        tokens = typed(memory.read(first_rows(args.buffers.tokens, args.rows, args.buffers)), torch.int32, args.rows)
        addresses, table = self.weights.address(memory, "token_embd.weight")
        hidden = hidden_rows(self.model, memory, args.buffers, args.rows)
        grids = self.weights.constants.grids
        launch_dense.embed(tokens, addresses, grids, table.type_id, hidden, vocab_size=self.model.vocab_size)

    def attention(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += Wo attention(norm(hidden)); K and V of the rows are written before they are read."""
        assert args.kv is not None, args
        model, buffers, rows, name = self.model, args.buffers, args.rows, namer(args.layer)
        work = areas_of(model, memory, buffers, "attention", args.layer)
        hidden = hidden_rows(model, memory, buffers, rows)
        qkv, query, out = self._attention_buffers(memory, buffers, rows)
        x = work.take("x", activation(buffers), rows, model.hidden_size)
        launch_rows.rms_norm(
            hidden, self.weights.vector(memory, name("attn_norm.weight")), x, epsilon=model.rms_epsilon
        )
        gate = self._project_heads(memory, args.layer, x, qkv, work)
        cache = self._kv_layer(memory, args.kv)
        header = memory.read(buffers.header).view(torch.int64)
        self._place_heads(memory, args.layer, qkv, query, cache, header, work)
        self._attend(query, cache, header, out, work, buffers)
        if gate is not None:
            launch_rows.gate_heads(gate, out)
        self.weights.project(memory, out.flatten(1), name("attn_output"), hidden, is_added=True)

    def draft_kv(self, memory: Memory, args: LayerArgs) -> None:
        """K and V of the rows, as `attention` writes them, and nothing else."""
        assert args.kv is not None, args
        model, buffers, rows, name = self.model, args.buffers, args.rows, namer(args.layer)
        work = areas_of(model, memory, buffers, "attention", args.layer)
        hidden = memory.read(first_rows(buffers.hidden, rows, buffers))
        hidden = typed(hidden, torch.float32, rows, model.hidden_size)
        x = work.take("x", activation(buffers), rows, model.hidden_size)
        norm = self.weights.vector(memory, name("attn_norm.weight"))
        launch_rows.rms_norm(hidden, norm, x, epsilon=model.rms_epsilon)
        data = memory.write(first_rows(buffers.attention, rows, buffers))
        fresh = typed(data, torch.float32, rows, 2 * model.num_kv_heads, model.head_dim)
        width = model.num_kv_heads * model.head_dim
        self.weights.project(memory, x, name("attn_k"), fresh.flatten(1)[:, :width])
        self.weights.project(memory, x, name("attn_v"), fresh.flatten(1)[:, width:])
        header = memory.read(buffers.header).view(torch.int64)
        no_query = typed(data, torch.float16, rows, 0, model.head_dim)
        self._place_heads(memory, args.layer, fresh, no_query, self._kv_layer(memory, args.kv), header, work)

    def ffn(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += down( silu(gate x) * (up x) ), x = norm(hidden)."""
        buffers, rows, name = args.buffers, args.rows, namer(args.layer)
        work = areas_of(self.model, memory, buffers, "ffn", args.layer)
        hidden = hidden_rows(self.model, memory, buffers, rows)
        x = work.take("x", activation(buffers), rows, self.model.hidden_size)
        weight = self.weights.vector(memory, name(self.model.ffn_norm))
        launch_rows.rms_norm(hidden, weight, x, epsilon=self.model.rms_epsilon)
        width = self.model.dense[name("ffn_gate.weight")].rows
        gate, up = (work.take(role, torch.float32, rows, width) for role in ("gate", "up"))
        act = work.take("act", activation(buffers), rows, width)
        self.weights.project(memory, x, name("ffn_gate"), gate)
        self.weights.project(memory, x, name("ffn_up"), up)
        launch_rows.silu_mul(gate, up, act)
        self.weights.project(memory, act, name("ffn_down"), hidden, is_added=True)

    def _attention_buffers(self, memory: Memory, buffers: PassBuffers, rows: int) -> tuple[Tensor, Tensor, Tensor]:
        """Fresh heads f32 [rows, H + 2 Hkv, D]; behind them queries f16 [rows, H, D]; the heads' output [rows, H, D] of
        the activation type, over the fresh heads, which are done with by then."""
        model = self.model
        data = memory.write(first_rows(buffers.attention, rows, buffers))
        heads = model.num_heads + 2 * model.num_kv_heads
        behind = data[rows * heads * model.head_dim * torch.float32.itemsize :]
        return (
            typed(data, torch.float32, rows, heads, model.head_dim),
            typed(behind, torch.float16, rows, model.num_heads, model.head_dim),
            typed(data, activation(buffers), rows, model.num_heads, model.head_dim),
        )

    def _project_heads(self, memory: Memory, layer: int, x: Tensor, qkv: Tensor, work: Areas) -> Tensor | None:
        """Fresh heads; where each query comes with a gate behind it, f32 [rows, H, 2, D] of both."""
        model, name = self.model, namer(layer)
        query, key, value = self._heads_of(qkv)
        both: Tensor | None = None
        if model.has_attention_gate:
            both = work.take("query_gate", torch.float32, x.shape[0], model.num_heads, 2, model.head_dim)
            self.weights.project(memory, x, name("attn_q"), both.flatten(1))
            qkv[:, : model.num_heads].copy_(both[:, :, 0])
        else:
            self.weights.project(memory, x, name("attn_q"), query)
        self.weights.project(memory, x, name("attn_k"), key)
        self.weights.project(memory, x, name("attn_v"), value)
        return both

    def _heads_of(self, qkv: Tensor) -> Iterator[Tensor]:
        """Query, key and value of every row, f32 [rows, heads * D] each, rows apart."""
        first, flat = 0, qkv.flatten(1)
        for heads in (self.model.num_heads, self.model.num_kv_heads, self.model.num_kv_heads):
            end = first + heads * self.model.head_dim
            yield flat[:, first:end]
            first = end

    def _place_heads(
        self, memory: Memory, layer: int, qkv: Tensor, query: Tensor, cache: KvLayer, header: Tensor, work: Areas
    ) -> None:
        """Norm and turn queries, where there are any, and keys; keys and values go to their cells."""
        model, name = self.model, namer(layer)
        angles = work.take("angles", torch.float32, qkv.shape[0], 2, len(model.frequencies))
        launch_attention.angles(header, self.weights.constants.frequencies, angles)
        norms = None
        if self.weights.has(name("attn_q_norm.weight")):
            norms = (
                self.weights.vector(memory, name("attn_q_norm.weight")),
                self.weights.vector(memory, name("attn_k_norm.weight")),
            )
        launch_attention.heads(
            qkv, angles, norms, header, query, cache, epsilon=model.rms_epsilon, is_neox=model.is_neox
        )

    def _attend(
        self, query: Tensor, cache: KvLayer, header: Tensor, out: Tensor, work: Areas, buffers: PassBuffers
    ) -> None:
        model, shared_bytes = self.model, self.weights.limits.shared_bytes
        if not is_window(buffers):
            has_blocks = model.kv_format.key_type.is_blocks or model.kv_format.value_type.is_blocks
            prompt_size = prompt_attention_size(
                head_dim=model.head_dim, shared_bytes=shared_bytes, has_blocks=has_blocks
            )
            launch_attention.attention_prompt(query, cache, header, out, scale=model.attention_scale, size=prompt_size)
            return
        size = window_attention_size(
            max_rows=buffers.max_rows,
            num_heads=model.num_heads,
            num_kv_heads=model.num_kv_heads,
            head_dim=model.head_dim,
            shared_bytes=shared_bytes,
        )
        splits = -(-model.context_tokens // SPLIT_KEYS)
        vectors = query.shape[0] * model.num_heads
        part_out = work.take("part_out", torch.float32, splits, vectors, model.head_dim)
        part_state = work.take("part_state", torch.float32, 2, splits, vectors)
        scale = model.attention_scale
        launch_attention.attention_window(query, cache, header, part_out, part_state, out, scale=scale, size=size)

    def _kv_layer(self, memory: Memory, extent: Extent) -> KvLayer:
        """The layer's K, then V (`strata.core.kv`), with padding between."""
        model, kinds = self.model, self.model.kv_format
        layout = kv_layout(
            kv_format=kinds,
            context_tokens=model.context_tokens,
            num_kv_heads=model.num_kv_heads,
            head_dim=model.head_dim,
        )
        data = memory.write(extent)
        keys = self._cells(data, kinds.key_type, layout.key_bytes)
        values = self._cells(data[layout.values_start_bytes :], kinds.value_type, layout.value_bytes)
        return KvLayer(keys, values, model.num_kv_heads, int(kinds.key_type), int(kinds.value_type))

    def _cells(self, data: Tensor, kind: CellType, cell_bytes: int) -> Tensor:
        """f16 [context, Hkv, D], or uint8 [context, cell bytes] in blocks."""
        model = self.model
        if kind.is_blocks:
            return typed(data, torch.uint8, model.context_tokens, cell_bytes)
        return typed(data, torch.float16, model.context_tokens, model.num_kv_heads, model.head_dim)


def hidden_rows(model: CardModel, memory: Memory, buffers: PassBuffers, rows: int) -> Tensor:
    """f32 [rows, E], the residual stream, writable."""
    return typed(memory.write(first_rows(buffers.hidden, rows, buffers)), torch.float32, rows, model.hidden_size)


def namer(layer: int) -> Callable[[str], str]:
    """GGUF names of a block's tensors by what follows the block's number."""
    return partial("blk.{}.{}".format, layer)
