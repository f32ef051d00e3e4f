"""`strata serve`: plans first, so that a refusal costs nothing, and only then loads what computes."""

from strata.core.config.values import ServeConfig
from strata.planning import plan_model


def run(config: ServeConfig) -> int:
    """The exit code. Raises ConfigError with every reason not to start, without torch."""
    plan_model(config)
    from strata.boot import run_server

    return run_server(config)
