"""The programs that only a decode window has: head and sample."""

import struct
from dataclasses import dataclass

import torch

from kernels.reference.rms_norm import rms_norm
from kernels.reference.sample import NO_TOKEN, Sampling, TokenTables, sample
from kernels.reference.scratch import Scratch
from strata.core.errors import DeviceError
from strata.core.programs import MAX_WINDOW_ROWS, SAMPLED_WORD, HeadArgs, SampleArgs
from strata.core.serving.request import SAMPLING_FIELDS
from strata.device import Memory
from strata.model.programs.layers import read_position
from strata.model.programs.weights import DenseWeights, first_rows, floats
from strata.model.spec import ModelSpec

_PARAMS = struct.Struct(f"<{len(SAMPLING_FIELDS[0])}q{len(SAMPLING_FIELDS[1])}d")


@dataclass(frozen=True, slots=True)
class WindowPrograms:
    spec: ModelSpec
    weights: DenseWeights
    scratch: Scratch

    def head(self, memory: Memory, args: HeadArgs) -> None:
        """logits of every row = W_out norm(hidden)."""
        assert args.rows <= MAX_WINDOW_ROWS, args.rows
        rows, buffers = args.rows, args.buffers
        hidden = floats(memory.read(first_rows(buffers.hidden, rows, buffers)), rows, self.spec.hidden_size)
        normed = floats(memory.write(first_rows(buffers.normed, rows, buffers)), rows, self.spec.hidden_size)
        weight = self.weights.vector(memory, "output_norm.weight")
        rms_norm(hidden, weight, self.spec.rms_epsilon, normed, self.scratch)
        logits = floats(memory.write(first_rows(args.window.logits, rows, buffers)), rows, self.spec.vocab_size)
        self.weights.project(memory, normed, self.spec.output_name.removesuffix(".weight"), logits)

    def sample(self, memory: Memory, args: SampleArgs) -> None:
        """One token a row, first to last, for as long as rows stand; each is counted before the next row's penalties
        are taken.

        Raises DeviceError when a row's logits allow no token (NaN, or nothing finite left)."""
        window, vocab_size = args.window, self.spec.vocab_size
        sampling, prompt_tokens, min_tokens = _unpack(bytes(memory.read(window.params)[: _PARAMS.size].numpy()))
        tables = TokenTables(
            bias=floats(memory.read(window.bias), vocab_size),
            counts=memory.write(window.counts).view(torch.int32)[:vocab_size],
            seen=memory.read(window.seen)[:vocab_size],
            terminators=memory.read(window.terminators)[:vocab_size],
        )
        logits = memory.read(first_rows(window.logits, args.rows, args.buffers))
        logits = floats(logits, args.rows, vocab_size)
        result = memory.write(window.result).view(torch.int64)
        first_position = read_position(memory, args.buffers)
        drafts = _drafts(memory, args)
        for row in range(args.rows):
            position = first_position + row
            masked = position + 1 - prompt_tokens < min_tokens
            token = sample(logits[row], tables, sampling, self.scratch, position=position, terminators_masked=masked)
            if token == NO_TOKEN:
                raise DeviceError(f"sample: no token can follow position={position}: no finite logit, or NaN", args)
            result[row] = token
            tables.counts[token] += 1
            if row + 1 == args.rows or token != drafts[row] or (tables.terminators[token] and not masked):
                break
        num_standing = row + 1
        result[SAMPLED_WORD] = num_standing
        if window.sampled.size_bytes:
            sampled = memory.write(first_rows(window.sampled, args.rows, args.buffers)).view(torch.int32)
            sampled[:num_standing] = result[:num_standing].int()
        first_token = args.buffers.tokens.part(offset_bytes=0, size_bytes=4)
        memory.write(first_token).view(torch.int32)[0] = result[row].int()
        memory.write(args.buffers.header).view(torch.int64)[0] = first_position + num_standing


def _drafts(memory: Memory, args: SampleArgs) -> list[int]:
    """Token i + 1 of the window, for each row i that has a row behind it."""
    if args.rows == 1:
        return []
    behind = args.buffers.tokens.part(offset_bytes=4, size_bytes=4 * (args.rows - 1))
    drafted: list[int] = memory.read(behind).view(torch.int32).tolist()
    return drafted


def _unpack(data: bytes) -> tuple[Sampling, int, int]:
    """`strata.core.serving.request.pack_sampling` undone: the wishes, prompt_tokens, min_tokens."""
    words = dict(zip(SAMPLING_FIELDS[0] + SAMPLING_FIELDS[1], _PARAMS.unpack(data), strict=True))
    prompt_tokens, min_tokens = words.pop("prompt_tokens"), words.pop("min_tokens")
    return Sampling(**{**words, "is_greedy": bool(words["is_greedy"])}), prompt_tokens, min_tokens
