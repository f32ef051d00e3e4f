"""`strata doctor`: whether this machine can serve, on which body, and what to change where it cannot.

Everything is asked without torch. Only where driver, card and packages are in order is the card opened, through the
body that would serve, and its speeds measured.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from strata.card_speed import CardSpeed, measure_card
from strata.commands import doctor_sources as sources
from strata.commands.cuda_driver import DriverFacts, NoDriver, read_driver
from strata.commands.doctor_card import (
    NvmlCard,
    judge_card,
    judge_driver,
    judge_gpu_packages,
    judge_kernels,
    judge_nvml,
    judge_speed,
)
from strata.commands.doctor_findings import (
    Finding,
    Level,
    judge_host,
    judge_memlock,
    judge_package,
    judge_shm,
    judge_twin,
)
from strata.commands.terminal_text import one_line
from strata.core.errors import ConfigError
from strata.host_memory import available_bytes

SCHEMA = 1
"""Of the JSON. A reader may count on every key of this number; new ones may be added."""


def _driver() -> DriverFacts | str:
    try:
        return read_driver()
    except NoDriver as error:
        return str(error)


def _measure(ordinal: int) -> CardSpeed | str:
    return measure_card(ordinal)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where facts come from; a test makes up a machine."""

    version_of: Callable[[str], str | None] = sources.version_of
    num_cores: Callable[[], int] = sources.num_cores
    is_linux: Callable[[], bool] = sources.is_linux
    total_bytes: Callable[[], int | None] = sources.total_bytes
    available_bytes: Callable[[], int | None] = available_bytes
    memlock_bytes: Callable[[], int | None] = sources.memlock_bytes
    shm_bytes: Callable[[], int | None] = sources.shm_bytes
    driver: Callable[[], DriverFacts | str] = _driver
    nvml_cards: Callable[[], list[NvmlCard] | str | None] = sources.nvml_cards
    kernel_names: Callable[[], frozenset[str]] = sources.kernel_names
    compiled_kernels: Callable[[int], frozenset[str]] = sources.compiled_kernels
    measure: Callable[[int], CardSpeed | str] = _measure


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]
    serves_on_twin: bool
    serves_on_cuda: bool
    schema: int = field(default=SCHEMA)

    @property
    def exit_code(self) -> int:
        return 0 if self.serves_on_twin or self.serves_on_cuda else 1


def run(*, is_json: bool, machine: Sources | None = None) -> int:
    """0 where some body can serve, 1 where none can."""
    report = examine(machine or Sources())
    print(json.dumps(report_json(report), indent=2) if is_json else "\n".join(report_lines(report)))
    return report.exit_code


def examine(machine: Sources) -> Report:
    host, twin = _host(machine)
    driver = machine.driver()
    needs = _card_needs(machine, driver)
    is_ready = bool(needs) and all(finding.level is not Level.MISSING for finding in needs)
    findings = (*host, *needs, *_card_looks(machine, driver, is_ready=is_ready))
    return Report(findings, serves_on_twin=bool(twin.facts["is_ready"]), serves_on_cuda=is_ready)


def refuse_without_card(machine: Sources | None = None) -> None:
    """Raises ConfigError with everything that a card needs and that is not here. Light: opens nothing."""
    machine = machine or Sources()
    lacking = [f for f in _card_needs(machine, machine.driver()) if f.level is Level.MISSING]
    if lacking:
        raise ConfigError(
            *(f"device=cuda refused: {finding.text}; {finding.remedy}" for finding in lacking),
            "`strata doctor` tells more about this machine; --device twin serves without a card",
        )


def _host(machine: Sources) -> tuple[list[Finding], Finding]:
    """What concerns the host, and of that what concerns the twin."""
    torch, left_bytes = machine.version_of("torch"), machine.available_bytes()
    twin = judge_twin(has_torch=torch is not None, is_linux=machine.is_linux(), available_bytes=left_bytes)
    findings = [
        judge_host(num_cores=machine.num_cores(), total_bytes=machine.total_bytes(), available_bytes=left_bytes),
        judge_package("torch", torch, needed_for="every body", remedy="pip install -e . in the checkout"),
        twin,
        judge_memlock(limit_bytes=machine.memlock_bytes(), available_bytes=left_bytes),
        judge_shm(machine.shm_bytes()),
    ]
    return findings, twin


def _card_needs(machine: Sources, driver: DriverFacts | str) -> list[Finding]:
    """Without any of these `--device cuda` is refused. The first card that is visible serves."""
    torch = machine.version_of("torch")
    findings = [judge_driver(driver, torch_version=torch)]
    if isinstance(driver, DriverFacts):
        findings += [judge_card(card) for card in driver.cards[:1]]
    return findings + judge_gpu_packages(torch, machine.version_of("triton"), machine.version_of("cuda-bindings"))


def _card_looks(machine: Sources, driver: DriverFacts | str, *, is_ready: bool) -> list[Finding]:
    """What is worth knowing of cards that are there."""
    if isinstance(driver, str) or not driver.cards:
        return []
    first, others = driver.cards[0], driver.cards[1:]
    findings = [judge_card(card) for card in others]
    findings.append(judge_nvml(machine.nvml_cards(), driver.cards))
    compiled = machine.compiled_kernels(first.compute_capability)
    findings.append(judge_kernels(compiled, machine.kernel_names(), compute_capability=first.compute_capability))
    if is_ready:
        findings.append(judge_speed(machine.measure(first.ordinal), ordinal=first.ordinal))
    return findings


def report_json(report: Report) -> dict[str, object]:
    return {
        "schema": report.schema,
        "serves": {"twin": report.serves_on_twin, "cuda": report.serves_on_cuda},
        "findings": [asdict(finding) for finding in report.findings],
    }


def report_lines(report: Report) -> list[str]:
    lines = []
    for finding in report.findings:
        lines.append(f"{finding.level:<8}{one_line(finding.name):<22}{one_line(finding.text)}")
        if finding.remedy:
            lines.append(f"{'':<8}-> {one_line(finding.remedy)}")
    bodies = [name for name, serves in (("twin", report.serves_on_twin), ("cuda", report.serves_on_cuda)) if serves]
    verdict = f"can serve on: {', '.join(bodies)}" if bodies else "cannot serve here: see what is missing above"
    return [*lines, "", verdict]
