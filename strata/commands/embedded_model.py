"""The model that comes with strata (`strata/models/README.md`), and when whoever names no model means it. Light."""

from pathlib import Path

from strata.core.errors import ConfigError

EMBEDDED = Path(__file__).parents[1] / "models" / "strata-tiny.Q8_0.gguf"


def model_or_embedded(model: str | None, *, drafter: str | None = None) -> str:
    """`drafter`: what was written behind --mtp. Raises ConfigError where that would have been the model."""
    if model is None and drafter not in (None, "0", "1"):
        raise ConfigError(f"model refused: no MODEL is named, and --mtp has {drafter}; write --mtp behind MODEL")
    return str(EMBEDDED) if model is None else model
