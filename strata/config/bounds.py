"""Each value by itself: the range and grid it must be on, and what the model allows. Knows nothing of combinations."""

from collections.abc import Iterator

from strata.config.context import MIN_CONTEXT_TOKENS, choose_context
from strata.config.not_yet import advise
from strata.config.values import MAX_SWAPS, DeviceChoice, ModelFacts, ServeConfig
from strata.core.errors import Refusal
from strata.core.kv import BLOCK_NUMBERS
from strata.core.memory.shapes import CHUNK_GRID_TOKENS
from strata.core.programs import MAX_WINDOW_ROWS
from strata.core.units import GIB, KIB, MIB, align_up

SEGMENT_GRANULARITY_BYTES = 2 * MIB
"""Of a driver's virtual memory management (`lending.md` 3.2 is measured with it)."""
TWIN_PAGE_BYTES = 4 * KIB
MAX_TRACE_COMMANDS = 10_000_000
"""Some 10 GB of host memory."""


def check_values(config: ServeConfig) -> Iterator[Refusal]:
    """What is wrong whatever the model is, in the order of the fields."""
    yield from _check_card(config)
    if not 0 <= config.num_swaps <= MAX_SWAPS:
        yield _refuse("cache-swaps", f"{config.num_swaps} blobs", f"0 (none) to {MAX_SWAPS}")
    if config.warm_start_file == "":
        yield Refusal("warm-start refused: it is empty; give --warm-start a file")
    elif config.warm_start_file is not None and config.num_swaps == 0:
        yield Refusal(
            f"warm-start refused: without --cache-swaps nobody counts how often experts are read; give --cache-swaps 1 "
            f"to {MAX_SWAPS}, or leave --warm-start out"
        )
    if config.context_tokens is not None and config.context_tokens < MIN_CONTEXT_TOKENS:
        yield _refuse("ctx", f"{config.context_tokens} tokens", f"{MIN_CONTEXT_TOKENS} or more")
    chunk_tokens = _asked_chunk(config)
    if chunk_tokens is not None and (chunk_tokens < CHUNK_GRID_TOKENS or chunk_tokens % CHUNK_GRID_TOKENS):
        yield _refuse("prefill", f"{config.prefill} tokens", f"a multiple of {CHUNK_GRID_TOKENS} tokens")
    if config.short_read_tokens is not None and config.short_read_tokens < 0:
        yield _refuse_optional("short-read", f"{config.short_read_tokens} tokens", "0 or more")
    if config.parked_bytes < 0:
        yield _refuse("parked-mib", f"{config.parked_bytes / MIB:g} MiB", "0 (none) or more")
    if config.checkpoint_bytes < 0:
        yield _refuse("checkpoint-mib", f"{config.checkpoint_bytes / MIB:g} MiB", "0 (none) or more")
    if config.spec_rows is not None and not 1 <= config.spec_rows <= MAX_WINDOW_ROWS:
        yield _refuse_optional("spec", f"{config.spec_rows} rows", f"1 to {MAX_WINDOW_ROWS}")
    yield from _check_least_probability(config)
    yield from _check_server(config)
    if config.batch_slots is not None and config.batch_slots < 1:
        yield _refuse_optional("batch", f"{config.batch_slots} requests", "1 or more")
    if config.kv_resident_tokens is not None and config.kv_resident_tokens < 1:
        yield _refuse_optional("kv-resident", f"{config.kv_resident_tokens} tokens", "1 or more")


def _check_least_probability(config: ServeConfig) -> Iterator[Refusal]:
    value = repr(config.least_probability)
    if not 0 <= config.least_probability <= 1:
        yield _refuse("draft-p-min", value, "0 to 1")
    elif config.least_probability and config.mtp is None:
        remedy = advise(("give --mtp", "--mtp"), ("leave --draft-p-min out", None))
        yield Refusal(
            f"draft-p-min refused: draft-p-min={value} without --mtp: what is looked up has no probability; {remedy}"
        )


def _refuse(option: str, value: str, allowed: str) -> Refusal:
    return Refusal(f"{option} refused: {option}={value}; give --{option} {allowed}")


def _refuse_optional(option: str, value: str, allowed: str) -> Refusal:
    """Of an option that need not be given at all."""
    remedy = advise((f"give --{option} {allowed}", f"--{option}"), (f"leave --{option} out", None))
    return Refusal(f"{option} refused: {option}={value}; {remedy}")


def _asked_chunk(config: ServeConfig) -> int | None:
    exact = config.prefill.chunk_tokens
    return config.prefill.max_chunk_tokens if exact is None else exact


