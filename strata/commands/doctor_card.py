"""The judgement of what a card needs and has: driver, cards, the `gpu` extra, NVML, compiled kernels, speeds. Pure."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from strata.card_speed import CardSpeed
from strata.commands.cuda_driver import CardFacts, DriverFacts
from strata.commands.doctor_findings import Finding, judge_package, missing, ok, warn
from strata.sizes import format_bytes

INSTALL_EXTRA = "pip install -e '.[gpu]' in the checkout"
LEAST_DRIVER_MAJOR = 12
LEAST_COMPUTE_CAPABILITY = 80
_CUDA_BUILD = re.compile(r"\+cu(?P<digits>[0-9]{2,4})$")


@dataclass(frozen=True, slots=True)
class NvmlCard:
    """For display only: sizes that matter come from the device that was opened."""

    uuid: str
    name: str
    used_bytes: int


def judge_driver(driver: DriverFacts | str, *, torch_version: str | None) -> Finding:
    """`driver` is why there is none, or what there is. A driver serves every CUDA of its major version and before, so
    it must reach the major version that this PyTorch was built with."""
    if isinstance(driver, str):
        return missing("driver", f"no CUDA driver: {driver}", _DRIVER_REMEDY, version=None, num_cards=0)
    shown = f"{driver.version // 1000}.{driver.version % 1000 // 10}"
    facts = {"version": driver.version, "num_cards": len(driver.cards)}
    build = cuda_build(torch_version)
    needed = max(LEAST_DRIVER_MAJOR, build or 0)
    if driver.version // 1000 < needed:
        whose = f"this PyTorch ({torch_version})" if build == needed else "strata"
        text = f"the driver serves CUDA up to {shown}, {whose} needs {needed}"
        return missing("driver", text, f"install a driver that serves CUDA {needed} or newer", **facts)
    if not driver.cards:
        remedy = "check CUDA_VISIBLE_DEVICES and the devices that the container was given (--gpus all)"
        return missing("driver", f"CUDA up to {shown}, but it shows no card", remedy, **facts)
    return ok("driver", f"CUDA up to {shown}, {len(driver.cards)} of its cards to be seen", **facts)


_DRIVER_REMEDY = (
    "without a card nothing is to be done; with one, install NVIDIA's driver, or give the container its devices"
)


def cuda_build(torch_version: str | None) -> int | None:
    """The major version of CUDA that a PyTorch was built with, as its version says (`2.13.0+cu130`)."""
    match = _CUDA_BUILD.search(torch_version or "")
    return int(match["digits"][:-1]) if match else None


def judge_card(card: CardFacts) -> Finding:
    facts = {
        "ordinal": card.ordinal,
        "name": card.name,
        "uuid": card.uuid,
        "compute_capability": card.compute_capability,
        "total_bytes": card.total_bytes,
        "has_vmm": card.has_vmm,
        "granularity_bytes": card.granularity_bytes,
    }
    name, shown = f"card {card.ordinal}", f"{card.name}, {format_bytes(card.total_bytes)}, {card.uuid}"
    if not card.has_vmm:
        text = f"{shown} has no virtual memory management"
        return missing(name, text, "use another card, or a driver mode that has it (not vGPU without it)", **facts)
    if card.compute_capability < LEAST_COMPUTE_CAPABILITY:
        text = f"{shown} is sm_{card.compute_capability}, the kernels need sm_{LEAST_COMPUTE_CAPABILITY}"
        return missing(name, text, "use a card of the Ampere generation or newer", **facts)
    grid = "" if card.granularity_bytes is None else f", maps {format_bytes(card.granularity_bytes)} at a time"
    return ok(name, f"{shown}, sm_{card.compute_capability}{grid}", **facts)


def judge_gpu_packages(torch: str | None, triton: str | None, bindings: str | None) -> list[Finding]:
    """Of a machine with a card. A PyTorch without CUDA is no PyTorch for it."""
    findings = []
    if torch is not None and torch.endswith("+cpu"):
        text, remedy = f"torch {torch} was built without CUDA", "install a CUDA build of torch from pytorch.org"
        findings.append(missing("package torch-cuda", text, remedy, version=torch))
    for package, version in (("triton", triton), ("cuda-bindings", bindings)):
        findings.append(judge_package(package, version, needed_for="--device cuda", remedy=INSTALL_EXTRA))
    return findings


def judge_nvml(rows: Sequence[NvmlCard] | str | None, cards: Sequence[CardFacts]) -> Finding:
    """`rows` is None without the package, or why NVML failed. Never more than a warning: only display hangs on it."""
    if rows is None:
        text = "nvidia-ml-py is not installed; only display needs it"
        return warn("nvml", text, INSTALL_EXTRA, cards=None)
    if isinstance(rows, str):
        text = f"NVML failed ({rows}); only display needs it"
        return warn("nvml", text, "if cards vanished from a container, restart it; serving goes on without", cards=None)
    by_uuid = {row.uuid: row for row in rows}
    seen = {card.uuid: by_uuid[card.uuid].used_bytes for card in cards if card.uuid in by_uuid}
    if len(seen) < len(cards):
        text = f"NVML knows {len(seen)} of {len(cards)} cards by their UUID"
        return warn("nvml", text, "MIG slices have no row of their own; sizes come from the driver", cards=seen)
    return ok("nvml", ", ".join(f"{uuid}: {format_bytes(used)} used" for uuid, used in seen.items()), cards=seen)


def judge_kernels(compiled: Collection[str], kernels: Collection[str], *, compute_capability: int) -> Finding:
    """`compiled`: kernels of ours in triton's cache for this generation. A start compiles what is not there."""
    here = sorted(set(compiled) & set(kernels))
    absent = sorted(set(kernels) - set(compiled))
    facts = {"compute_capability": compute_capability, "compiled": here, "not_compiled": absent}
    text = f"{len(here)} of {len(kernels)} kernels are compiled for sm_{compute_capability}"
    if not absent:
        return ok("kernels", text, **facts)
    return warn("kernels", text, "the first start compiles those of its model, which takes a minute or two", **facts)


def judge_speed(speed: CardSpeed | str, *, ordinal: int) -> Finding:
    name = f"speed {ordinal}"
    if isinstance(speed, str):
        return warn(name, f"not measured: {speed}", "mend what is missing above, then ask again")
    facts = {
        "free_bytes": speed.free_bytes,
        "pinned_bytes": speed.pinned_bytes,
        "link_gb_s": round(speed.link_gb_s, 2),
        "hbm_gb_s": round(speed.hbm_gb_s, 2),
    }
    free = format_bytes(speed.free_bytes)
    text = f"link {speed.link_gb_s:.1f} GB/s, card memory {speed.hbm_gb_s:,.0f} GB/s, {free} free"
    if speed.pinned_bytes < speed.asked_bytes:
        short = f"only {speed.pinned_bytes:,} B of {speed.asked_bytes:,} B could be pinned"
        return warn(name, f"{text}; {short}", "raise the memlock limit or give the container more", **facts)
    return ok(name, text, **facts)
