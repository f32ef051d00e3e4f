"""A request as the engine sees it. Token ids only: text is the business of others."""

import struct
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Already validated (`strata.server.schemas`). temperature 0 is greedy. `logit_bias` is sorted by token id.
    A draw depends on (seed, position) only."""

    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # over prompt and reply, divides or multiplies (CTRL, arXiv:1909.05858)
    presence_penalty: float = 0.0  # over the reply
    frequency_penalty: float = 0.0  # over the reply
    seed: int = 0  # 0 .. 2^63-1
    min_tokens: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """`max_tokens` is already cut to the room that the context leaves: len(prompt_ids) + max_tokens <= context."""

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.prompt_ids and self.max_tokens >= 1


SAMPLING_BYTES = 256
_SAMPLING = struct.Struct("<5q6d")
SAMPLING_FIELDS = (
    ("seed", "prompt_tokens", "min_tokens", "top_k", "is_greedy"),
    ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
)


def pack_sampling(sampling: SamplingParams, *, prompt_tokens: int) -> bytes:
    """The `params` extent of a window: int64 words then float64 words in the order of SAMPLING_FIELDS, zero filled to
    SAMPLING_BYTES. Terminators are masked while position + 1 - prompt_tokens < min_tokens (0-based reply index)."""
    beside = {"prompt_tokens": prompt_tokens, "is_greedy": sampling.temperature == 0.0}
    words = [beside[name] if name in beside else getattr(sampling, name) for row in SAMPLING_FIELDS for name in row]
    return _SAMPLING.pack(*words).ljust(SAMPLING_BYTES, b"\0")
