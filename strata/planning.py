"""From what was asked for to a model and a plan: what `serve` and `plan` share. Reads the file's header and nothing
else; needs no torch."""

import mmap
from dataclasses import dataclass, replace
from pathlib import Path

from strata.config.context import choose_context
from strata.config.refusals import check_config
from strata.config.values import DeviceChoice, ModelFacts, ServeConfig
from strata.core.errors import ConfigError, ModelError, Refusal
from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import NEVER, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.units import KIB, MIB, align_up
from strata.model.architecture import spec_of
from strata.model.card_form import card_form, card_inventory, check_card_form
from strata.model.drafter import with_drafter_of
from strata.model.gguf.model_file import ModelFile, open_model
from strata.model.inventory import inventory_of
from strata.model.spec import ModelSpec
from strata.plan_check import check_plan
from strata.warm_start import load_usage

MOST_VRAM_BYTES = 1 << 40
"""More than any card has."""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model that fits the card it was planned for. `spec.drafter` is the one that was asked for, or None. `heat`: how
    often each expert was read, as the file of --warm-start has it; () without one."""

    config: ServeConfig
    file: ModelFile
    spec: ModelSpec
    plan: Plan
    heat: tuple[int, ...] = ()


def plan_model(config: ServeConfig) -> PlannedModel:
    """Raises ConfigError with every reason there is: of the configuration, with what the model's header says, and of
    the header itself; or, where those are fine, of the card."""
    try:
        file = open_model(config.model)
        spec = spec_of(file)
    except ModelError as error:
        raise ConfigError(*(refusal.reason for refusal in check_config(config)), *error.reasons) from error
    refusals = check_config(config, facts=model_facts(spec, inventory_of(spec)))
    reasons = [refusal.reason for refusal in refusals]
    try:
        spec = choose_drafter(config, file, spec)
    except ModelError as error:
        reasons += error.reasons
    if reasons:
        raise ConfigError(*reasons)
    options = plan_options(config, spec)
    inventory = _inventory(config, spec, options)
    plan = plan_card(inventory, config.arena_bytes, options)
    if isinstance(plan, Refusal):
        advice = f" ({_least_vram(config, inventory, options, plan)})" if plan.shortfall_bytes else ""
        raise ConfigError(f"{plan.reason}{advice}")
    check_plan(plan)
    heat = () if config.warm_start_file is None else load_usage(Path(config.warm_start_file), spec)
    return PlannedModel(config, file, spec, plan, heat)


def _inventory(config: ServeConfig, spec: ModelSpec, options: PlanOptions) -> ModelInventory:
    """As the model lies in its file, or as a card holds it."""
    if config.device is not DeviceChoice.CUDA:
        return inventory_of(spec)
    if refusals := [*check_card_form(spec, kv_format=options.kv_format, window_rows=options.window_rows)]:
        raise ConfigError(*(refusal.reason for refusal in refusals))
    return card_inventory(spec, card_form(spec), context_tokens=options.context_tokens)


def choose_drafter(config: ServeConfig, file: ModelFile, spec: ModelSpec) -> ModelSpec:
    """`spec` with the drafter that was asked for: none, the model's own NextN block, or that of another file. Raises
    ModelError for a file that cannot be read or is no drafter of this model."""
    if config.mtp is None:
        return replace(spec, drafter=None)
    return spec if config.mtp.file is None else with_drafter_of(open_model(config.mtp.file), file, spec)


def _least_vram(config: ServeConfig, inventory: ModelInventory, options: PlanOptions, refusal: Refusal) -> str:
    """What --vram must be for a plan: mostly what is missing more, in whole segments. Where what is missing was told of
    one way to serve and another is taken with more bytes, the least is looked for."""
    segment_bytes = config.segment_bytes
    enough = least = align_up(config.arena_bytes + refusal.shortfall_bytes, segment_bytes)
    while isinstance(refused := plan_card(inventory, enough, options), Refusal):
        if not refused.shortfall_bytes:
            return f"with more, {refused.reason}"
        least, enough = enough + segment_bytes, 2 * enough
        if enough > MOST_VRAM_BYTES:
            slab = "; unset STRATA_MMQ_SLAB" if options.has_slab else ""
            return f"no --vram is enough{slab}"
    while least < enough:
        middle = (least + enough) // (2 * segment_bytes) * segment_bytes
        if isinstance(plan_card(inventory, middle, options), Refusal):
            least = middle + segment_bytes
        else:
            enough = middle
    return f"--vram={_size(enough)} at least: the card has whole segments of {_size(segment_bytes)}"


def _size(size_bytes: int) -> str:
    """Exact, and short where it can be."""
    for unit_bytes, unit in ((MIB, "MiB"), (KIB, "KiB")):
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return f"{size_bytes}B"


def model_facts(spec: ModelSpec, inventory: ModelInventory) -> ModelFacts:
    return ModelFacts(
        context_tokens=spec.context_tokens,
        num_expert_pairs=inventory.num_pairs,
        num_experts_used=spec.num_experts_used,
        has_output_head="output.weight" in spec.dense,
        num_nextn_blocks=spec.num_nextn_layers,
        head_dim=spec.head_dim,
    )


def plan_options(config: ServeConfig, spec: ModelSpec) -> PlanOptions:
    """Of a configuration that nothing was refused of."""
    context_tokens = choose_context(config, model_context_tokens=spec.context_tokens)
    assert not isinstance(context_tokens, Refusal), context_tokens
    return PlanOptions(
        context_tokens=context_tokens,
        kv_format=config.kv_format,
        window_rows=config.window_rows,
        chunk_tokens=config.prefill.chunk_tokens,
        max_chunk_tokens=config.prefill.max_chunk_tokens,
        ring_slots=config.switches.prefill_ring,
        min_cache_slots=config.min_cache_slots,
        policy=lending_policy(config),
        segment_bytes=config.segment_bytes,
        parked_bytes=config.parked_bytes,
        checkpoint_bytes=config.checkpoint_bytes,
        is_reread=config.switches.ckpt_reread,
        has_slab=config.switches.mmq_slab,
        num_swaps=config.num_swaps,
        least_probability=config.least_probability,
        pinned_bytes=_pinned_bytes(config),
    )


def _pinned_bytes(config: ServeConfig) -> int | None:
    """Whole pages: none is pinned in part."""
    budget_bytes = config.resident_budget_bytes
    return None if budget_bytes is None else budget_bytes - budget_bytes % mmap.PAGESIZE


def lends(plan: Plan) -> bool:
    """Whether any read borrows what is not its own."""
    return plan.lendable is not None or plan.options.policy.room_min_tokens != NEVER


def lending_policy(config: ServeConfig) -> LendingPolicy:
    switches = config.switches
    return LendingPolicy(
        room_min_tokens=switches.mtp_room_min,
        is_elastic=switches.prefill_elastic_loan,
        lends_block=switches.prefill_mtp_loan,
        lends_head=switches.prefill_head_loan,
        retains_startup=switches.prefill_retain_startup_chunk,
        repeat_min_tokens=switches.repeat_min_tokens if switches.prefill_repeat_loan else NEVER,
        is_verified=config.is_lent_verified,
        short_read_tokens=config.short_read,
    )
