"""What a doctor says of machines made up for it: each thing that can be missing, and what to do about it."""

import json
from dataclasses import replace

import pytest

from strata.card_speed import CardSpeed
from strata.commands.cuda_driver import CardFacts, DriverFacts
from strata.commands.doctor import Sources, examine, refuse_without_card, report_json, report_lines, run
from strata.commands.doctor_card import NvmlCard, cuda_build
from strata.commands.doctor_findings import Level
from strata.core.errors import ConfigError
from strata.core.units import GIB, MIB

CARD = CardFacts(0, "H200", "GPU-1", 90, 141 * GIB, has_vmm=True, granularity_bytes=2 * MIB)
KERNELS = frozenset({"a_kernel", "b_kernel"})
PACKAGES = {"torch": "2.13.0+cu130", "triton": "3.7.1", "cuda-bindings": "13.3.1"}
SPEED = CardSpeed(free_bytes=130 * GIB, asked_bytes=GIB, pinned_bytes=GIB, link_gb_s=55.04, hbm_gb_s=4100.0)
NAMES = ["host", "package torch", "twin", "memlock", "shm", "driver", "card 0", "package triton"]
NAMES += ["package cuda-bindings", "nvml", "kernels", "speed 0"]


def with_card() -> Sources:
    """Everything in order."""
    return Sources(
        version_of=PACKAGES.get,
        num_cores=lambda: 16,
        is_linux=lambda: True,
        total_bytes=lambda: 128 * GIB,
        available_bytes=lambda: 100 * GIB,
        memlock_bytes=lambda: None,
        shm_bytes=lambda: 8 * GIB,
        driver=lambda: DriverFacts(13000, (CARD,)),
        nvml_cards=lambda: [NvmlCard("GPU-1", "H200", 3 * GIB)],
        kernel_names=lambda: KERNELS,
        compiled_kernels=lambda cc: KERNELS if cc == 90 else frozenset(),
        measure=lambda ordinal: SPEED,
    )


def without_card() -> Sources:
    """An ordinary machine with the CPU build of torch."""
    packages = {"torch": "2.13.0+cpu", "triton": None, "cuda-bindings": None}

    def never(*_: object) -> None:
        raise AssertionError("nobody asks this where there is no card")

    return replace(
        with_card(),
        version_of=packages.get,
        driver=lambda: "libcuda.so.1 cannot be loaded",
        nvml_cards=never,
        measure=never,
        compiled_kernels=never,
    )


def levels(machine: Sources) -> dict[str, Level]:
    return {finding.name: finding.level for finding in examine(machine).findings}


def finding(machine: Sources, name: str):
    (found,) = [each for each in examine(machine).findings if each.name == name]
    return found


def test_a_machine_in_order_is_ok_in_every_point_and_serves_on_both_bodies():
    report = examine(with_card())
    assert levels(with_card()) == dict.fromkeys(NAMES, Level.OK)
    assert (report.serves_on_twin, report.serves_on_cuda, report.exit_code) == (True, True, 0)


def test_without_a_card_the_twin_serves_and_nothing_is_opened():
    report = examine(without_card())
    assert (report.serves_on_twin, report.serves_on_cuda, report.exit_code) == (True, False, 0)
    assert [f.name for f in report.findings if f.level is Level.MISSING] == [
        "driver",
        "package torch-cuda",
        "package triton",
        "package cuda-bindings",
    ]


def test_nothing_serves_without_torch_and_the_exit_code_says_so():
    report = examine(replace(without_card(), version_of=lambda _: None))
    assert (report.serves_on_twin, report.serves_on_cuda, report.exit_code) == (False, False, 1)


