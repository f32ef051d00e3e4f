"""The programs that only a decode window has, on a card: head and sample."""

from dataclasses import dataclass

import torch

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
        """One token for the one row of a window: more rows come with a drafter, for which a card has no programs. A row
        without a possible token (NaN, or nothing finite) gives -1, which the engine refuses: a card raises nothing."""
        assert args.rows == 1, args
        window, buffers, vocab_size = args.window, args.buffers, self.model.vocab_size
        counts = typed(memory.write(window.counts), torch.int32, vocab_size)
        tables = TokenTables(
            bias=typed(memory.read(window.bias), torch.float32, vocab_size),
            counts=counts,
            seen=memory.read(window.seen)[:vocab_size],
            terminators=memory.read(window.terminators)[:vocab_size],
        )
        params = memory.read(window.params).view(torch.int64)
        logits = typed(memory.read(first_rows(window.logits, 1, buffers)), torch.float32, 1, vocab_size)
        result = memory.write(window.result).view(torch.int64)
        header = memory.write(buffers.header).view(torch.int64)
        tokens = typed(memory.write(buffers.tokens.part(offset_bytes=0, size_bytes=4)), torch.int32, 1)
        launch_sampling.sample(logits, params, tables, header, self._scratch(memory, buffers), result[:1])
        num_sampled = result[SAMPLED_WORD : SAMPLED_WORD + 1]
        launch_bookkeeping.accept(result[:1], num_sampled, counts, tokens, header)

    def _scratch(self, memory: Memory, buffers: PassBuffers) -> SampleScratch:
        work = areas_of(memory, buffers, self.model.window_work["sample"])
        blocks = -(-self.model.vocab_size // SAMPLE_BLOCK)
        return SampleScratch(
            scores=work.take("scores", torch.float32, 1, self.model.vocab_size),
            highest=work.take("highest", torch.float32, 1, blocks),
            best=work.take("best", torch.float64, 1, blocks),
            where=work.take("where", torch.int32, 1, blocks),
            sums=work.take("sums", torch.int64, 1, 2, blocks, 16),
            found=work.take("found", torch.int64, 1, FOUND),
            keep=work.take("keep", torch.int64, 1),
        )
