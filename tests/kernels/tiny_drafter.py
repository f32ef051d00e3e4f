"""A tiny engine whose model has a NextN block: what the drafter computes, with the extents that the core declares."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from strata.core.extent import Extent
from strata.core.kv import KvFormat
from strata.core.programs import (
    DRAFT_HEAD,
    DRAFT_INPUT,
    DRAFT_KV,
    FFN,
    MAX_WINDOW_ROWS,
    DraftBuffers,
    DraftHeadArgs,
    DraftInputArgs,
    LayerArgs,
)
from strata.model.pack_reader import PackReader
from strata.model.spec import ModelSpec
from tests.kernels.tiny_engine import TinyEngine


class TinyDrafter(TinyEngine):
    """`behind_error`: how far the drafter's positions are wrong behind a window, for tests that plant it."""

    behind_error = 0

    def __init__(self, spec: ModelSpec, *, kv_format: KvFormat = KvFormat.F32, compares_bytes: bool = False) -> None:
        assert spec.drafter is not None
        self.drafter = spec.drafter
        super().__init__(spec, kv_format=kv_format, compares_bytes=compares_bytes)
        carve, layer = self.memory.carve, spec.num_layers
        self.kv[layer] = carve(self._kv_bytes())
        self.memory.raw(self.kv[layer]).zero_()
        self.own = self._pass_buffers(MAX_WINDOW_ROWS)
        self.next_tokens = carve(4 * self.context_tokens)
        self.sampled = carve(4 * MAX_WINDOW_ROWS)
        self.token, self.probability = carve(4), carve(8)
        addresses = self.addresses.get(layer, Extent(0, 0))
        self.draft = DraftBuffers(logits=carve(4 * spec.vocab_size), addresses=addresses)

    def fill(self, ids: Sequence[int], *, position: int, num_pairs: int | None = None) -> None:
        """Read a chunk of all but the last of `ids`, and fill the drafter's cells of its pairs, or of the first
        `num_pairs`."""
        self.read_prompt(ids[:-1], [len(ids) - 1], position=position)
        rows, buffers = num_pairs if num_pairs is not None else len(ids) - 1, self.prompt
        self._put(self.next_tokens, ids[1:])
        args = DraftInputArgs(rows, buffers, _first(self.next_tokens, 4 * rows), self._hidden(buffers.hidden, rows))
        reads = [args.tokens, args.hidden, *self._dense(DRAFT_INPUT, None)]
        self._run(DRAFT_INPUT, args, reads, [args.hidden, buffers.normed])
        layer = self.spec.num_layers
        kv = self.kv[layer]
        reads = [buffers.header, args.hidden, kv, *self._dense(DRAFT_KV, layer)]
        self._run(DRAFT_KV, LayerArgs(layer, rows, buffers, kv), reads, [kv, buffers.attention])

    def first_draft(self, ids: Sequence[int], *, position: int) -> Tensor:
        """A window over all but the last of `ids`, then the drafter over its pairs -> logits [V] behind the last."""
        rows = len(ids) - 1
        self.read_window(ids[:-1], position=position)
        self._put(self.sampled, ids[1:])
        self.memory.raw(self.verifier.header).view(torch.int64)[0] = position + rows  # as the sampler moves it on
        hidden, tokens = self._hidden(self.verifier.hidden, rows), _first(self.sampled, 4 * rows)
        args = DraftInputArgs(rows, self.own, tokens, hidden, source_header=self.verifier.header, behind=rows)
        return self._step(args)

    def next_draft(self, token: int, *, step: int) -> Tensor:
        """Draft `step` behind the same window, 1 for the second, which takes `token` in with the drafter's own row."""
        self._put(self.token, [token])
        hidden = self._hidden(self.own.hidden, 1)
        header, behind = self.verifier.header, 1 - step
        args = DraftInputArgs(1, self.own, self.token, hidden, is_own=True, source_header=header, behind=behind)
        return self._step(args)

    def _step(self, args: DraftInputArgs) -> Tensor:
        rows, layer, own = args.rows, self.spec.num_layers, self.own
        reads = [args.tokens, args.hidden, self.verifier.header, *self._dense(DRAFT_INPUT, None)]
        self._run(DRAFT_INPUT, args, reads, [self._hidden(own.hidden, rows), own.normed, own.header])
        self.memory.raw(own.header).view(torch.int64)[0] += self.behind_error
        self._mixer(LayerArgs(layer, rows, own, self.kv[layer]))
        if self.drafter.blob is None:
            reads = [own.hidden, *self._dense(FFN, layer)]
            self._run(FFN, LayerArgs(layer, rows, own), reads, [own.normed, own.hidden])
        else:
            self._mixture(layer, rows, own, is_window=True)
        head = DraftHeadArgs(rows, own, self.draft, self.token, self.probability)
        reads = [own.hidden, *self._dense(DRAFT_HEAD, None)]
        self._run(DRAFT_HEAD, head, reads, [self.token, self.probability, own.hidden, own.normed, self.draft.logits])
        logits = self.memory.raw(self.draft.logits).view(torch.float32)[: self.spec.vocab_size].clone()
        assert int(self.memory.raw(self.token).view(torch.int32)[0]) == int(logits.argmax())
        return logits

    def _hidden(self, extent: Extent, rows: int) -> Extent:
        return _first(extent, 4 * rows * self.spec.hidden_size)

    def _put(self, extent: Extent, ids: Sequence[int]) -> None:
        self.memory.raw(extent).view(torch.int32)[: len(ids)] = torch.tensor(list(ids), dtype=torch.int32)

    def _load(self, in_pack: frozenset[int]) -> None:
        super()._load(in_pack)
        layer, blob, addresses = self.spec.num_layers, self.drafter.blob, []
        with PackReader(self.spec) as reader:
            for name, info in self.drafter.dense.items():
                data = np.zeros(info.size_bytes, np.uint8)
                reader.read_dense(name, memoryview(data))
                self.dense[name] = self.memory.put(torch.from_numpy(data))
            if blob is None:
                return
            for expert in range(self.drafter.num_experts):
                data = np.zeros(blob.size_bytes, np.uint8)
                reader.read_blob(layer=layer, expert=expert, target=memoryview(data))
                addresses.append(self.memory.put_blob(torch.from_numpy(data), in_pack=False))
        self.addresses[layer] = self.memory.put(torch.tensor(addresses, dtype=torch.int64).view(torch.uint8))

    def _buffers_bytes(self) -> int:
        blob = self.drafter.blob
        block_bytes = (blob.size_bytes + 256 + 8) * self.drafter.num_experts if blob else 0
        block_bytes += sum(info.size_bytes + 256 for info in self.drafter.dense.values())
        own_bytes = (
            4 * MAX_WINDOW_ROWS * (self.spec.mixer_floats + 8 * self.spec.hidden_size) + 8 * self.spec.vocab_size
        )
        return super()._buffers_bytes() + block_bytes + own_bytes + self._kv_bytes() + 4 * self.context_tokens + 8192


def _first(extent: Extent, size_bytes: int) -> Extent:
    return extent.part(offset_bytes=0, size_bytes=size_bytes)
