"""From what was asked for to a model and a plan: what `serve` and `plan` share. Reads the file's header and nothing
else; needs no torch."""

from dataclasses import dataclass

from strata.core.config import ServeConfig, check_config, choose_context
from strata.core.errors import ConfigError, Refusal
from strata.core.memory.planner import Plan, PlanOptions, plan_card
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import ModelFile, open_model
from strata.model.inventory import inventory_of
from strata.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model that fits the card it was planned for."""

    config: ServeConfig
    file: ModelFile
    spec: ModelSpec
    plan: Plan


def plan_model(config: ServeConfig) -> PlannedModel:
    """Raises ConfigError with every reason there is: of the configuration first, of the model and the card then."""
    refusals = check_config(config)
    if refusals:
        raise ConfigError(*(refusal.reason for refusal in refusals))
    file = open_model(config.model)
    spec = spec_of(file)
    context_tokens = choose_context(config, model_context_tokens=spec.context_tokens)
    if isinstance(context_tokens, Refusal):
        raise ConfigError(context_tokens.reason)
    options = PlanOptions(context_tokens=context_tokens, kv_format=config.kv_format)
    plan = plan_card(inventory_of(spec), config.arena_bytes, options)
    if isinstance(plan, Refusal):
        raise ConfigError(plan.reason)
    return PlannedModel(config, file, spec, plan)