@pytest.mark.parametrize(
    ("change", "name", "level", "text", "remedy"),
    [
        ({"driver": lambda: "libcuda.so.1 is gone"}, "driver", Level.MISSING, "libcuda.so.1 is gone", "driver"),
        (
            {"driver": lambda: DriverFacts(12080, (CARD,))},
            "driver",
            Level.MISSING,
            "up to 12.8, this PyTorch",
            "CUDA 13",
        ),
        ({"driver": lambda: DriverFacts(11080, (CARD,))}, "driver", Level.MISSING, "up to 11.8", "driver that serves"),
        ({"driver": lambda: DriverFacts(13000, ())}, "driver", Level.MISSING, "no card", "CUDA_VISIBLE_DEVICES"),
        (
            {"driver": lambda: DriverFacts(13000, (replace(CARD, has_vmm=False),))},
            "card 0",
            Level.MISSING,
            "no virtual memory management",
            "another card",
        ),
        (
            {"driver": lambda: DriverFacts(13000, (replace(CARD, compute_capability=75),))},
            "card 0",
            Level.MISSING,
            "sm_75, the kernels need sm_80",
            "Ampere",
        ),
        ({"nvml_cards": lambda: None}, "nvml", Level.WARN, "not installed", "pip install -e '.[gpu]'"),
        ({"nvml_cards": lambda: "Unknown Error"}, "nvml", Level.WARN, "Unknown Error", "restart it"),
        ({"nvml_cards": lambda: [NvmlCard("MIG-1", "x", 0)]}, "nvml", Level.WARN, "0 of 1 cards", "sizes come from"),
        ({"memlock_bytes": lambda: 8 * MIB}, "memlock", Level.WARN, "limited to 8.0 MiB", "ulimit -l unlimited"),
        ({"memlock_bytes": lambda: 0}, "memlock", Level.WARN, "limited to 0 B", "ulimit -l unlimited"),
        ({"shm_bytes": lambda: None}, "shm", Level.WARN, "not there", "mount one"),
        ({"shm_bytes": lambda: MIB}, "shm", Level.WARN, "1.0 MiB; weights do not lie there", "--shm-size"),
        ({"available_bytes": lambda: GIB}, "twin", Level.WARN, "1.0 GiB of memory", "small model"),
        ({"available_bytes": lambda: None}, "host", Level.WARN, "memory unknown", "/proc"),
        ({"is_linux": lambda: False}, "twin", Level.MISSING, "as Linux does", "Linux"),
        (
            {"compiled_kernels": lambda cc: {"a_kernel", "other"}},
            "kernels",
            Level.WARN,
            "1 of 2 kernels",
            "first start",
        ),
        ({"measure": lambda ordinal: "out of memory"}, "speed 0", Level.WARN, "not measured: out of memory", "mend"),
        (
            {"measure": lambda ordinal: replace(SPEED, pinned_bytes=MIB)},
            "speed 0",
            Level.WARN,
            "only 1,048,576 B of 1,073,741,824 B could be pinned",
            "memlock",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(change, name, level, text, remedy):
    found = finding(replace(with_card(), **change), name)
    assert (found.level, text in found.text, remedy in found.remedy) == (level, True, True), found


@pytest.mark.parametrize("package", ["triton", "cuda-bindings"])
def test_a_card_without_a_package_of_the_extra_is_not_opened(package):
    packages = {**PACKAGES, package: None}
    machine = replace(with_card(), version_of=packages.get)
    assert levels(machine)[f"package {package}"] is Level.MISSING
    assert "speed 0" not in levels(machine) and not examine(machine).serves_on_cuda


def test_a_warning_keeps_no_body_from_serving():
    machine = replace(with_card(), memlock_bytes=lambda: 1, shm_bytes=lambda: None, nvml_cards=lambda: "Unknown Error")
    assert examine(machine).serves_on_cuda


def test_the_json_says_what_the_lines_say():
    machine = replace(with_card(), nvml_cards=lambda: None)
    report = examine(machine)
    told = json.loads(json.dumps(report_json(report)))
    assert set(told) == {"schema", "serves", "findings"} and told["schema"] == 1
    assert told["serves"] == {"twin": True, "cuda": True}
    assert [row["name"] for row in told["findings"]] == NAMES
    assert all(set(row) == {"name", "level", "text", "remedy", "facts"} for row in told["findings"])
    lines = "\n".join(report_lines(report))
    assert all(row["text"] in lines and row["remedy"] in lines for row in told["findings"])


FACTS = {
    "host": {"num_cores", "total_bytes", "available_bytes"},
    "package torch": {"version"},
    "twin": {"is_ready"},
    "memlock": {"limit_bytes", "pinnable_bytes"},
    "shm": {"size_bytes"},
    "driver": {"version", "num_cards"},
    "card 0": {"ordinal", "name", "uuid", "compute_capability", "total_bytes", "has_vmm", "granularity_bytes"},
    "package triton": {"version"},
    "package cuda-bindings": {"version"},
    "nvml": {"cards"},
    "kernels": {"compute_capability", "compiled", "not_compiled"},
    "speed 0": {"free_bytes", "pinned_bytes", "link_gb_s", "hbm_gb_s"},
}


def test_the_facts_of_each_finding_have_names_that_scripts_may_count_on():
    assert {f.name: set(f.facts) for f in examine(with_card()).findings} == FACTS


def test_text_of_a_driver_cannot_break_the_lines():
    hostile = replace(CARD, name="evil\x1b[2J\ncard")
    machine = replace(with_card(), driver=lambda: DriverFacts(13000, (hostile,)))
    assert not any("\x1b" in line or "\n" in line for line in report_lines(examine(machine)))


def test_serving_on_a_card_is_refused_with_everything_that_is_missing():
    refuse_without_card(with_card())
    with pytest.raises(ConfigError) as refused:
        refuse_without_card(without_card())
    reasons = refused.value.reasons
    assert len(reasons) == 5 and "strata doctor" in reasons[-1]
    assert [
        word in reason for word, reason in zip(("driver", "+cpu", "triton", "cuda-bindings"), reasons, strict=False)
    ]
    assert all(reason.startswith("device=cuda refused: ") for reason in reasons[:4])


@pytest.mark.parametrize("is_json", [False, True])
def test_the_command_prints_and_returns_the_exit_code(capsys: pytest.CaptureFixture[str], is_json: bool):
    assert run(is_json=is_json, machine=replace(without_card(), is_linux=lambda: False)) == 1
    out = capsys.readouterr().out
    assert (json.loads(out)["serves"] == {"twin": False, "cuda": False}) if is_json else "cannot serve here" in out


@pytest.mark.parametrize(
    ("version", "build"),
    [("2.13.0+cu130", 13), ("2.11.0+cu126", 12), ("2.13.0+cpu", None), ("2.13.0", None), (None, None)],
)
def test_the_cuda_of_a_torch_is_read_from_its_version(version, build):
    assert cuda_build(version) == build
