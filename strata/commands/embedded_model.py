"""The model that comes with the package, in a build that has it: strata-tiny (`recipes/strata_tiny`). Light: decides
only where it lies, and when whoever names no model means it."""

from pathlib import Path

from strata.core.errors import ConfigError

EMBEDDED = Path(__file__).parents[1] / "models" / "strata-tiny.Q8_0.gguf"


def embedded_model() -> Path | None:
    return EMBEDDED if EMBEDDED.is_file() else None


def model_or_embedded(model: str | None, *, drafter: str | None = None) -> str:
    """`drafter`: what was written behind --mtp. Raises ConfigError where no model is named and none can be meant."""
    if model is not None:
        return model
    if drafter is not None and drafter not in ("0", "1"):
        raise ConfigError(f"model refused: no MODEL is named, and --mtp has {drafter}; write --mtp behind MODEL")
    if (embedded := embedded_model()) is None:
        raise ConfigError("model refused: no MODEL is named, and this build has none of its own; name a GGUF file")
    return str(embedded)
