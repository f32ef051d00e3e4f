"""The programs of a pass over rows and routed experts: embed, attention, router, experts, combine
(`strata.core.programs` has the picture).

One body serves all architectures: biases and q/k norms apply where the file has the tensor, the rope follows
`spec.rope`, a gate goes on the heads' output where queries have one. Each launch reads every weight through `memory`;
between launches nothing is kept but working buffers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from kernels.reference.activation import sigmoid_mul
from kernels.reference.append_kv import append_kv
from kernels.reference.attention import attention
from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.combine import combine
from kernels.reference.embed import embed
from kernels.reference.expert_weights import ExpertWeights
from kernels.reference.experts import experts
from kernels.reference.kv_cells import BlockCells, Cells
from kernels.reference.rms_norm import rms_norm
from kernels.reference.rope import rope
from kernels.reference.router import route
from kernels.reference.scratch import Scratch
from strata.core.extent import Extent
from strata.core.kv import CellType, KvFormat, kv_layout
from strata.core.programs import HIT_WORD, MISSED_WORD, EmbedArgs, ExpertsArgs, LayerArgs, PassBuffers
from strata.device import Memory
from strata.model.program_reads import ROPE_FACTORS, layer_tensor
from strata.model.programs.feed_forward import hidden_rows, normalize_for_ffn
from strata.model.programs.weights import DenseWeights, first_rows, floats
from strata.model.spec import BlobLayout, Gating, ModelSpec, RopePairing

_FLOATS = {CellType.F16: torch.float16, CellType.F32: torch.float32}


@dataclass(frozen=True, slots=True)
class LayerPrograms:
    """Bodies for one model on one device. An expert read at an address inside the arena counts as a hit."""

    spec: ModelSpec
    weights: DenseWeights
    scratch: Scratch
    kv_format: KvFormat
    context_tokens: int
    arena_address: int
    arena_bytes: int

    def embed(self, memory: Memory, args: EmbedArgs) -> None:
        """tokens -> hidden."""
        tokens = memory.read(first_rows(args.buffers.tokens, args.rows, args.buffers)).view(torch.int32)[: args.rows]
        table, info = self.weights.bytes_of(memory, "token_embd.weight")
        embed(tokens, table, info.type_id, hidden_rows(memory, args.buffers, args.rows, self.spec), self.scratch)

    def attention(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += Wo attention(norm(hidden)); K and V of the rows are written before they are read."""
        spec, rows, name = self.spec, args.rows, _namer(args.layer)
        position = read_position(memory, args.buffers)
        hidden = hidden_rows(memory, args.buffers, rows, spec)
        query_and_gate, key, value, heads = self._attention_buffers(memory, args.buffers, rows)
        query, gate = query_and_gate[..., : spec.head_dim], query_and_gate[..., spec.head_dim :]
        norm = self.weights.vector(memory, name("attn_norm.weight"))
        for start, stop in spans(rows, BAND_ROWS):
            normed = self.scratch.take("layers.normed", (BAND_ROWS, spec.hidden_size))[: stop - start]
            rms_norm(hidden[start:stop], norm, spec.rms_epsilon, normed, self.scratch)
            for stem, out in (("attn_q", query_and_gate), ("attn_k", key), ("attn_v", value)):
                self.weights.project(memory, normed, name(stem), out[start:stop].flatten(1))
        factors = self.weights.optional_vector(memory, ROPE_FACTORS)
        for stem, x in (("attn_q_norm.weight", query), ("attn_k_norm.weight", key)):
            self._normalize_heads(memory, name(stem), x)
            self._rope(x, position, factors)
        assert args.kv is not None, args
        keys, values = self._kv_views(memory, args.kv)
        append_kv(key, value, keys, values, position=position)
        attention(query, keys, values, heads, self.scratch, position=position, scale=spec.attention_scale)
        if spec.has_attention_gate:
            flat = heads.view(-1, spec.head_dim)
            sigmoid_mul(gate.view(-1, spec.head_dim), flat, flat, self.scratch)
        self.weights.project(memory, heads.flatten(1), name("attn_output"), hidden, accumulate=True)

    def draft_kv(self, memory: Memory, args: LayerArgs) -> None:
        """K and V of the rows, as `attention` writes them, and nothing else."""
        spec, rows, name = self.spec, args.rows, _namer(args.layer)
        hidden = memory.read(first_rows(args.buffers.hidden, rows, args.buffers))
        hidden = floats(hidden, rows, spec.hidden_size)
        _, key, value, _ = self._attention_buffers(memory, args.buffers, rows)
        norm = self.weights.vector(memory, name("attn_norm.weight"))
        for start, stop in spans(rows, BAND_ROWS):
            normed = self.scratch.take("layers.normed", (BAND_ROWS, spec.hidden_size))[: stop - start]
            rms_norm(hidden[start:stop], norm, spec.rms_epsilon, normed, self.scratch)
            for stem, out in (("attn_k", key), ("attn_v", value)):
                self.weights.project(memory, normed, name(stem), out[start:stop].flatten(1))
        position = read_position(memory, args.buffers)
        self._normalize_heads(memory, name("attn_k_norm.weight"), key)
        self._rope(key, position, self.weights.optional_vector(memory, ROPE_FACTORS))
        assert args.kv is not None, args
        append_kv(key, value, *self._kv_views(memory, args.kv), position=position)

    def router(self, memory: Memory, args: LayerArgs) -> None:
        """normed = norm(hidden); which experts each row goes to."""
        spec, rows, buffers, name = self.spec, args.rows, args.buffers, _namer(args.layer)
        normed = normalize_for_ffn(memory, args, spec, self.weights, self.scratch)
        ids = memory.write(first_rows(buffers.router_ids, rows, buffers)).view(torch.int32)
        counts = memory.write(buffers.router_counts).view(torch.int32)
        counts = counts[: spec.num_experts_of(args.layer)]
        weights = floats(memory.write(first_rows(buffers.router_weights, rows, buffers)), rows, spec.num_experts_used)
        ids = ids.view(rows, spec.num_experts_used)
        counts.zero_()
        bias = self.weights.optional_vector(memory, name("exp_probs_b.bias"))
        for start, stop in spans(rows, BAND_ROWS):
            logits = self.scratch.take("layers.router", (BAND_ROWS, len(counts)))[: stop - start]
            self.weights.project(memory, normed[start:stop], name("ffn_gate_inp"), logits)
            band = (ids[start:stop], weights[start:stop], counts)
            route(
                logits,
                *band,
                self.scratch,
                weights_scale=spec.expert_weights_scale,
                is_sigmoid=spec.gating is Gating.SIGMOID,
                bias=bias,
                normalizes=spec.normalizes_expert_weights,
            )

    def experts(self, memory: Memory, args: ExpertsArgs) -> None:
        """expert_rows of every row that chose one of `args.experts`, each expert read where the address row says."""
        spec, rows, buffers = self.spec, args.rows, args.buffers
        layout = spec.blob_of(args.layer)
        assert layout is not None, f"layer {args.layer} has no experts"
        ids = memory.read(first_rows(buffers.router_ids, rows, buffers)).view(torch.int32).view(rows, -1)
        present = torch.unique(ids).tolist()
        chosen = present if args.experts is None else [expert for expert in args.experts if expert in present]
        addresses = [memory.read(args.addresses).view(torch.int64)[expert].item() for expert in chosen]
        normed = floats(memory.read(first_rows(buffers.normed, rows, buffers)), rows, spec.hidden_size)
        out = memory.write(first_rows(buffers.expert_rows, rows, buffers))
        out = floats(out, rows, spec.num_experts_used, spec.hidden_size)
        experts(normed, ids, _blobs(memory, layout, chosen, addresses), out, self.scratch)
        if args.result is not None:
            hits = sum(0 <= address - self.arena_address < self.arena_bytes for address in addresses)
            words = memory.write(args.result).view(torch.int64)
            words[HIT_WORD] += hits
            words[MISSED_WORD] += len(addresses) - hits
        if args.usage.size_bytes:
            usage = memory.write(args.usage).view(torch.int32).view(-1, spec.num_experts)
            usage[args.layer, chosen] += 1

    def combine(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += weighted expert rows, summed in router order."""
        used, rows, buffers = self.spec.num_experts_used, args.rows, args.buffers
        expert_rows = memory.read(first_rows(buffers.expert_rows, rows, buffers))
        expert_rows = floats(expert_rows, rows, used, self.spec.hidden_size)
        weights = floats(memory.read(first_rows(buffers.router_weights, rows, buffers)), rows, used)
        combine(expert_rows, weights, hidden_rows(memory, buffers, rows, self.spec), self.scratch)

    def _attention_buffers(self, memory: Memory, buffers: PassBuffers, rows: int) -> Iterator[Tensor]:
        """Query, key, value and heads' output, f32 [rows, heads, D] each, one after the other in the bytes of
        `rows` rows. With a gate, a head's query is [2 D]: its query, then its gate."""
        data = memory.write(first_rows(buffers.attention, rows, buffers)).view(torch.float32)
        heads, kv_heads, head_dim = self.spec.num_heads, self.spec.num_kv_heads, self.spec.head_dim
        start = 0
        query_dim = 2 * head_dim if self.spec.has_attention_gate else head_dim
        for count, dim in ((heads, query_dim), (kv_heads, head_dim), (kv_heads, head_dim), (heads, head_dim)):
            yield data[start : start + rows * count * dim].view(rows, count, dim)
            start += rows * count * dim

    def _normalize_heads(self, memory: Memory, name: str, x: Tensor) -> None:
        """q/k norm, per head, where the model has one. x: [rows, heads, D], in place."""
        if self.weights.has(name):
            flat = x.view(-1, self.spec.head_dim)
            rms_norm(flat, self.weights.vector(memory, name), self.spec.rms_epsilon, flat, self.scratch)

    def _rope(self, x: Tensor, position: int, factors: Tensor | None) -> None:
        turn = self.spec.rope
        is_neox = turn.pairing is RopePairing.NEOX
        rope(
            x,
            position=position,
            base=turn.base,
            num_dims=turn.num_dims,
            is_neox=is_neox,
            scale=turn.scale,
            factors=factors,
        )

    def _kv_views(self, memory: Memory, extent: Extent) -> tuple[Cells, Cells]:
        """The layer's K and V, [context, Hkv, D] each (`strata.core.kv`)."""
        spec, kinds, context_tokens = self.spec, self.kv_format, self.context_tokens
        layout = kv_layout(
            kv_format=kinds, context_tokens=context_tokens, num_kv_heads=spec.num_kv_heads, head_dim=spec.head_dim
        )
        data = memory.write(extent)
        keys = data[: context_tokens * layout.key_bytes].view(context_tokens, -1)
        values = data[layout.values_start_bytes : layout.size_bytes].view(context_tokens, -1)
        return self._cells(keys, kinds.key_type), self._cells(values, kinds.value_type)

    def _cells(self, data: Tensor, kind: CellType) -> Cells:
        """data: uint8 [context, bytes of a position]."""
        heads, head_dim = self.spec.num_kv_heads, self.spec.head_dim
        if kind.is_blocks:
            return BlockCells(data, kind, heads, head_dim)
        return data.view(_FLOATS[kind]).view(-1, heads, head_dim)


def read_position(memory: Memory, buffers: PassBuffers) -> int:
    """Position of the first row, from the header."""
    return int(memory.read(buffers.header).view(torch.int64)[0])


def _namer(layer: int) -> Callable[[str], str]:
    return partial(layer_tensor, layer)


def _blobs(
    memory: Memory, layout: BlobLayout, chosen: list[int], addresses: list[int]
) -> Iterator[tuple[int, ExpertWeights]]:
    """Each expert with its matrices, views of the bytes at its address."""
    end_bytes = layout.gate.offset_bytes + layout.gate.size_bytes
    is_joined = (layout.up.offset_bytes, layout.up.type_id) == (end_bytes, layout.gate.type_id)
    for expert, address in zip(chosen, addresses, strict=True):
        blob = memory.view(address, layout.size_bytes)
        gate, up, down = (
            blob[part.offset_bytes : part.offset_bytes + part.size_bytes]
            for part in (layout.gate, layout.up, layout.down)
        )
        types = (layout.gate.type_id, layout.up.type_id, layout.down.type_id)
        gate_up = blob[layout.gate.offset_bytes : end_bytes + layout.up.size_bytes] if is_joined else None
        yield expert, ExpertWeights(gate, types[0], up, types[1], down, types[2], layout.gate.rows, gate_up)
