"""Everything that keeps a server from starting, before anything is loaded, lent or deferred: one pure function from
what was asked for, and a few facts of the model, to reasons."""

from strata.config.bounds import check_against_model, check_values
from strata.config.lending import check_lending, refused_by_loans
from strata.config.not_yet import check_built
from strata.config.values import Command, ModelFacts, ServeConfig
from strata.core.errors import Refusal


def check_config(
    config: ServeConfig, *, command: Command = Command.SERVE, facts: ModelFacts | None = None
) -> list[Refusal]:
    """All reasons at once; empty when there are none. `facts` None: the model is not known yet, or cannot be read.

    In this order: values by themselves, values against the model, lending, and last what is not in this version."""
    refusals = [*check_values(config)]
    if facts is not None:
        refusals += check_against_model(config, facts)
    refusals += check_lending(config, command=command, facts=facts)
    return [*refusals, *check_built(config, refused=refused_by_loans(config))]
