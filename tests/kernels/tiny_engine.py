"""Runs a model's programs over a flat memory: prompts in any cuts, windows of any rows, each launch with exactly the
extents that the core declares for it. No streams, no ring, no lending: what is left is the math."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from strata.core.extent import Extent
from strata.core.kv import KvFormat, KvLayout, kv_layout
from strata.core.programs import (
    ATTENTION,
    COMBINE,
    COMMIT,
    EMBED,
    EXPERTS,
    FFN,
    HEAD,
    HEADER_BYTES,
    MAX_WINDOW_ROWS,
    NO_SCRATCH,
    RECURRENT,
    RESULT_BYTES,
    ROUTER,
    SAMPLE,
    SHARED,
    CommitArgs,
    EmbedArgs,
    ExpertsArgs,
    HeadArgs,
    LayerArgs,
    PassBuffers,
    ProgramArgs,
    SampleArgs,
    WindowBuffers,
)
from strata.core.serving.request import SAMPLING_BYTES, SamplingParams, pack_sampling
from strata.model.pack_reader import PackReader
from strata.model.program_reads import dense_reads
from strata.model.programs.build import build_programs
from strata.model.spec import ModelSpec
from tests.kernels.flat_memory import ARENA_ADDRESS, FlatMemory

NUM_DRAFTS = 12
"""Each has journals of its own, so that none can count on what an earlier one left."""


class TinyEngine:
    """`experts_in_pack`: these expert ids are read from the pack, all others from the arena. `group_experts`: experts
    of one launch in a prompt."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        context_tokens: int = 160,
        kv_format: KvFormat = KvFormat.F16,
        experts_in_pack: Iterable[int] = (),
        group_experts: int = 3,
        compares_bytes: bool = True,
    ) -> None:
        self.spec, self.context_tokens, self.kv_format = spec, context_tokens, kv_format
        self.group_experts = group_experts
        weights_bytes = sum(info.size_bytes + 256 for info in spec.dense.values())
        blobs_bytes = sum((blob.size_bytes + 256) * spec.num_experts for blob in spec.blobs if blob is not None)
        buffers_bytes = self._buffers_bytes()
        self.memory = FlatMemory(
            arena_bytes=weights_bytes + blobs_bytes + buffers_bytes,
            pack_bytes=blobs_bytes,
            compares_bytes=compares_bytes,
        )
        self._load(frozenset(experts_in_pack))
        layers = range(spec.num_layers)
        self.kv = {layer: self.memory.carve(self._kv_bytes()) for layer in layers if not spec.is_recurrent[layer]}
        self.state = {layer: self.memory.carve(self._state_bytes()) for layer in layers if spec.is_recurrent[layer]}
        self.journals: dict[int, Extent] = {}  # of the window under way, where it keeps one
        self.prompt = self._pass_buffers(context_tokens)
        self.verifier = self._pass_buffers(MAX_WINDOW_ROWS)
        self.window = self._window_buffers()
        for counters in (self.window.result, self.window.usage):  # they run from the start of the engine
            self.memory.raw(counters).zero_()
        self.reads = dense_reads(spec)
        self.programs = build_programs(
            spec,
            self.dense,
            kv_format=kv_format,
            context_tokens=context_tokens,
            arena_address=ARENA_ADDRESS,
            arena_bytes=self.memory.arena.numel(),
        )

    def read_prompt(self, ids: Sequence[int], cuts: Sequence[int], *, position: int = 0) -> Tensor:
        """Read ids in chunks of the given lengths -> f32 [len(ids), E], the hidden rows after the last layer."""
        assert sum(cuts) == len(ids), (cuts, len(ids))
        rows = []
        for length in cuts:
            start = sum(row.shape[0] for row in rows)
            rows.append(self._pass(self.prompt, ids[start : start + length], position + start, is_window=False))
        return torch.cat(rows)

    def read_window(self, ids: Sequence[int], *, position: int) -> tuple[Tensor, Tensor]:
        """One window -> hidden [rows, E] and logits [rows, V] of its rows."""
        hidden = self._pass(self.verifier, ids, position, is_window=True)
        buffers, window = self.verifier, self.window
        args = HeadArgs(len(ids), buffers, window)
        reads = [buffers.hidden, *self._dense(HEAD, None)]
        self._run(HEAD, args, reads, [buffers.normed, window.logits])
        size = len(ids) * self.spec.vocab_size
        logits = self.memory.raw(window.logits).view(torch.float32)[:size].view(len(ids), -1).clone()
        return hidden, logits

    def read_draft(self, ids: Sequence[int], *, position: int) -> Tensor:
        """A window whose rows may be taken back -> its logits [rows, V]. State stays where it is until `commit`."""
        self.journals = {layer: self.memory.carve(self._journal_bytes()) for layer in self.state}
        try:
            return self.read_window(ids, position=position)[1]
        finally:
            self.noted, self.journals = self.journals, {}

    def commit(self, rows: int) -> None:
        """The first rows of the last draft are accepted."""
        for layer, state in self.state.items():
            journal = self.noted[layer]
            args = CommitArgs(layer, rows, MAX_WINDOW_ROWS, state, journal)
            self._run(COMMIT, args, [journal], [state])

    def set_sampling(self, sampling: SamplingParams, *, prompt_ids: Sequence[int], terminators: Iterable[int]) -> None:
        """The sampler's inputs at the start of a request."""
        window, memory = self.window, self.memory
        packed = pack_sampling(sampling, prompt_tokens=len(prompt_ids))
        memory.raw(window.params).copy_(torch.frombuffer(bytearray(packed), dtype=torch.uint8))
        bias = memory.raw(window.bias).view(torch.float32).zero_()
        for token, value in sampling.logit_bias:
            bias[token] = value
        memory.raw(window.counts).zero_()
        memory.raw(window.seen).zero_()[list(prompt_ids)] = 1
        memory.raw(window.terminators).zero_()[list(terminators)] = 1

    def sample(self, rows: int) -> list[int]:
        """Sample the rows of the last window."""
        buffers, window = self.verifier, self.window
        reads = [window.logits, window.params, window.bias, window.seen, window.terminators]
        writes = [window.result, buffers.tokens, window.counts, buffers.header]
        self._run(SAMPLE, SampleArgs(rows, buffers, window), reads, writes)
        return self.result_words()[:rows]

    def result_words(self) -> list[int]:
        words: list[int] = self.memory.raw(self.window.result).view(torch.int64).tolist()
        return words

    def usage(self) -> Tensor:
        """int32 [layers, experts]"""
        return self.memory.raw(self.window.usage).view(torch.int32).view(self.spec.num_layers, -1)

    def kv_bytes(self, num_positions: int) -> list[Tensor]:
        """K and V of positions 0 .. num_positions - 1, one tensor a layer."""
        layout, cells = self._kv_layout(), []
        for extent in self.kv.values():
            raw, start = self.memory.raw(extent), layout.values_start_bytes
            keys = raw[: num_positions * layout.key_bytes]
            cells.append(torch.cat([keys, raw[start : start + num_positions * layout.value_bytes]]))
        return cells

    def state_bytes(self) -> list[Tensor]:
        """State of the recurrent layers, as it is after the last row."""
        return [self.memory.raw(extent).clone() for extent in self.state.values()]

    def _pass(self, buffers: PassBuffers, ids: Sequence[int], position: int, *, is_window: bool) -> Tensor:
        rows, memory = len(ids), self.memory
        if position == 0:
            for extent in self.state.values():
                memory.raw(extent).zero_()
        memory.raw(buffers.header).view(torch.int64)[0] = position
        memory.raw(buffers.tokens).view(torch.int32)[:rows] = torch.tensor(list(ids), dtype=torch.int32)
        self._run(EMBED, EmbedArgs(rows, buffers), [buffers.tokens, *self._dense(EMBED, None)], [buffers.hidden])
        for layer in range(self.spec.num_layers):
            self._mixer(
                LayerArgs(layer, rows, buffers, self.kv.get(layer), self.state.get(layer), self.journals.get(layer))
            )
            if self.spec.blobs[layer] is None:
                reads = [buffers.hidden, *self._dense(FFN, layer)]
                self._run(FFN, LayerArgs(layer, rows, buffers), reads, [buffers.normed, buffers.hidden])
            else:
                self._mixture(layer, rows, buffers, is_window=is_window)
        size = rows * self.spec.hidden_size
        return memory.raw(buffers.hidden).view(torch.float32)[:size].view(rows, -1).clone()

    def _mixer(self, args: LayerArgs) -> None:
        program, memory = (ATTENTION, args.kv) if args.kv else (RECURRENT, args.state)
        assert memory is not None, args
        reads = [args.buffers.header, memory, *self._dense(program, args.layer)]
        written = args.journal or memory
        self._run(program, args, reads, [written, args.buffers.attention, args.buffers.hidden])

    def _mixture(self, layer: int, rows: int, buffers: PassBuffers, *, is_window: bool) -> None:
        routed = [buffers.router_ids, buffers.router_weights, buffers.router_counts]
        reads = [buffers.hidden, *self._dense(ROUTER, layer)]
        self._run(ROUTER, LayerArgs(layer, rows, buffers), reads, [buffers.normed, *routed])
        if (SHARED, layer) in self.reads:
            reads = [buffers.normed, *self._dense(SHARED, layer)]
            self._run(SHARED, LayerArgs(layer, rows, buffers), reads, [buffers.hidden])
        everyone = range(self.spec.num_experts)
        step = self.group_experts
        groups = [None] if is_window else [tuple(everyone[first : first + step]) for first in everyone[::step]]
        for group in groups:
            result = self.window.result if is_window else None
            is_counted = is_window and layer < self.spec.num_layers  # the drafter's experts are all on the card
            usage = self.window.usage if is_counted else NO_SCRATCH
            args = ExpertsArgs(layer, rows, buffers, group, self.addresses[layer], result, usage)
            reads = [buffers.normed, buffers.router_ids, self.addresses[layer]]
            self._run(
                EXPERTS,
                args,
                reads,
                [buffers.expert_rows, *([result] if result else []), *([usage] if is_counted else [])],
            )
        reads = [buffers.expert_rows, buffers.router_weights]
        self._run(COMBINE, LayerArgs(layer, rows, buffers), reads, [buffers.hidden])

    def _run(self, program: str, args: ProgramArgs, reads: Iterable[Extent], writes: Iterable[Extent]) -> None:
        with self.memory.launch(reads, writes) as memory:
            self.programs[program](memory, args)

    def _dense(self, program: str, layer: int | None) -> list[Extent]:
        return [self.dense[name] for name in self.reads[program, layer]]

    def _load(self, in_pack: frozenset[int]) -> None:
        self.dense: dict[str, Extent] = {}
        self.addresses: dict[int, Extent] = {}
        with PackReader(self.spec) as reader:
            for name, info in self.spec.dense.items():
                data = np.zeros(info.size_bytes, np.uint8)
                reader.read_dense(name, memoryview(data))
                self.dense[name] = self.memory.put(torch.from_numpy(data))
            for layer, blob in enumerate(self.spec.blobs):
                if blob is None:
                    continue
                addresses = []
                for expert in range(self.spec.num_experts):
                    data = np.zeros(blob.size_bytes, np.uint8)
                    reader.read_blob(layer=layer, expert=expert, target=memoryview(data))
                    addresses.append(self.memory.put_blob(torch.from_numpy(data), in_pack=expert in in_pack))
                words = torch.tensor(addresses, dtype=torch.int64)
                self.addresses[layer] = self.memory.put(words.view(torch.uint8))

    def _buffers_bytes(self) -> int:
        """Enough for what is carved beside weights and blobs."""
        spec = self.spec
        row_bytes = 4 * (spec.mixer_floats + (5 + spec.num_experts_used) * spec.hidden_size)
        window_bytes = 4 * spec.vocab_size * (MAX_WINDOW_ROWS + 4)
        kv_bytes = (self._kv_bytes() + self._state_bytes() + 512) * spec.num_layers
        kv_bytes += NUM_DRAFTS * (self._journal_bytes() + 256) * spec.num_layers
        usage_bytes = 4 * spec.num_layers * spec.num_experts + 256
        return row_bytes * (self.context_tokens + MAX_WINDOW_ROWS) + window_bytes + kv_bytes + usage_bytes + (64 << 10)

    def _kv_bytes(self) -> int:
        return self._kv_layout().size_bytes

    def _kv_layout(self) -> KvLayout:
        return kv_layout(
            kv_format=self.kv_format,
            context_tokens=self.context_tokens,
            num_kv_heads=self.spec.num_kv_heads,
            head_dim=self.spec.head_dim,
        )

    def _state_bytes(self) -> int:
        return 4 * self.spec.recurrent.state_floats if self.spec.recurrent else 0

    def _journal_bytes(self) -> int:
        return 4 * self.spec.recurrent.journal_floats * MAX_WINDOW_ROWS if self.spec.recurrent else 0

    def _pass_buffers(self, max_rows: int) -> PassBuffers:
        spec, carve = self.spec, self.memory.carve
        used, hidden = spec.num_experts_used, spec.hidden_size
        return PassBuffers(
            max_rows=max_rows,
            header=carve(HEADER_BYTES),
            tokens=carve(4 * max_rows),
            hidden=carve(4 * max_rows * hidden),
            normed=carve(4 * max_rows * hidden),
            attention=carve(4 * max_rows * spec.mixer_floats),
            router_ids=carve(4 * max_rows * used),
            router_weights=carve(4 * max_rows * used),
            router_counts=carve(4 * spec.num_experts),
            expert_rows=carve(4 * max_rows * used * hidden),
        )

    def _window_buffers(self) -> WindowBuffers:
        carve, vocab_size = self.memory.carve, self.spec.vocab_size
        return WindowBuffers(
            logits=carve(4 * MAX_WINDOW_ROWS * vocab_size),
            params=carve(SAMPLING_BYTES),
            bias=carve(4 * vocab_size),
            counts=carve(4 * vocab_size),
            seen=carve(vocab_size),
            terminators=carve(vocab_size),
            result=carve(RESULT_BYTES),
            usage=carve(4 * self.spec.num_layers * self.spec.num_experts),
        )
