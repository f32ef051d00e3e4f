"""The programs that only a decode window has, on a card: head and sample."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.sample import TokenTables
from kernels.triton import launch_bookkeeping, launch_rows, launch_sampling
from kernels.triton.launch_sampling import FOUND, SampleScratch
from kernels.triton.sizes import SAMPLE_BLOCK
from strata.core.programs import MAX_WINDOW_ROWS, SAMPLED_WORD, HeadArgs, PassBuffers, SampleArgs
from strata.cuda.programs.model import CardModel
from strata.cuda.programs.views import areas_of, first_rows, typed
from strata.cuda.programs.weights import DenseWeights
from strata.device import Memory


@dataclass(frozen=True, slots=True)
class WindowPrograms:
    model: CardModel
    weights: DenseWeights

    def head(self, memory: Memory, args: HeadArgs) -> None:
        """logits of every row = W_out norm(hidden)."""
        assert args.rows <= MAX_WINDOW_ROWS, args.rows
        model, buffers, rows = self.model, args.buffers, args.rows
        hidden = typed(memory.read(first_rows(buffers.hidden, rows, buffers)), torch.float32, rows, model.hidden_size)
        normed = memory.write(first_rows(buffers.normed, rows, buffers))
        normed = typed(normed, torch.float32, rows, model.hidden_size)
        norm = self.weights.vector(memory, "output_norm.weight")
        launch_rows.rms_norm(hidden, norm, normed, epsilon=model.rms_epsilon)
        logits = memory.write(first_rows(args.window.logits, rows, buffers))
        logits = typed(logits, torch.float32, rows, model.vocab_size)
        self.weights.project(memory, normed, model.output_stem, logits)

    def sample(self, memory: Memory, args: SampleArgs) -> None:
        """A token for every row, each as if the drafts before it were taken; then, which rows that was true of. A row
        without a possible token (NaN, or nothing finite) gives -1, which the engine refuses: a card raises nothing."""
        window, buffers, rows, vocab_size = args.window, args.buffers, args.rows, self.model.vocab_size
        counts = typed(memory.write(window.counts), torch.int32, vocab_size)
        tables = TokenTables(
            bias=typed(memory.read(window.bias), torch.float32, vocab_size),
            counts=counts,
            seen=memory.read(window.seen)[:vocab_size],
            terminators=memory.read(window.terminators)[:vocab_size],
        )
        params = memory.read(window.params).view(torch.int64)
        logits = typed(memory.read(first_rows(window.logits, rows, buffers)), torch.float32, rows, vocab_size)
        result = memory.write(window.result).view(torch.int64)
        header = memory.write(buffers.header).view(torch.int64)
        tokens = typed(memory.read(first_rows(buffers.tokens, rows, buffers)), torch.int32, rows)
        scratch = self._scratch(memory, buffers, rows)
        launch_sampling.sample(logits, params, tables, tokens, header, scratch, result[:rows])
        launch_bookkeeping.accept(
            result[:rows],
            result[SAMPLED_WORD : SAMPLED_WORD + 1],
            tables,
            params,
            tokens,
            self._sampled(memory, args),
            header,
        )

    def _sampled(self, memory: Memory, args: SampleArgs) -> Tensor | None:
        """Where a drafter finds the ids again; None without one."""
        extent = args.window.sampled
        if not extent.size_bytes:
            return None
        return typed(memory.write(first_rows(extent, args.rows, args.buffers)), torch.int32, args.rows)

    def _scratch(self, memory: Memory, buffers: PassBuffers, rows: int) -> SampleScratch:
        work = areas_of(self.model, memory, buffers, "sample")
        blocks = -(-self.model.vocab_size // SAMPLE_BLOCK)
        return SampleScratch(
            scores=work.take("scores", torch.float32, rows, self.model.vocab_size),
            highest=work.take("highest", torch.float32, rows, blocks),
            best=work.take("best", torch.float64, rows, blocks),
            where=work.take("where", torch.int32, rows, blocks),
            sums=work.take("sums", torch.int64, rows, 2, blocks, 16),
            found=work.take("found", torch.int64, rows, FOUND),
            keep=work.take("keep", torch.int64, rows),
        )