def _check_card(config: ServeConfig) -> Iterator[Refusal]:
    segment_bytes = config.vram_segment_bytes
    if segment_bytes is not None and (segment_bytes <= 0 or segment_bytes % SEGMENT_GRANULARITY_BYTES):
        allowed = f"a multiple of {SEGMENT_GRANULARITY_BYTES // MIB} MiB"
        yield _refuse("vram-segment-mib", f"{segment_bytes / MIB:g} MiB", allowed)
    twin_bytes = config.twin_segment_bytes
    if twin_bytes is not None and (twin_bytes <= 0 or twin_bytes % TWIN_PAGE_BYTES):
        allowed = f"a multiple of {TWIN_PAGE_BYTES // KIB} KiB"
        yield _refuse("twin-segment-kib", f"{twin_bytes / KIB:g} KiB", allowed)
    if config.device is DeviceChoice.CUDA and config.vram_bytes is None:
        yield Refusal("device=cuda refused: a card's arena has no size of its own; give --vram (see `strata doctor`)")
    if config.vram_bytes is not None and config.vram_bytes < config.segment_bytes:
        yield Refusal(
            f"vram refused: vram={config.vram_bytes:,} B is less than one segment of {config.segment_bytes:,} B; "
            "raise --vram",
            config.segment_bytes - config.vram_bytes,
        )
    elif config.segment_bytes > 0 and not config.arena_bytes:
        yield Refusal(
            f"vram refused: the default card is less than one segment of {config.segment_bytes:,} B; raise --vram or "
            "make segments smaller",
            config.segment_bytes,
        )
    if config.resident_budget_bytes is not None and config.resident_budget_bytes < 0:
        yield _refuse_optional("resident-budget-gib", f"{config.resident_budget_bytes / GIB:g} GiB", "0 or more")
    if config.min_cache_slots is not None and config.min_cache_slots < 1:
        yield _refuse("cache-min-slots", f"{config.min_cache_slots} slots", "1 or more")


def _check_server(config: ServeConfig) -> Iterator[Refusal]:
    if not config.host.strip():
        # To a socket, an empty address is every address of the machine.
        yield Refusal("host refused: it is empty; give --host an address (0.0.0.0 for every one), or leave --host out")
    if not 0 <= config.port <= 65_535:
        yield _refuse("port", f"{config.port}", "0 (any free port) to 65535")
    if config.api_key == "":
        yield Refusal("api-key refused: it is empty; give a key or leave --api-key out")
    if config.max_queued < 0:
        yield _refuse("queue", f"{config.max_queued} requests", "0 or more")
    if config.write_deadline_s <= 0:
        yield _refuse("write-deadline", f"{config.write_deadline_s:g} s", "more than 0")
    if config.shutdown_grace_s < 0:
        yield _refuse("shutdown-grace", f"{config.shutdown_grace_s:g} s", "0 or more")
    yield from _check_trace(config)


def _check_trace(config: ServeConfig) -> Iterator[Refusal]:
    if config.trace_file is not None and not config.trace_file.strip():
        yield Refusal("trace refused: it is empty; give --trace a file, or leave --trace out")
    if config.trace_commands is None:
        return
    if not 1 <= config.trace_commands <= MAX_TRACE_COMMANDS:
        yield _refuse("trace-commands", f"{config.trace_commands}", f"1 to {MAX_TRACE_COMMANDS}")
    if config.trace_file is None:
        yield Refusal("trace-commands refused: there is no --trace; give --trace FILE, or leave --trace-commands out")


def check_against_model(config: ServeConfig, facts: ModelFacts) -> Iterator[Refusal]:
    """What is wrong with single values for this model alone. Values that are wrong for every model are not judged."""
    context_tokens = choose_context(config, model_context_tokens=facts.context_tokens)
    if not isinstance(context_tokens, Refusal):
        longest_tokens = align_up(context_tokens, CHUNK_GRID_TOKENS)
        if config.prefill.chunk_tokens is not None and config.prefill.chunk_tokens > longest_tokens:
            yield Refusal(
                f"prefill refused: prefill={config.prefill} tokens, a context of {context_tokens:,} tokens never fills "
                f"more than {longest_tokens:,}; lower --prefill or give --prefill auto:{config.prefill}"
            )
    elif config.context_tokens is not None and config.context_tokens >= MIN_CONTEXT_TOKENS:
        yield context_tokens
    slots = config.min_cache_slots
    if slots is not None and slots > facts.num_expert_pairs:
        yield Refusal(
            f"cache-min-slots refused: cache-min-slots={slots:,} slots, the model has {facts.num_expert_pairs:,} "
            "experts in all its layers; lower --cache-min-slots"
        )
    elif slots is not None and 1 <= slots < facts.num_experts_used:
        yield Refusal(
            f"cache-min-slots refused: cache-min-slots={slots:,} slots, one token uses {facts.num_experts_used:,} "
            "experts of a layer; raise --cache-min-slots"
        )
    ring_slots = config.switches.prefill_ring
    if ring_slots is not None and ring_slots > facts.num_expert_pairs:
        yield Refusal(
            f"prefill ring refused: STRATA_PREFILL_RING={ring_slots:,} slots, the model has "
            f"{facts.num_expert_pairs:,} experts in all its layers; lower STRATA_PREFILL_RING or unset it"
        )
    if not config.kv_format.fits(head_dim=facts.head_dim):
        yield Refusal(
            f"kv refused: kv={config.kv_format}, the model's heads of {facts.head_dim:,} numbers are not whole blocks "
            f"of {BLOCK_NUMBERS}; give --kv f16"
        )
