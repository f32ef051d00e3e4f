"""What a doctor says: findings, and the judgement of host facts. Pure: facts come from `doctor_sources.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from strata.core.units import GIB, MIB
from strata.sizes import format_bytes

TWIN_NEEDS_BYTES = 2 * GIB
"""Of available memory, below which the twin has room for little more than the demo: its model and card, and PyTorch."""
SHM_EXPECTED_BYTES = 64 * MIB
LITTLE_PINNED_BYTES = 8 * GIB


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Finding:
    """`name` is for scripts and stays; `text` and `remedy` are for people; `facts` are the numbers behind both, sizes
    in bytes. `remedy` is "" only where all is well."""

    name: str
    level: Level
    text: str
    remedy: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert (self.remedy == "") == (self.level is Level.OK), self


def ok(name: str, text: str, /, **facts: object) -> Finding:
    return Finding(name, Level.OK, text, facts=facts)


def warn(name: str, text: str, remedy: str, /, **facts: object) -> Finding:
    return Finding(name, Level.WARN, text, remedy, facts)


def missing(name: str, text: str, remedy: str, /, **facts: object) -> Finding:
    return Finding(name, Level.MISSING, text, remedy, facts)


def judge_host(*, num_cores: int, total_bytes: int | None, available_bytes: int | None) -> Finding:
    facts = {"num_cores": num_cores, "total_bytes": total_bytes, "available_bytes": available_bytes}
    if available_bytes is None:
        return warn("host", f"{num_cores} cores, memory unknown", "strata needs Linux with /proc mounted", **facts)
    total = "" if total_bytes is None else f" of {format_bytes(total_bytes)}"
    return ok("host", f"{num_cores} cores, {format_bytes(available_bytes)}{total} of memory available", **facts)


def judge_memlock(*, limit_bytes: int | None, available_bytes: int | None) -> Finding:
    """`limit_bytes` None: no limit. How much of the weights a card could read from this host."""
    known = [size for size in (limit_bytes, available_bytes) if size is not None]
    could_bytes = min(known, default=None)
    facts = {"limit_bytes": limit_bytes, "pinnable_bytes": could_bytes}
    if limit_bytes is None:
        could = "" if could_bytes is None else f", so up to the {format_bytes(could_bytes)} available could be pinned"
        return ok("memlock", f"no limit on locked memory{could}", **facts)
    text = f"locked memory is limited to {format_bytes(limit_bytes)}"
    if limit_bytes >= LITTLE_PINNED_BYTES or could_bytes != limit_bytes:
        return ok("memlock", text, **facts)
    return warn(
        "memlock",
        f"{text}: a card may be refused pinned memory beyond it, and the weights are pinned whole unless "
        "--resident-budget-gib says less",
        "raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity, or --ulimit memlock=-1 for a container",
        **facts,
    )


def judge_shm(size_bytes: int | None) -> Finding:
    """Weights never lie there: a small one harms nobody but what PyTorch or NCCL may start."""
    if size_bytes is None:
        return warn(
            "shm", "/dev/shm is not there; strata does not use it", "mount one where other programs do", size_bytes=None
        )
    text = f"/dev/shm has {format_bytes(size_bytes)}; weights do not lie there"
    if size_bytes < SHM_EXPECTED_BYTES:
        remedy = "only other programs need more: --shm-size for a container"
        return warn("shm", text, remedy, size_bytes=size_bytes)
    return ok("shm", text, size_bytes=size_bytes)


def judge_package(package: str, version: str | None, *, needed_for: str, remedy: str, is_vital: bool = True) -> Finding:
    name = f"package {package}"
    if version is not None:
        return ok(name, f"{package} {version}", version=version)
    judge = missing if is_vital else warn
    return judge(name, f"{package} is not installed; needed for {needed_for}", remedy, version=None)


def judge_twin(*, has_torch: bool, is_linux: bool, available_bytes: int | None) -> Finding:
    """Whether the virtual card can serve here: the body that needs no GPU."""
    if not is_linux:
        return missing("twin", "the twin maps memory as Linux does", "run strata on Linux", is_ready=False)
    if not has_torch:
        return missing(
            "twin", "the twin computes with torch, which is missing", "pip install -e . in the checkout", is_ready=False
        )
    if available_bytes is not None and available_bytes < TWIN_NEEDS_BYTES:
        return warn(
            "twin",
            f"the twin can serve, in {format_bytes(available_bytes)} of memory",
            "take a small model and a small --vram: card and weights are host memory",
            is_ready=True,
        )
    return ok("twin", "the twin can serve: a virtual card on the CPU", is_ready=True)
