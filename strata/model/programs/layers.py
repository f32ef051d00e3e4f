"""The programs of a pass: embed, attention, router, experts, combine, ffn (`strata.core.programs` has the picture).

One body serves all architectures: biases and q/k norms apply where the file has the tensor, the rope follows
`spec.rope`. Each launch reads every weight through `memory`; between launches nothing is kept but working buffers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from kernels.reference.activation import silu_mul
from kernels.reference.append_kv import append_kv
from kernels.reference.attention import attention
from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.combine import combine
from kernels.reference.embed import embed
from kernels.reference.experts import ExpertWeights, experts
from kernels.reference.rms_norm import rms_norm
from kernels.reference.rope import rope
from kernels.reference.router import route
from kernels.reference.scratch import Scratch
from strata.core.extent import Extent
from strata.core.kv import KvFormat
from strata.core.programs import HIT_WORD, MISSED_WORD, EmbedArgs, ExpertsArgs, LayerArgs, PassBuffers
from strata.device import Memory
from strata.model.program_reads import ROPE_FACTORS, layer_tensor
from strata.model.programs.weights import DenseWeights, floats
from strata.model.spec import BlobLayout, ModelSpec, RopePairing

_KV_TYPES = {KvFormat.F16: torch.float16, KvFormat.F32: torch.float32}


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
        embed(tokens, table, info.type_id, self._hidden(memory, args.buffers, args.rows), self.scratch)

    def attention(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += Wo attention(norm(hidden)); K and V of the rows are written before they are read."""
        spec, rows, name = self.spec, args.rows, _namer(args.layer)
        position = read_position(memory, args.buffers)
        hidden = self._hidden(memory, args.buffers, rows)
        query, key, value, heads = self._attention_buffers(memory, args.buffers, rows)
        norm = self.weights.vector(memory, name("attn_norm.weight"))
        for start, stop in spans(rows, BAND_ROWS):
            normed = self.scratch.take("layers.normed", (BAND_ROWS, spec.hidden_size))[: stop - start]
            rms_norm(hidden[start:stop], norm, spec.rms_epsilon, normed, self.scratch)
            for stem, out in (("attn_q", query), ("attn_k", key), ("attn_v", value)):
                self.weights.project(memory, normed, name(stem), out[start:stop].flatten(1))
        factors = self.weights.optional_vector(memory, ROPE_FACTORS)
        for stem, x in (("attn_q_norm.weight", query), ("attn_k_norm.weight", key)):
            self._normalize_heads(memory, name(stem), x)
            self._rope(x, position, factors)
        assert args.kv is not None, args
        keys, values = self._kv_views(memory, args.kv)
        append_kv(key, value, keys, values, position=position)
        attention(query, keys, values, heads, self.scratch, position=position, scale=spec.attention_scale)
        self.weights.project(memory, heads.flatten(1), name("attn_output"), hidden, accumulate=True)

    def router(self, memory: Memory, args: LayerArgs) -> None:
        """normed = norm(hidden); which experts each row goes to."""
        spec, rows, buffers, name = self.spec, args.rows, args.buffers, _namer(args.layer)
        normed = self._normalize_for_ffn(memory, args)
        ids = memory.write(first_rows(buffers.router_ids, rows, buffers)).view(torch.int32)
        counts = memory.write(buffers.router_counts).view(torch.int32)[: spec.num_experts]
        weights = floats(memory.write(first_rows(buffers.router_weights, rows, buffers)), rows, spec.num_experts_used)
        ids = ids.view(rows, spec.num_experts_used)
        counts.zero_()
        for start, stop in spans(rows, BAND_ROWS):
            logits = self.scratch.take("layers.router", (BAND_ROWS, spec.num_experts))[: stop - start]
            self.weights.project(memory, normed[start:stop], name("ffn_gate_inp"), logits)
            band = (ids[start:stop], weights[start:stop], counts)
            route(logits, *band, self.scratch, weights_scale=spec.expert_weights_scale)

    def experts(self, memory: Memory, args: ExpertsArgs) -> None:
        """expert_rows of every row that chose one of `args.experts`, each expert read where the address row says."""
        spec, rows, buffers = self.spec, args.rows, args.buffers
        layout = spec.blobs[args.layer]
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

    def combine(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += weighted expert rows, summed in router order."""
        used, rows, buffers = self.spec.num_experts_used, args.rows, args.buffers
        expert_rows = memory.read(first_rows(buffers.expert_rows, rows, buffers))
        expert_rows = floats(expert_rows, rows, used, self.spec.hidden_size)
        weights = floats(memory.read(first_rows(buffers.router_weights, rows, buffers)), rows, used)
        combine(expert_rows, weights, self._hidden(memory, buffers, rows), self.scratch)

    def ffn(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += down( silu(gate x) * (up x) ), x = norm(hidden)."""
        name = _namer(args.layer)
        normed = self._normalize_for_ffn(memory, args)
        hidden = self._hidden(memory, args.buffers, args.rows)
        ffn_size = self.spec.dense[name("ffn_gate.weight")].shape[1]
        for start, stop in spans(args.rows, BAND_ROWS):
            gate = self.scratch.take("layers.gate", (BAND_ROWS, ffn_size))[: stop - start]
            up = self.scratch.take("layers.up", (BAND_ROWS, ffn_size))[: stop - start]
            self.weights.project(memory, normed[start:stop], name("ffn_gate"), gate)
            self.weights.project(memory, normed[start:stop], name("ffn_up"), up)
            silu_mul(gate, up, gate, self.scratch)
            self.weights.project(memory, gate, name("ffn_down"), hidden[start:stop], accumulate=True)

    def _hidden(self, memory: Memory, buffers: PassBuffers, rows: int) -> Tensor:
        return floats(memory.write(first_rows(buffers.hidden, rows, buffers)), rows, self.spec.hidden_size)

    def _normalize_for_ffn(self, memory: Memory, args: LayerArgs) -> Tensor:
        """normed = norm(hidden) by the layer's ffn_norm, f32 [rows, E]."""
        rows, buffers = args.rows, args.buffers
        normed = floats(memory.write(first_rows(buffers.normed, rows, buffers)), rows, self.spec.hidden_size)
        weight = self.weights.vector(memory, layer_tensor(args.layer, "ffn_norm.weight"))
        hidden = floats(memory.read(first_rows(buffers.hidden, rows, buffers)), rows, self.spec.hidden_size)
        rms_norm(hidden, weight, self.spec.rms_epsilon, normed, self.scratch)
        return normed

    def _attention_buffers(self, memory: Memory, buffers: PassBuffers, rows: int) -> Iterator[Tensor]:
        """Query, key, value and heads' output, f32 [rows, heads, D] each, one after the other in the bytes of
        `rows` rows."""
        data = memory.write(first_rows(buffers.attention, rows, buffers)).view(torch.float32)
        heads, kv_heads, head_dim = self.spec.num_heads, self.spec.num_kv_heads, self.spec.head_dim
        start = 0
        for count in (heads, kv_heads, kv_heads, heads):
            yield data[start : start + rows * count * head_dim].view(rows, count, head_dim)
            start += rows * count * head_dim

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

    def _kv_views(self, memory: Memory, extent: Extent) -> tuple[Tensor, Tensor]:
        """The layer's K and V, [context, Hkv, D] each (`strata.core.kv`)."""
        shape = (self.context_tokens, self.spec.num_kv_heads, self.spec.head_dim)
        size = shape[0] * shape[1] * shape[2]
        data = memory.write(extent).view(_KV_TYPES[self.kv_format])
        return data[:size].view(shape), data[size : 2 * size].view(shape)


def read_position(memory: Memory, buffers: PassBuffers) -> int:
    """Position of the first row, from the header."""
    return int(memory.read(buffers.header).view(torch.int64)[0])


def first_rows(extent: Extent, rows: int, buffers: PassBuffers) -> Extent:
    """The bytes of the first `rows` of the buffer's max_rows rows: all that a launch of `rows` declares."""
    return extent.part(offset_bytes=0, size_bytes=rows * (extent.size_bytes // buffers.max_rows))


def _namer(layer: int) -> Callable[[str], str]:
    return partial(layer_tensor, layer)


def _blobs(
    memory: Memory, layout: BlobLayout, chosen: list[int], addresses: list[int]
) -> Iterator[tuple[int, ExpertWeights]]:
    """Each expert with its matrices, views of the bytes at its address."""
    for expert, address in zip(chosen, addresses, strict=True):
        blob = memory.view(address, layout.size_bytes)
        gate, up, down = (
            blob[part.offset_bytes : part.offset_bytes + part.size_bytes]
            for part in (layout.gate, layout.up, layout.down)
        )
        types = (layout.gate.type_id, layout.up.type_id, layout.down.type_id)
        yield expert, ExpertWeights(gate, types[0], up, types[1], down, types[2], layout.gate.rows)
