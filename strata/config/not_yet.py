"""What this version knows and does not do: one table, from which a row goes when its mechanism comes. Nothing that was
asked for is ignored in silence."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from strata.config.values import DeviceChoice, ServeConfig
from strata.core.errors import Refusal


@dataclass(frozen=True, slots=True)
class NotYet:
    """`asked` is what was asked for, as it is written, or None when it was not. `part`: the values of `name` that are
    meant, "" for all of them."""

    name: str
    asked: Callable[[ServeConfig], object]
    remedy: str = ""
    part: str = ""

    def refusal(self, value: object) -> Refusal:
        written = self.name if value is True else f"{self.name}={value}"
        return Refusal(f"{written} is not in this version; {self.remedy or f'leave {self.name} out'}")


def _device(config: ServeConfig) -> object:
    return config.device if config.device is DeviceChoice.HIP else None


def _flag(name: str, field: str) -> NotYet:
    return NotYet(name, lambda config: getattr(config, field) or None)


def _value(name: str, field: str) -> NotYet:
    return NotYet(name, lambda config: getattr(config, field))


NOT_YET = (
    NotYet("--device", _device, "give --device twin, a virtual card on the CPU, or cuda", "hip"),
    _value("--batch", "batch_slots"),
    _flag("--pipeline-windows", "has_pipeline_windows"),
    _flag("--layer-split", "has_layer_split"),
    _flag("--peer-cache", "has_peer_cache"),
    _flag("--remote-cache", "has_remote_cache"),
    _flag("--helper-cache", "has_helper_cache"),
    _value("--kv-resident", "kv_resident_tokens"),
    _flag("--prefill-head-alias", "has_prefill_head_alias"),
)

_NAMES = frozenset(row.name for row in NOT_YET)


def is_built(name: str) -> bool:
    """Whether it makes sense to recommend the option or switch `name`."""
    return name not in _NAMES


def advise(*remedies: tuple[str, str | None]) -> str:
    """Remedies as (text, the option or switch that it recommends), without those that would be refused in their turn.
    One at least must recommend nothing."""
    return ", or ".join(text for text, recommended in remedies if recommended is None or is_built(recommended))


def check_built(config: ServeConfig, *, refused: Collection[str] = ()) -> Iterator[Refusal]:
    """One line for each thing asked for that this version does not do, but for options that were `refused` already."""
    for row in NOT_YET:
        value = row.asked(config)
        if value is not None and row.name not in refused:
            yield row.refusal(value)
