"""What a user may ask of a server, and what is refused before anything is loaded. Pure: no environment, no file."""

from dataclasses import dataclass
from enum import StrEnum

from strata.core.errors import Refusal
from strata.core.kv import KvFormat
from strata.core.units import MIB

MAX_DEFAULT_CONTEXT_TOKENS = 32_768
DEFAULT_TWIN_VRAM_BYTES = 256 * MIB
TWIN_SEGMENT_BYTES = 2 * MIB
"""Physical segments of the virtual card: the granularity of the driver's own virtual memory management."""


class DeviceChoice(StrEnum):
    AUTO = "auto"
    TWIN = "twin"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """`vram_bytes` and `context_tokens` None: chosen from the device and the model."""

    model: str
    device: DeviceChoice = DeviceChoice.AUTO
    vram_bytes: int | None = None
    context_tokens: int | None = None
    kv_format: KvFormat = KvFormat.F16
    host: str = "127.0.0.1"
    port: int = 8080
    api_key: str | None = None
    max_queued: int = 16

    @property
    def arena_bytes(self) -> int:
        """Whole segments of the card."""
        vram_bytes = DEFAULT_TWIN_VRAM_BYTES if self.vram_bytes is None else self.vram_bytes
        return vram_bytes // TWIN_SEGMENT_BYTES * TWIN_SEGMENT_BYTES


def check_config(config: ServeConfig) -> list[Refusal]:
    """Everything that is wrong with `config` by itself, in the order of its fields; empty when nothing is."""
    refusals: list[Refusal] = []
    if config.device is DeviceChoice.CUDA:
        refusals.append(
            Refusal("device refused: device=cuda is not in this version; use --device twin, a virtual card on the CPU")
        )
    if config.vram_bytes is not None and config.vram_bytes < TWIN_SEGMENT_BYTES:
        refusals.append(
            Refusal(
                f"vram refused: vram={config.vram_bytes:,} B is less than one segment of {TWIN_SEGMENT_BYTES:,} B; "
                "raise --vram",
                TWIN_SEGMENT_BYTES - config.vram_bytes,
            )
        )
    if config.context_tokens is not None and config.context_tokens < 2:
        refusals.append(Refusal(f"ctx refused: ctx={config.context_tokens} tokens; give --ctx 2 or more"))
    if not 0 <= config.port <= 65_535:
        refusals.append(Refusal(f"port refused: port={config.port}; give --port 0 (any free port) to 65535"))
    if config.max_queued < 0:
        refusals.append(Refusal(f"queue refused: queue={config.max_queued} requests; give --queue 0 or more"))
    if config.api_key == "":
        refusals.append(Refusal("api-key refused: it is empty; give a key or leave --api-key out"))
    return refusals


def choose_context(config: ServeConfig, *, model_context_tokens: int) -> int | Refusal:
    """Tokens of context to plan for: the model's, at most MAX_DEFAULT_CONTEXT_TOKENS unless asked for."""
    if config.context_tokens is None:
        return min(model_context_tokens, MAX_DEFAULT_CONTEXT_TOKENS)
    if config.context_tokens > model_context_tokens:
        return Refusal(
            f"ctx refused: ctx={config.context_tokens:,} tokens, the model has {model_context_tokens:,}; lower --ctx"
        )
    return config.context_tokens
