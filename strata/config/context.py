"""How many tokens of context are planned for."""

from strata.config.values import ServeConfig
from strata.core.errors import Refusal

MAX_DEFAULT_CONTEXT_TOKENS = 32_768
MIN_CONTEXT_TOKENS = 2
"""One token of prompt and one of the reply."""


def choose_context(config: ServeConfig, *, model_context_tokens: int) -> int | Refusal:
    """Tokens of context to plan for: the model's, at most MAX_DEFAULT_CONTEXT_TOKENS unless asked for."""
    if config.context_tokens is None:
        return min(model_context_tokens, MAX_DEFAULT_CONTEXT_TOKENS)
    if config.context_tokens < MIN_CONTEXT_TOKENS:
        return Refusal(f"ctx refused: ctx={config.context_tokens} tokens; give --ctx {MIN_CONTEXT_TOKENS} or more")
    if config.context_tokens > model_context_tokens:
        return Refusal(
            f"ctx refused: ctx={config.context_tokens:,} tokens, the model has {model_context_tokens:,}; lower --ctx"
        )
    return config.context_tokens
