"""The programs of the drafter beside those of its layer: its input, its K/V while a prompt is read, and its head.

A pair (hidden row of position p, token p + 1) becomes one row: eh_proj [RMS(embedding, enorm); RMS(hidden, hnorm)].
The hidden row is the one behind the output norm, from the trunk and in the drafter's own chain alike; so do the NextN
graphs of llama.cpp, for Qwen and GLM (`tests/oracle/test_draft_logits.py`). The row before it is never wrong to look
at, since hnorm hides the magnitude: only fewer drafts are accepted.
"""

from dataclasses import dataclass
from functools import partial

import torch

from kernels.reference.blocks import BAND_ROWS, spans
from kernels.reference.embed import embed
from kernels.reference.rms_norm import rms_norm
from kernels.reference.scratch import Scratch
from strata.core.programs import DraftHeadArgs, DraftInputArgs
from strata.device import Memory
from strata.model.program_reads import OUTPUT_NORM, draft_embedding, draft_head, draft_norm, layer_tensor
from strata.model.programs.feed_forward import hidden_rows
from strata.model.programs.weights import DenseWeights, first_rows, floats
from strata.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class DraftPrograms:
    spec: ModelSpec
    weights: DenseWeights
    scratch: Scratch

    def draft_input(self, memory: Memory, args: DraftInputArgs) -> None:
        """buffers.hidden = one row a pair; the header says where the first pair's hidden row stood."""
        spec, name = self.spec, partial(layer_tensor, self.spec.num_layers)
        if args.source_header is not None:
            position = memory.read(args.source_header).view(torch.int64)[0] - args.behind
            memory.write(args.buffers.header).view(torch.int64)[0] = position
        tokens = memory.read(args.tokens).view(torch.int32)[: args.rows]
        hidden = floats(memory.read(args.hidden), args.rows, spec.hidden_size)
        out = hidden_rows(memory, args.buffers, args.rows, spec)
        if args.kept is not None:
            floats(memory.write(args.kept), 1, spec.hidden_size).copy_(hidden[args.rows - 1 :])
        table, info = self.weights.bytes_of(memory, draft_embedding(spec))
        takes_normed = spec.drafts_behind_output_norm and not args.is_own  # the drafter's own row is as it is needed
        for start, stop in spans(args.rows, BAND_ROWS):
            rows = stop - start
            pair = self.scratch.take("drafting.pair", (BAND_ROWS, 2 * spec.hidden_size))[:rows]
            row = self.scratch.take("drafting.row", (BAND_ROWS, spec.hidden_size))[:rows]
            normed = self.scratch.take("drafting.normed", (BAND_ROWS, spec.hidden_size))[:rows]
            embed(tokens[start:stop], table, info.type_id, row, self.scratch)
            self._norm(memory, name("nextn.enorm.weight"), row, normed)
            pair[:, : spec.hidden_size] = normed
            row.copy_(hidden[start:stop])
            if takes_normed:
                self._norm(memory, OUTPUT_NORM, row, normed)
                row.copy_(normed)
            self._norm(memory, name("nextn.hnorm.weight"), row, normed)
            pair[:, spec.hidden_size :] = normed
            self.weights.project(memory, pair, name("nextn.eh_proj"), out[start:stop])

    def draft_head(self, memory: Memory, args: DraftHeadArgs) -> None:
        """The token of the largest logit behind the last row; of equal ones the lowest."""
        spec, buffers = self.spec, args.buffers
        hidden = hidden_rows(memory, buffers, args.rows, spec)
        normed = floats(memory.write(first_rows(buffers.normed, 1, buffers)), 1, spec.hidden_size)
        self._norm(memory, draft_norm(spec), hidden[args.rows - 1 :], normed)
        logits = floats(memory.write(args.draft.logits), 1, spec.vocab_size)
        self.weights.project(memory, normed, draft_head(spec).removesuffix(".weight"), logits)
        top = logits[0].max()
        best = torch.nonzero(logits[0] == top)
        # No finite logit leaves nothing to choose: a draft is only a guess, and token 0 is one too.
        memory.write(args.token).view(torch.int32)[0] = int(best[0, 0]) if len(best) else 0
        memory.write(args.probability).view(torch.float64)[0] = _likely(logits[0], top)
        hidden[0] = normed[0] if spec.drafts_behind_output_norm else hidden[args.rows - 1].clone()

    def _norm(self, memory: Memory, name: str, x: torch.Tensor, out: torch.Tensor) -> None:
        rms_norm(x, self.weights.vector(memory, name), self.spec.rms_epsilon, out, self.scratch)


def _likely(logits: torch.Tensor, top: torch.Tensor) -> float:
    """Softmax of the largest of `logits` [V]; 0 where one is NaN or none is above -inf."""
    if torch.isnan(top) or top == -torch.inf:
        return 0.0
    behind = torch.where(logits == top, 0.0, logits.double() - top)  # inf - inf would be no number
    return 1 / float(behind.exp().sum())
