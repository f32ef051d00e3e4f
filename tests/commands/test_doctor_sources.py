"""Each source of a doctor's facts on a machine made up for it: files, a driver's library, NVML, triton's cache."""

import ctypes
import json
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernels.triton
from strata.commands import doctor_sources as sources
from strata.commands.cuda_driver import CardFacts, DriverFacts, NoDriver, read_driver
from strata.commands.doctor_card import NvmlCard


class Library:
    """libcuda with one card. `refuses`: name -> code; `lacks`: functions that it does not have."""

    def __init__(self, refuses=(), lacks=()):
        self._refuses, self._lacks = dict(refuses), set(lacks)

    def __getattr__(self, name):
        if name in self._lacks or not hasattr(type(self), f"do_{name}"):
            raise AttributeError(name)
        return lambda *arguments: self._refuses.get(name) or getattr(self, f"do_{name}")(*arguments) or 0

    def do_cuInit(self, flags):
        assert flags == 0

    def do_cuDriverGetVersion(self, version):
        version._obj.value = 13010

    def do_cuDeviceGetCount(self, count):
        count._obj.value = 1

    def do_cuDeviceGet(self, device, ordinal):
        device._obj.value = 7

    def do_cuDeviceGetName(self, name, size, device):
        name.value = b"a card"

    def do_cuDeviceGetUuid(self, uuid, device):
        ctypes.memmove(uuid, bytes(range(16)), 16)

    def do_cuDeviceTotalMem_v2(self, size, device):
        assert device.value == 7
        size._obj.value = 1 << 37

    def do_cuDeviceGetAttribute(self, value, kind, device):
        value._obj.value = {75: 9, 76: 0, 102: 1}[kind]

    def do_cuMemGetAllocationGranularity(self, size, properties, option):
        asked = properties._obj
        assert (asked.type, asked.location.type, asked.location.id, option) == (1, 1, 0, 0)
        size._obj.value = 1 << 21

    def do_cuGetErrorName(self, code, text):
        text._obj.value = b"CUDA_ERROR_SOMETHING"


CARD = CardFacts(0, "a card", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 90, 1 << 37, True, 1 << 21)


def test_the_driver_is_asked_for_version_and_cards():
    assert read_driver(lambda name: Library()) == DriverFacts(13010, (CARD,))


def test_a_missing_library_is_told_with_its_reason():
    with pytest.raises(NoDriver, match=r"libcuda.so.1 cannot be loaded: gone"):
        read_driver(_raises(OSError("gone")))


def test_an_old_library_is_told_by_what_it_lacks():
    with pytest.raises(NoDriver, match="has no cuDeviceGetUuid: it is older"):
        read_driver(lambda name: Library(lacks=["cuDeviceGetUuid"]))


@pytest.mark.parametrize("lacks", [[], ["cuGetErrorName"]])
def test_a_driver_that_does_not_start_gives_its_own_word(lacks):
    with pytest.raises(NoDriver, match="cuInit failed: CU"):
        read_driver(lambda name: Library(refuses={"cuInit": 999}, lacks=lacks))


def test_a_driver_without_a_granularity_is_no_failure():
    (card,) = read_driver(lambda name: Library(refuses={"cuMemGetAllocationGranularity": 801})).cards
    assert card.granularity_bytes is None and card.has_vmm


def test_the_structure_for_the_granularity_is_as_large_as_the_drivers():
    """CUmemAllocationProp of cuda.h on 64-bit machines: 4 + 4 + 8 + 8 + 8 bytes."""
    from strata.commands import cuda_driver

    assert ctypes.sizeof(cuda_driver._AllocationProperties) == 32


def nvml(**changes):
    error = type("NVMLError", (Exception,), {})
    calls = []
    functions = {
        "NVMLError": error,
        "nvmlInit": lambda: calls.append("init"),
        "nvmlShutdown": lambda: calls.append("shutdown"),
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: b"GPU-1",
        "nvmlDeviceGetName": lambda handle: "H200",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=5),
    }
    for name in changes.get("fails", ()):
        functions[name] = _raises(error("Unknown Error"))
    return SimpleNamespace(**functions), calls


def test_nvml_tells_cards_by_uuid_and_is_let_go():
    module, calls = nvml()
    assert sources.nvml_cards(lambda name: module) == [NvmlCard("GPU-1", "H200", 5)]
    assert calls == ["init", "shutdown"]


@pytest.mark.parametrize("fails", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"])
def test_an_nvml_that_fails_at_any_call_is_a_sentence(fails):
    module, calls = nvml(fails=[fails])
    assert sources.nvml_cards(lambda name: module) == "Unknown Error"
    assert calls.count("init") == calls.count("shutdown")


def test_no_nvml_is_no_trouble():
    assert sources.nvml_cards(_raises(ImportError("pynvml"))) is None


@pytest.mark.parametrize(("soft", "limit"), [(65536, 65536), (0, 0), (resource.RLIM_INFINITY, None)])
def test_the_memlock_limit_is_the_one_in_force(soft, limit):
    assert sources.memlock_bytes(lambda which: (soft, resource.RLIM_INFINITY)) == limit


def test_a_machine_without_proc_or_shm_is_told_as_such(tmp_path: Path):
    assert sources.total_bytes(tmp_path / "none") is None
    assert sources.shm_bytes(tmp_path / "none") is None
    assert sources.shm_bytes(tmp_path) > 0
    (tmp_path / "meminfo").write_text("MemTotal:  100 kB\nMemAvailable: 50 kB\n")
    assert sources.total_bytes(tmp_path / "meminfo") == 102_400


def test_kernels_are_counted_by_their_source_and_triton_stays_out():
    names = sources.kernel_names()
    folder = Path(kernels.triton.__path__[0])
    assert {"rms_norm_kernel", "gate_up_rows_kernel", "accept_kernel"} <= names
    assert len(names) == sum(path.read_text().count("_kernel(\n") for path in folder.glob("[!l]*.py")) + sum(
        line.startswith("def ") and line.rstrip().endswith("):")
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if "_kernel(" in line
    )


def test_only_kernels_of_this_generation_count_as_compiled(tmp_path: Path):
    for name, text in {
        "a": json.dumps({"target": {"backend": "cuda", "arch": 90}}),
        "b": json.dumps({"target": {"backend": "cuda", "arch": 80}}),
        "c": "{half",
        "d": json.dumps({"target": None}),
        "e": json.dumps([]),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}_kernel.json").write_text(text)
        (tmp_path / name / f"{name}_kernel.cubin").write_bytes(b"")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "f_kernel.cubin").write_bytes(b"")
    assert sources.compiled_kernels(90, tmp_path) == {"a_kernel"}
    assert sources.compiled_kernels(90, tmp_path / "none") == frozenset()


def test_versions_come_from_what_is_installed():
    assert sources.version_of("hypothesis") is not None
    assert sources.version_of("no-such-distribution") is None
    assert sources.num_cores() >= 1 and sources.is_linux() == (sys.platform == "linux")


def _raises(error):
    def call(*_):
        raise error

    return call
