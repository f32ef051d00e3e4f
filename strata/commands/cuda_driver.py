"""The CUDA driver as far as it can be asked without a context and without any package: which version, which cards.

Talks to libcuda by ctypes, so that a doctor can tell a missing driver from a missing package. Opens nothing and holds
nothing; sizes are those of the devices that the driver shows to this process (CUDA_VISIBLE_DEVICES, MIG slices).
"""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

LIBRARY = "libcuda.so.1"

# Attributes and structures of the driver's C interface (cuda.h).
_CC_MAJOR, _CC_MINOR, _VMM, _MULTIPROCESSORS, _SHARED_OPTIN = 75, 76, 102, 16, 97
_PINNED, _ON_DEVICE, _MINIMUM = 1, 1, 0


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32_data", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


@dataclass(frozen=True, slots=True)
class CardFacts:
    """`granularity_bytes` is None where the driver does not say; `compute_capability` is 90 for 9.0."""

    ordinal: int
    name: str
    uuid: str
    compute_capability: int
    total_bytes: int
    has_vmm: bool
    granularity_bytes: int | None


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """`version`: the newest CUDA that the driver serves, 13000 for 13.0."""

    version: int
    cards: tuple[CardFacts, ...]


class NoDriver(Exception):
    """The driver is not there, or does not work; says why."""


def read_driver(load: Callable[[str], Any] = ctypes.CDLL) -> DriverFacts:
    """Raises NoDriver."""
    try:
        library = load(LIBRARY)
    except OSError as error:
        raise NoDriver(f"{LIBRARY} cannot be loaded: {error}") from None
    version, count = ctypes.c_int(), ctypes.c_int()
    _call(library, "cuDriverGetVersion", ctypes.byref(version))
    _call(library, "cuInit", 0)
    _call(library, "cuDeviceGetCount", ctypes.byref(count))
    return DriverFacts(version.value, tuple(_read_card(library, ordinal) for ordinal in range(count.value)))


def _read_card(library: Any, ordinal: int) -> CardFacts:
    device, total = ctypes.c_int(), ctypes.c_size_t()
    name, uuid = ctypes.create_string_buffer(128), ctypes.create_string_buffer(16)
    _call(library, "cuDeviceGet", ctypes.byref(device), ordinal)
    _call(library, "cuDeviceGetName", name, 128, device)
    _call(library, "cuDeviceGetUuid", uuid, device)
    _call(library, "cuDeviceTotalMem_v2", ctypes.byref(total), device)
    major, minor, has_vmm = (_attribute(library, kind, device) for kind in (_CC_MAJOR, _CC_MINOR, _VMM))
    return CardFacts(
        ordinal,
        name.value.decode("utf-8", "replace"),
        show_uuid(uuid.raw),
        10 * major + minor,
        total.value,
        bool(has_vmm),
        _granularity(library, ordinal) if has_vmm else None,
    )


def show_uuid(raw: bytes) -> str:
    """As NVML and nvidia-smi write it."""
    digits = raw.hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _attribute(library: Any, kind: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    _call(library, "cuDeviceGetAttribute", ctypes.byref(value), kind, device)
    return value.value


def _granularity(library: Any, ordinal: int) -> int | None:
    properties = _AllocationProperties(type=_PINNED, location=_Location(_ON_DEVICE, ordinal))
    size = ctypes.c_size_t()
    try:
        _call(library, "cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(properties), _MINIMUM)
    except NoDriver:
        return None
    return size.value


def _call(library: Any, name: str, *arguments: Any) -> None:
    try:
        code = getattr(library, name)(*arguments)
    except AttributeError:
        raise NoDriver(f"{LIBRARY} has no {name}: it is older than what strata needs") from None
    if code:
        raise NoDriver(f"{name} failed: {_error_name(library, code)}")


def _error_name(library: Any, code: int) -> str:
    text = ctypes.c_char_p()
    with suppress(AttributeError):
        library.cuGetErrorName(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"CUresult {code}"
