"""The programs of a layer with experts on a card: router, shared, experts, combine.

In a chunk the router also sorts the pairs (row, place in its ids) by expert, into the workspace that it shares with the
experts' launches: each of those takes the pairs of its own experts from there. A window needs no order: every pair
reads its expert through the address table.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton import launch_bookkeeping, launch_experts, launch_grouping, launch_rows
from kernels.triton.launch_experts import ExpertShape
from kernels.triton.launch_grouping import Grouping, Tiles
from kernels.triton.sizes import DOWN_GROUPED, GATE_UP_GROUPED, PAIR_BLOCK, for_card
from strata.core.programs import HIT_WORD, MISSED_WORD, ExpertsArgs, LayerArgs, PassBuffers
from strata.cuda.programs.layers import hidden_rows, namer
from strata.cuda.programs.model import CardModel
from strata.cuda.programs.views import Areas, activation, areas_of, first_rows, is_window, typed
from strata.cuda.programs.weights import DenseWeights
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class MixturePrograms:
    """An expert read at an address inside the arena counts as a hit."""

    model: CardModel
    weights: DenseWeights
    arena_address: int
    arena_bytes: int

    def router(self, memory: Memory, args: LayerArgs) -> None:
        """normed = norm(hidden), of the activation type; which experts each row goes to. A chunk also gets the rows of
        each expert in `router_counts`, and a window does where the host asks which they are."""
        model, buffers, rows, name = self.model, args.buffers, args.rows, namer(args.layer)
        work, num_experts = self._work(memory, args), self._shape(args.layer).num_experts
        hidden = memory.read(first_rows(buffers.hidden, rows, buffers))
        hidden = typed(hidden, torch.float32, rows, model.hidden_size)
        norm = self.weights.vector(memory, name(self.model.ffn_norm))
        normed = self._normed(memory.write(first_rows(buffers.normed, rows, buffers)), buffers, rows)
        launch_rows.rms_norm(hidden, norm, normed, epsilon=model.rms_epsilon)
        logits = work.take("logits", torch.float32, rows, num_experts)
        if is_window(buffers):
            self.weights.project(memory, normed, name("ffn_gate_inp"), logits)
        else:  # a choice of experts is no place for rounding
            x = work.take("x", torch.float32, rows, model.hidden_size)
            launch_rows.rms_norm(hidden, norm, x, epsilon=model.rms_epsilon)
            self.weights.project(memory, x, name("ffn_gate_inp"), logits, is_exact=True)
        ids = self._ids(memory.write(first_rows(buffers.router_ids, rows, buffers)), rows)
        chosen = memory.write(first_rows(buffers.router_weights, rows, buffers))
        chosen = typed(chosen, torch.float32, rows, model.num_experts_used)
        bias = name("exp_probs_b.bias")
        launch_rows.route(
            logits,
            ids,
            chosen,
            weights_scale=model.expert_weights_scale,
            is_sigmoid=model.is_sigmoid,
            bias=self.weights.vector(memory, bias) if self.weights.has(bias) else None,
            normalizes=model.normalizes_expert_weights,
        )
        if not is_window(buffers):
            counts = typed(memory.write(buffers.router_counts), torch.int32, num_experts)
            launch_grouping.group(ids, self._grouping(work, counts, rows, num_experts), num_experts=num_experts)
        elif model.asks_windows:
            counts = typed(memory.write(buffers.router_counts), torch.int32, num_experts)
            launch_bookkeeping.count_chosen(ids, counts)

    def shared(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += down( silu(gate x) * (up x) ) of the shared expert, for the x that the router saw; times the
        sigmoid of one number a row, where the model has a gate for it. It runs between router and experts, so its areas
        are of their workspace."""
        model, buffers, rows, name = self.model, args.buffers, args.rows, namer(args.layer)
        work = self._work(memory, args)
        normed = self._normed(memory.read(first_rows(buffers.normed, rows, buffers)), buffers, rows)
        hidden = hidden_rows(model, memory, buffers, rows)
        width = model.dense[name("ffn_gate_shexp.weight")].rows
        gate, up = (work.take(f"shared_{role}", torch.float32, rows, width) for role in ("gate", "up"))
        act = work.take("shared_act", activation(buffers), rows, width)
        self.weights.project(memory, normed, name("ffn_gate_shexp"), gate)
        self.weights.project(memory, normed, name("ffn_up_shexp"), up)
        launch_rows.silu_mul(gate, up, act)
        if not self.weights.has(name("ffn_gate_inp_shexp.weight")):
            self.weights.project(memory, act, name("ffn_down_shexp"), hidden, is_added=True)
            return
        out = work.take("shared_out", torch.float32, rows, model.hidden_size)
        share = work.take("shared_share", torch.float32, rows, 1)
        self.weights.project(memory, act, name("ffn_down_shexp"), out)
        self.weights.project(memory, normed, name("ffn_gate_inp_shexp"), share)
        launch_rows.add_gated(hidden, out, share)

    def experts(self, memory: Memory, args: ExpertsArgs) -> None:
        """expert_rows of every row that chose one of `args.experts`, each expert read where the address row says."""
        model, buffers, rows = self.model, args.buffers, args.rows
        shape, num_experts = self._shape(args.layer), self._shape(args.layer).num_experts
        work, grids = self._work(memory, args), self.weights.constants.grids
        addresses = typed(memory.read(args.addresses), torch.int64, num_experts)
        normed = self._normed(memory.read(first_rows(buffers.normed, rows, buffers)), buffers, rows)
        out = memory.write(first_rows(buffers.expert_rows, rows, buffers))
        out = typed(out, torch.float32, rows, model.num_experts_used, model.hidden_size)
        act = work.take("act", activation(buffers), rows * model.num_experts_used, shape.ffn_size)
        if is_window(buffers):
            assert args.experts is None, args
            ids = self._ids(memory.read(first_rows(buffers.router_ids, rows, buffers)), rows)
            launch_experts.experts_window(normed, ids, addresses, grids, shape, act, out)
            self._count(memory, args, ids, addresses)
            return
        grouping, tiles = self._grouping(work, None, rows, num_experts), self._tiles(work, rows, num_experts)
        selected = work.take("selected", torch.uint8, num_experts)
        launch_bookkeeping.select(range(num_experts) if args.experts is None else args.experts, selected)
        gate_up_size, down_size = (
            for_card(size, shared_bytes=self.weights.limits.shared_bytes) for size in (GATE_UP_GROUPED, DOWN_GROUPED)
        )
        launch_grouping.make_tiles(
            grouping.starts, selected, tiles, num_experts=num_experts, block_rows=down_size.block_rows
        )
        launch_experts.experts_prompt(
            normed,
            grouping.sorted_pairs,
            tiles,
            addresses,
            grids,
            shape,
            act,
            out,
            gate_up_size=gate_up_size,
            down_size=down_size,
            num_programs=self.weights.limits.num_programs,
        )

    def combine(self, memory: Memory, args: LayerArgs) -> None:
        """hidden += weighted expert rows, summed in router order."""
        model, buffers, rows = self.model, args.buffers, args.rows
        parts = memory.read(first_rows(buffers.expert_rows, rows, buffers))
        parts = typed(parts, torch.float32, rows, model.num_experts_used, model.hidden_size)
        weights = memory.read(first_rows(buffers.router_weights, rows, buffers))
        weights = typed(weights, torch.float32, rows, model.num_experts_used)
        launch_rows.combine(parts, weights, hidden_rows(model, memory, buffers, rows))

    def _work(self, memory: Memory, args: LayerArgs | ExpertsArgs) -> Areas:
        return areas_of(self.model, memory, args.buffers, "moe", args.layer)

    def _shape(self, layer: int) -> ExpertShape:
        shape = self.model.experts[layer]
        assert shape is not None, f"layer {layer} has no experts"
        return shape

    def _normed(self, data: Tensor, buffers: PassBuffers, rows: int) -> Tensor:
        return typed(data, activation(buffers), rows, self.model.hidden_size)

    def _ids(self, data: Tensor, rows: int) -> Tensor:
        return typed(data, torch.int32, rows, self.model.num_experts_used)

    def _grouping(self, work: Areas, totals: Tensor | None, rows: int, experts: int) -> Grouping:
        """`totals` are written by the router alone."""
        pairs = rows * self.model.num_experts_used
        starts = work.take("starts", torch.int32, experts + 1)
        return Grouping(
            counts=work.take("counts", torch.int32, -(-pairs // PAIR_BLOCK), experts),
            starts=starts,
            totals=starts[:0] if totals is None else totals,
            sorted_pairs=work.take("sorted_pairs", torch.int32, pairs),
        )

    def _tiles(self, work: Areas, rows: int, experts: int) -> Tiles:
        pairs = rows * self.model.num_experts_used
        most = pairs // DOWN_GROUPED.block_rows + experts
        entries = work.take("tiles", torch.int32, most, 4)
        return Tiles(entries, work.take("num_tiles", torch.int32, 1))

    def _count(self, memory: Memory, args: ExpertsArgs, ids: Tensor, addresses: Tensor) -> None:
        if args.result is None:
            return
        reads = memory.write(args.result).view(torch.int64)[HIT_WORD : MISSED_WORD + 1]
        usage = None
        if args.usage.size_bytes:
            usage = memory.write(args.usage).view(torch.int32).view(-1, addresses.numel())[args.layer]
        where = {"arena_address": self.arena_address, "arena_bytes": self.arena_bytes}
        launch_bookkeeping.count_reads(ids, addresses, reads, usage, **where)
