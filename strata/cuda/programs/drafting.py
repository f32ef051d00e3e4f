"""The programs of the drafter beside those of its layer, on a card: its input and its head.

A pair (hidden row of position p, token p + 1) becomes one row: eh_proj [RMS(embedding, enorm); RMS(hidden, hnorm)]. The
hidden row is the one behind the output norm, as `strata.model.programs.drafting` says and why.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.triton import launch_bookkeeping, launch_dense, launch_rows, launch_sampling
from kernels.triton.launch_sampling import DraftScratch
from kernels.triton.sizes import SAMPLE_BLOCK
from strata.core.programs import DraftHeadArgs, DraftInputArgs
from strata.cuda.programs.layers import hidden_rows, namer
from strata.cuda.programs.model import CardDrafter, CardModel
from strata.cuda.programs.views import activation, areas_of, first_rows, typed
from strata.cuda.programs.weights import DenseWeights
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class DraftPrograms:
    model: CardModel
    drafter: CardDrafter
    weights: DenseWeights

    def draft_input(self, memory: Memory, args: DraftInputArgs) -> None:
        """buffers.hidden = one row a pair; the header says where the first pair's hidden row stood."""
        model, drafter, buffers, rows = self.model, self.drafter, args.buffers, args.rows
        name, size = namer(drafter.layer), model.hidden_size
        if args.source_header is not None:
            source = memory.read(args.source_header).view(torch.int64)
            header = memory.write(buffers.header).view(torch.int64)
            launch_bookkeeping.place_behind(source, header, behind=args.behind)
        work = areas_of(model, memory, buffers, "draft input", drafter.layer)
        pair = work.take("pair", activation(buffers), rows, 2 * size)
        row = typed(memory.write(first_rows(buffers.normed, rows, buffers)), torch.float32, rows, size)
        tokens = typed(memory.read(args.tokens), torch.int32, rows)
        addresses, table = self.weights.address(memory, drafter.embedding)
        grids = self.weights.constants.grids
        launch_dense.embed(tokens, addresses, grids, table.type_id, row, vocab_size=model.vocab_size)
        self._norm(memory, name("nextn.enorm.weight"), row, pair[:, :size])
        hidden = typed(memory.read(args.hidden), torch.float32, rows, size)
        if args.kept is not None:
            typed(memory.write(args.kept), torch.float32, 1, size).copy_(hidden[rows - 1 :])
        if not args.is_own:  # the drafter's own row is as it is needed
            self._norm(memory, "output_norm.weight", hidden, row)
            hidden = row
        self._norm(memory, name("nextn.hnorm.weight"), hidden, pair[:, size:])
        self.weights.project(memory, pair, name("nextn.eh_proj"), hidden_rows(model, memory, buffers, rows))

    def draft_head(self, memory: Memory, args: DraftHeadArgs) -> None:
        """The token of the largest logit behind the last row; of equal ones the lowest."""
        model, drafter, buffers = self.model, self.drafter, args.buffers
        hidden = hidden_rows(model, memory, buffers, args.rows)
        normed = memory.write(first_rows(buffers.normed, 1, buffers))
        normed = typed(normed, torch.float32, 1, model.hidden_size)
        self._norm(memory, drafter.norm, hidden[args.rows - 1 :], normed)
        logits = typed(memory.write(args.draft.logits), torch.float32, 1, model.vocab_size)
        self.weights.project(memory, normed, drafter.head_stem, logits)
        work = areas_of(model, memory, buffers, "draft head", drafter.layer)
        blocks = -(-model.vocab_size // SAMPLE_BLOCK)
        found = DraftScratch(
            highest=work.take("highest", torch.float32, blocks),
            sums=work.take("sums", torch.float32, blocks),
            where=work.take("where", torch.int32, blocks),
        )
        token = typed(memory.write(args.token), torch.int32, 1)
        launch_sampling.most_likely(logits[0], found, token, typed(memory.write(args.probability), torch.float64, 1))
        hidden[:1].copy_(normed)

    def _norm(self, memory: Memory, name: str, x: Tensor, out: Tensor) -> None:
        launch_rows.rms_norm(x, self.weights.vector(memory, name), out, epsilon=self.model.rms_epsilon)
