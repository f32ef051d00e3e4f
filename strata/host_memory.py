"""How much memory this host has left, for a virtual card that lives in it. Linux; knows nothing of models."""

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available_bytes(*, meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Bytes that can be taken without swapping, within the limit of our control group (v2) where there is one; None
    where the system does not say."""
    known = [size for size in (_available(meminfo), _left_in_group(cgroup)) if size is not None]
    return min(known, default=None)


def _available(meminfo: Path) -> int | None:
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    values = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(values[0]) * 1024 if values else None


def _left_in_group(cgroup: Path) -> int | None:
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return None if limit == "max" else max(0, int(limit) - int(used))
