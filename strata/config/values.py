"""What a user may ask of a server. Values only: where they come from is `commands`' business, what is wrong with them
`refusals.py`'s. No environment, no file."""

from dataclasses import dataclass, field
from enum import StrEnum

from strata.config.switches import LendingSwitches
from strata.core.commands import MAX_COPY_GROUP
from strata.core.kv import KvFormat
from strata.core.units import GIB, MIB

DEFAULT_TWIN_VRAM_BYTES = 256 * MIB
DEFAULT_SEGMENT_BYTES = 64 * MIB
"""Physical segments of a segmented arena (`lending.md` 3.5)."""
TWIN_SEGMENT_BYTES = 2 * MIB
"""Segments of the virtual card while its arena is not segmented: the granularity of a driver's own virtual memory
management."""
DEFAULT_PARKED_BYTES = GIB
"""Host memory for parked conversations (`lending.md` 3.5)."""
DEFAULT_CHECKPOINT_BYTES = 512 * MIB
"""Host memory for checkpoints of recurrent state (`lending.md` 3.5)."""
DEFAULT_SHORT_READ_TOKENS = 64
MAX_SWAPS = MAX_COPY_GROUP
"""Blobs of the expert cache that are exchanged at once: what one command copies."""
DEFAULT_DRAFT_ROWS = 3
"""Rows of a window with a drafter, one of them sampled and the others drafted; without one, nothing is drafted unless
it is asked for."""


DEFAULT_TRACE_COMMANDS = 20_000
"""Entries of a trace's tail: some minutes of a reply, or the reading of a long prompt."""


class Command(StrEnum):
    """Who asks. `plan` judges as if it served."""

    SERVE = "serve"
    DEMO = "demo"
    BENCH = "bench"
    PLAN = "plan"
    INSPECT = "inspect"

    @property
    def is_server(self) -> bool:
        return self is not Command.INSPECT


class DeviceChoice(StrEnum):
    AUTO = "auto"
    TWIN = "twin"
    CUDA = "cuda"
    HIP = "hip"

    @property
    def is_virtual(self) -> bool:
        return self in (DeviceChoice.AUTO, DeviceChoice.TWIN)


@dataclass(frozen=True, slots=True)
class Prefill:
    """The chunk of a prompt: exactly `chunk_tokens`, or the largest that fits up to `max_chunk_tokens`; the planner's
    choice where both are None."""

    chunk_tokens: int | None = None
    max_chunk_tokens: int | None = None

    def __str__(self) -> str:
        if self.chunk_tokens is not None:
            return str(self.chunk_tokens)
        return "auto" if self.max_chunk_tokens is None else f"auto:{self.max_chunk_tokens}"


@dataclass(frozen=True, slots=True)
class Mtp:
    """The drafter: the model's own NextN block, or the one in `file`."""

    file: str | None = None


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """None: not asked for, so the planner or the device chooses."""

    model: str
    device: DeviceChoice = DeviceChoice.AUTO
    vram_bytes: int | None = None
    vram_segment_bytes: int | None = None
    twin_segment_bytes: int | None = None
    is_vram_elastic: bool = False
    resident_budget_bytes: int | None = None
    min_cache_slots: int | None = None
    num_swaps: int = 0
    warm_start_file: str | None = None
    context_tokens: int | None = None
    kv_format: KvFormat = KvFormat.F16
    prefill: Prefill = Prefill()
    short_read_tokens: int | None = None
    parked_bytes: int = DEFAULT_PARKED_BYTES
    checkpoint_bytes: int = DEFAULT_CHECKPOINT_BYTES
    mtp: Mtp | None = None
    spec_rows: int | None = None
    least_probability: float = 0.0
    is_lent_verified: bool = False
    host: str = "127.0.0.1"
    port: int = 8080
    api_key: str | None = field(default=None, repr=False)
    max_queued: int = 16
    write_deadline_s: float = 30.0
    shutdown_grace_s: float = 20.0
    trace_file: str | None = None
    trace_commands: int | None = None
    batch_slots: int | None = None
    has_pipeline_windows: bool = False
    has_layer_split: bool = False
    has_peer_cache: bool = False
    has_remote_cache: bool = False
    has_helper_cache: bool = False
    kv_resident_tokens: int | None = None
    has_prefill_head_alias: bool = False
    switches: LendingSwitches = field(default_factory=LendingSwitches)

    @property
    def segment_bytes(self) -> int:
        """Physical segments of the card. A size for the twin alone comes before a size for every card."""
        if self.twin_segment_bytes is not None and self.device.is_virtual:
            return self.twin_segment_bytes
        if self.vram_segment_bytes is not None:
            return self.vram_segment_bytes
        return DEFAULT_SEGMENT_BYTES if self.is_vram_elastic else TWIN_SEGMENT_BYTES

    @property
    def arena_bytes(self) -> int:
        """Whole segments of the card."""
        vram_bytes = DEFAULT_TWIN_VRAM_BYTES if self.vram_bytes is None else self.vram_bytes
        return vram_bytes // self.segment_bytes * self.segment_bytes

    @property
    def kept_commands(self) -> int:
        """Entries that a trace keeps at most."""
        return DEFAULT_TRACE_COMMANDS if self.trace_commands is None else self.trace_commands

    @property
    def short_read(self) -> int:
        """Fresh tokens up to which windows read a prompt; by default none where windows have one row."""
        if self.short_read_tokens is not None:
            return self.short_read_tokens
        return DEFAULT_SHORT_READ_TOKENS if self.window_rows > 1 else 0

    @property
    def window_rows(self) -> int:
        """Rows of a decode window at most (`--spec`)."""
        if self.spec_rows is not None:
            return self.spec_rows
        return 1 if self.mtp is None else DEFAULT_DRAFT_ROWS


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What refusals need to know of the model. `num_expert_pairs`: blobs of all layers; 0 in a dense model.
    `num_nextn_blocks`: in the model's own files. `head_dim`: numbers in one head's key or value."""

    context_tokens: int
    num_expert_pairs: int
    num_experts_used: int
    has_output_head: bool  # a tensor of its own, not the token embedding
    num_nextn_blocks: int
    head_dim: int


def slab_notices(config: ServeConfig) -> list[str]:
    """A start-up line for a slab that nobody would work in."""
    if not (config.switches.mmq_slab and config.device.is_virtual):
        return []
    return ["STRATA_MMQ_SLAB=1 has no effect on the twin: its programs need no scratch on the card"]
