"""One token from one row of logits.

In this order: bias, repetition, presence and frequency penalty, mask of terminators, temperature, top_k, top_p,
min_p; then the largest of logit + noise among what is left (Gumbel 1954: that index is distributed as the softmax).
Equal values go to the lower token id everywhere.

The noise of a token depends on (seed, position, token id) and nothing else, and comes from integers:

    h = mix64(mix64(seed) + position * POSITION_STEP  + (token + 1) * TOKEN_STEP)        mod 2^64
    u = ((h >>> 12) + 0.5) / 2^52          in (0, 1), float64
    noise = -log(-log(u))
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.reference.mix import mix64, mix64_scalar, signed
from kernels.reference.scratch import Scratch

POSITION_STEP = 0xD1342543DE82EF95
TOKEN_STEP = 0x9E3779B97F4A7C15
NO_TOKEN = -1


@dataclass(frozen=True, slots=True)
class Sampling:
    """A request's wishes, as in `strata.core.serving.request.SamplingParams`; top_k 0, top_p 1 and min_p 0 are off."""

    seed: int
    is_greedy: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float


@dataclass(frozen=True, slots=True)
class TokenTables:
    """What is known of each token in this request, [V] each."""

    bias: Tensor  # f32
    counts: Tensor  # int32, times generated
    seen: Tensor  # uint8, 1 where the prompt holds it
    terminators: Tensor  # uint8, 1 where it ends a reply


def sample(
    logits: Tensor,
    tables: TokenTables,
    sampling: Sampling,
    scratch: Scratch,
    *,
    position: int,
    terminators_masked: bool,
) -> int:
    """The token that follows `position`, or NO_TOKEN when no logit is a finite number or one is NaN or +inf.

    logits: f32 [V], left as it is."""
    scores = scratch.take("sample.scores", (logits.numel(),))
    torch.add(logits, tables.bias, out=scores)
    _penalize(scores, tables, sampling)
    if terminators_masked:
        scores.masked_fill_(tables.terminators.bool(), -torch.inf)
    if not torch.isfinite(scores.amax()):
        return NO_TOKEN
    if sampling.is_greedy:
        return _first_largest(scores)
    # Measured from the largest, in float64: however small the temperature, the largest stays 0 and none becomes NaN.
    scores.copy_(scores.double().sub_(scores.amax()).div_(sampling.temperature))
    _filter(scores, sampling)
    return _first_largest(scores.double().add_(noise(sampling.seed, position, scores.numel())))


def noise(seed: int, position: int, num_tokens: int) -> Tensor:
    """Standard Gumbel noise of tokens 0 .. num_tokens - 1, float64; the formula is at the file's head."""
    start = mix64_scalar(seed) + position * POSITION_STEP
    words = torch.arange(1, num_tokens + 1, dtype=torch.int64)
    mix64(words.mul_(signed(TOKEN_STEP)).add_(signed(start)))
    uniform = words.bitwise_right_shift_(12).bitwise_and_((1 << 52) - 1).double().add_(0.5).mul_(2.0**-52)
    return uniform.log_().neg_().log_().neg_()


def _penalize(scores: Tensor, tables: TokenTables, sampling: Sampling) -> None:
    """Repetition: CTRL's rule (arXiv:1909.05858), over prompt and reply; the others over the reply."""
    if sampling.repetition_penalty != 1.0:
        repeated = torch.where(scores > 0, scores / sampling.repetition_penalty, scores * sampling.repetition_penalty)
        torch.where((tables.seen > 0) | (tables.counts > 0), repeated, scores, out=scores)
    if sampling.presence_penalty != 0.0:
        scores.sub_((tables.counts > 0).float(), alpha=sampling.presence_penalty)
    if sampling.frequency_penalty != 0.0:
        scores.sub_(tables.counts, alpha=sampling.frequency_penalty)


def _filter(scores: Tensor, sampling: Sampling) -> None:
    """Sets what top_k, top_p and min_p drop to -inf. The most probable token always stays."""
    if sampling.top_k > 0 or sampling.top_p < 1.0:
        ordered, order = torch.sort(scores, descending=True, stable=True)
        kept = min(sampling.top_k or ordered.numel(), ordered.numel())
        if sampling.top_p < 1.0:
            probabilities = torch.softmax(ordered[:kept].double(), dim=0)
            before = probabilities.cumsum(0).sub_(probabilities)
            kept = max(1, int((before < sampling.top_p).sum()))
        scores.index_fill_(0, order[kept:], -torch.inf)
    if sampling.min_p > 0.0:
        relative = scores.double().sub_(scores.amax()).exp_()
        scores.masked_fill_(relative < sampling.min_p, -torch.inf)


def _first_largest(values: Tensor) -> int:
    """Index of the largest value, the lowest of equals: torch's argmax does not promise which."""
    return int(torch.nonzero(values == values.amax())[0])
