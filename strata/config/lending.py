"""Which lending switches may be on together, and with which options (`lending.md` 3.1 to 3.3). All that applies is
said, so that one start shows everything there is to mend. The slab refuses nothing here: whether a layout has a tail is
the planner's to say. No remedy names what this version does not do (`not_yet.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from strata.config.not_yet import advise, is_built
from strata.config.values import Command, ModelFacts, ServeConfig
from strata.core.errors import Refusal
from strata.core.units import MIB

MIN_ELASTIC_SEGMENT_BYTES = 64 * MIB
MIN_DRAFT_ROWS = 2


@dataclass(frozen=True, slots=True)
class Clash:
    """An option that some loans cannot be combined with. `reason` says why, for the room."""

    option: str
    is_given: Callable[[ServeConfig], bool]
    room_reason: str | None = None

    @property
    def remedy(self) -> str:
        return "leave one of them out" if is_built(self.option) else f"leave {self.option} out"


CLASHES = (
    Clash("--batch", lambda config: config.batch_slots is not None, "slot drafters share the block"),
    Clash("--pipeline-windows", lambda config: config.has_pipeline_windows),
    Clash("--layer-split", lambda config: config.has_layer_split),
    Clash("--peer-cache", lambda config: config.has_peer_cache),
    Clash("--remote-cache", lambda config: config.has_remote_cache),
    Clash("--helper-cache", lambda config: config.has_helper_cache),
    Clash("--prefill-head-alias", lambda config: config.has_prefill_head_alias),
)
"""The elastic loan refuses them all; the room only those that have a reason."""


def check_lending(config: ServeConfig, *, command: Command, facts: ModelFacts | None) -> Iterator[Refusal]:
    """`facts` None: the model is not known, and what depends on it is not judged."""
    yield from check_place(config, command=command)
    yield from _check_room(config)
    yield from _check_elastic(config)
    yield from _check_parts(config)
    if facts is not None:
        yield from _check_model(config, facts)


def check_place(config: ServeConfig, *, command: Command) -> Iterator[Refusal]:
    """Room and elastic loan live in a server."""
    if command.is_server:
        return
    where = f"outside the server, in {command}; unset it, or run serve"
    if config.switches.is_room_on:
        yield Refusal(f"room refused: STRATA_MTP_ROOM_MIN={config.switches.mtp_room_min} tokens {where}")
    if config.switches.prefill_elastic_loan:
        yield Refusal(f"elastic loan refused: STRATA_PREFILL_ELASTIC_LOAN=1 {where}")


def refused_by_loans(config: ServeConfig) -> frozenset[str]:
    """Options of CLASHES that are refused because of a switch that is on."""
    switches = config.switches
    return frozenset(
        clash.option
        for clash in CLASHES
        if clash.is_given(config)
        and (switches.prefill_elastic_loan or (switches.is_room_on and clash.room_reason is not None))
    )


def _check_room(config: ServeConfig) -> Iterator[Refusal]:
    if not config.switches.is_room_on:
        return
    what = f"room refused: STRATA_MTP_ROOM_MIN={config.switches.mtp_room_min} tokens"
    if config.mtp is None:
        remedy = advise(("give --mtp", "--mtp"), ("unset it", None))
        yield Refusal(f"{what} without --mtp: there is no drafter whose block could be lent; {remedy}")
    for clash in CLASHES:
        if clash.room_reason is not None and clash.is_given(config):
            yield Refusal(f"{what} with {clash.option}: {clash.room_reason}; {clash.remedy}")


def _check_elastic(config: ServeConfig) -> Iterator[Refusal]:
    if not config.switches.prefill_elastic_loan:
        return
    what = "elastic loan refused: STRATA_PREFILL_ELASTIC_LOAN=1"
    if not config.is_vram_elastic:
        remedy = advise(("give --vram-elastic", "--vram-elastic"), ("unset it", None))
        yield Refusal(f"{what} without --vram-elastic: only a segmented arena can be remapped; {remedy}")
    is_lifted = config.twin_segment_bytes is not None and config.device.is_virtual
    if config.vram_segment_bytes is not None and not is_lifted:
        missing_bytes = MIN_ELASTIC_SEGMENT_BYTES - config.vram_segment_bytes
        if missing_bytes > 0:
            yield Refusal(
                f"{what} with vram-segment-mib={config.vram_segment_bytes // MIB} MiB, at least "
                f"{MIN_ELASTIC_SEGMENT_BYTES // MIB} MiB are needed; raise --vram-segment-mib, or describe a small "
                "virtual card with --twin-segment-kib"
            )
    for clash in CLASHES:
        if clash.is_given(config):
            yield Refusal(f"{what} with {clash.option}; {clash.remedy}")


def _check_parts(config: ServeConfig) -> Iterator[Refusal]:
    """The five switches beside the master."""
    switches = config.switches
    parts = (
        ("STRATA_PREFILL_MTP_LOAN=1", switches.prefill_mtp_loan),
        ("STRATA_PREFILL_HEAD_LOAN=1", switches.prefill_head_loan),
        ("STRATA_PREFILL_RETAIN_STARTUP_CHUNK=1", switches.prefill_retain_startup_chunk),
        ("STRATA_PREFILL_REPEAT_LOAN=1", switches.prefill_repeat_loan),
        (
            f"STRATA_PREFILL_REPEAT_MIN_TOKENS={switches.prefill_repeat_min_tokens}",
            switches.prefill_repeat_min_tokens is not None,
        ),
    )
    if not switches.prefill_elastic_loan:
        for name, is_on in parts:
            if is_on:
                remedy = advise(("set that one too", "STRATA_PREFILL_ELASTIC_LOAN"), ("unset this one", None))
                yield Refusal(f"elastic loan refused: {name} without STRATA_PREFILL_ELASTIC_LOAN=1; {remedy}")
    if switches.prefill_repeat_loan:
        for name, is_on in parts[:2]:
            if not is_on:
                remedy = advise(("set that one too", name.removesuffix("=1")), ("unset this one", None))
                yield Refusal(f"repeat loan refused: STRATA_PREFILL_REPEAT_LOAN=1 without {name}; {remedy}")
    for (name, is_on), loan in zip(parts[:2], ("mtp loan", "head loan"), strict=True):
        if is_on and config.mtp is None:
            remedy = advise(("give --mtp", "--mtp"), ("unset it", None))
            yield Refusal(f"{loan} refused: {name} without --mtp; {remedy}")
        if is_on and config.window_rows < MIN_DRAFT_ROWS:
            remedy = advise(("raise --spec (with --mtp it is 3 by default)", "--spec"), ("unset it", None))
            yield Refusal(
                f"{loan} refused: {name} with spec={config.window_rows} rows, at least {MIN_DRAFT_ROWS} are needed; "
                f"{remedy}"
            )


def _check_model(config: ServeConfig, facts: ModelFacts) -> Iterator[Refusal]:
    """A drafter in a file of its own brings its own block."""
    num_blocks = 1 if config.mtp is not None and config.mtp.file is not None else facts.num_nextn_blocks
    if config.mtp is not None and num_blocks != 1:
        found = f"{num_blocks} NextN blocks, one can be the drafter" if num_blocks else "no NextN block"
        remedy = advise(("name a drafter with --mtp FILE", "--mtp"), ("leave --mtp out", None))
        yield Refusal(f"mtp refused: the model has {found}; {remedy}")
    if config.switches.prefill_mtp_loan and not num_blocks:
        yield Refusal("mtp loan refused: STRATA_PREFILL_MTP_LOAN=1, the model has no NextN block; unset it")
    if config.switches.prefill_head_loan and not facts.has_output_head:
        yield Refusal(
            "head loan refused: STRATA_PREFILL_HEAD_LOAN=1, the model has no output head of its own (its token "
            "embedding is used, which every read needs); unset it"
        )
