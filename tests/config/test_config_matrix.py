"""The refusals over the whole matrix of switches and options, held against a table that was written from the
specification: for each rule where its line begins, what it names, and when it applies to values as they are written."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from strata.commands.config_sources import resolve
from strata.commands.option_table import OPTIONS, SWITCHES
from strata.config.not_yet import NOT_YET
from strata.config.refusals import check_config
from strata.config.values import Command, ModelFacts

DEFAULT_BYTES = 256 * 1024**2
SIZES = {"1": 1, "3MiB": 3 * 1024**2, "1GiB": 1024**3}
ZERO_OR_ONE = ("0", "1")
VALUES: dict[str, tuple[str, ...]] = {
    "STRATA_DEVICE": ("auto", "twin", "cuda", "hip"),
    "STRATA_VRAM": tuple(SIZES),
    "STRATA_VRAM_ELASTIC": ZERO_OR_ONE,
    "STRATA_VRAM_SEGMENT_MIB": ("0", "2", "33", "62", "64", "512"),
    "STRATA_TWIN_SEGMENT_KIB": ("-4", "6", "4", "64"),
    "STRATA_CACHE_MIN_SLOTS": ("0", "1", "2", "32", "33"),
    "STRATA_CACHE_SWAPS": ("-1", "0", "16", "17"),
    "STRATA_WARM_START": ("", "usage.json"),
    "STRATA_RESIDENT_BUDGET_GIB": ("-1", "0", "1.5"),
    "STRATA_CTX": ("1", "2", "300", "512", "513"),
    "STRATA_KV": ("f16", "f32", "k8v4"),
    "STRATA_PREFILL": ("auto", "0", "256", "512", "768", "300", "auto:300", "auto:256", "auto:768"),
    "STRATA_SHORT_READ": ("-1", "0", "64"),
    "STRATA_PARKED_MIB": ("-1", "0", "64"),
    "STRATA_CHECKPOINT_MIB": ("-1", "0", "64"),
    "STRATA_MTP": ("0", "1", "drafter.gguf"),
    "STRATA_SPEC": ("0", "1", "2", "8", "9"),
    "STRATA_DRAFT_P_MIN": ("-0.1", "0", "0.5", "1.5"),
    "STRATA_VERIFY_LENT": ZERO_OR_ONE,
    "STRATA_HOST": ("127.0.0.1", ""),
    "STRATA_PORT": ("-1", "0", "65535", "65536"),
    "STRATA_API_KEY": ("", "k"),
    "STRATA_QUEUE": ("-1", "0"),
    "STRATA_WRITE_DEADLINE": ("0", "0.5"),
    "STRATA_SHUTDOWN_GRACE": ("-0.5", "0"),
    "STRATA_TRACE": ("", "trace.jsonl"),
    "STRATA_TRACE_COMMANDS": ("0", "1", "10000000", "10000001"),
    "STRATA_BATCH": ("0", "1", "4"),
    "STRATA_PIPELINE_WINDOWS": ZERO_OR_ONE,
    "STRATA_LAYER_SPLIT": ZERO_OR_ONE,
    "STRATA_PEER_CACHE": ZERO_OR_ONE,
    "STRATA_REMOTE_CACHE": ZERO_OR_ONE,
    "STRATA_HELPER_CACHE": ZERO_OR_ONE,
    "STRATA_KV_RESIDENT": ("0", "9"),
    "STRATA_PREFILL_HEAD_ALIAS": ZERO_OR_ONE,
    "STRATA_MTP_ROOM_MIN": ("-1", "0", "1024"),
    "STRATA_PREFILL_ELASTIC_LOAN": ZERO_OR_ONE,
    "STRATA_PREFILL_MTP_LOAN": ZERO_OR_ONE,
    "STRATA_PREFILL_HEAD_LOAN": ZERO_OR_ONE,
    "STRATA_PREFILL_RETAIN_STARTUP_CHUNK": ZERO_OR_ONE,
    "STRATA_PREFILL_REPEAT_LOAN": ZERO_OR_ONE,
    "STRATA_PREFILL_REPEAT_MIN_TOKENS": ("-5", "0", "256", "4096"),
    "STRATA_MMQ_SLAB": ZERO_OR_ONE,
    "STRATA_CKPT_REREAD": ZERO_OR_ONE,
    "STRATA_PREFILL_RING": ("1", "32", "33"),
}


@dataclass(frozen=True)
class Case:
    """Everything that a rule may look at. `set_to` is the environment, without the prefix STRATA_."""

    set_to: Mapping[str, str]
    is_server: bool
    facts: ModelFacts | None

    def number(self, name: str, default: float = 0) -> float:
        return float(self.set_to.get(name, default))

    def on(self, name: str) -> bool:
        return self.set_to.get(name, "0") != "0"

    def given(self, name: str) -> bool:
        return name in self.set_to

    @property
    def is_virtual(self) -> bool:
        return self.set_to.get("DEVICE", "auto") in ("auto", "twin")

    @property
    def room(self) -> bool:
        return self.number("MTP_ROOM_MIN", -1) >= 0

    @property
    def elastic(self) -> bool:
        return self.on("PREFILL_ELASTIC_LOAN")

    @property
    def rows(self) -> float:
        return self.number("SPEC", 3 if self.on("MTP") else 1)

    @property
    def segment_bytes(self) -> float:
        if self.given("TWIN_SEGMENT_KIB") and self.is_virtual:
            return self.number("TWIN_SEGMENT_KIB") * 1024
        return self.number("VRAM_SEGMENT_MIB", 64 if self.on("VRAM_ELASTIC") else 2) * 1024**2

    @property
    def vram_bytes(self) -> int:
        return SIZES[self.set_to["VRAM"]] if self.given("VRAM") else DEFAULT_BYTES

    @property
    def chunk(self) -> int | None:
        text = self.set_to.get("PREFILL", "auto").removeprefix("auto:")
        return None if text == "auto" else int(text)

    @property
    def longest(self) -> int:
        """Of a model with a context of 512."""
        return 256 if self.number("CTX", 512) <= 256 else 512

    @property
    def has_block(self) -> bool:
        return self.num_blocks > 0

    @property
    def num_blocks(self) -> int:
        has_file = self.set_to.get("MTP", "0") not in "01"
        return 1 if has_file else self.facts.num_nextn_blocks if self.facts is not None else 0


Rule = tuple[str, str, Callable[[Case], bool]]

LOAN_FREE = ("PIPELINE_WINDOWS", "LAYER_SPLIT", "PEER_CACHE", "REMOTE_CACHE", "HELPER_CACHE", "PREFILL_HEAD_ALIAS")


def option(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def clash(name: str) -> Rule:
    return ("elastic loan refused", f" with {option(name)};", lambda case: case.elastic and case.on(name))


def orphan(name: str) -> Rule:
    return (
        "elastic loan refused",
        f" STRATA_{name}=1 without STRATA_PREFILL_ELASTIC_LOAN=1",
        lambda case: case.on(name) and not case.elastic,
    )


def unbuilt_flag(name: str) -> Rule:
    has_reason = name in LOAN_FREE
    return (
        f"{option(name)} is not in this version",
        f"leave {option(name)} out",
        lambda case: case.on(name) and not (has_reason and case.elastic),
    )


def unbuilt_value(name: str, applies: Callable[[Case], bool]) -> Rule:
    return (f"{option(name)}=", "is not in this version", applies)


RULES: tuple[Rule, ...] = (
    ("vram-segment-mib refused", "multiple of 2 MiB", lambda c: c.set_to.get("VRAM_SEGMENT_MIB") in ("0", "33")),
    ("twin-segment-kib refused", "multiple of 4 KiB", lambda c: c.set_to.get("TWIN_SEGMENT_KIB") in ("-4", "6")),
    ("device=cuda refused", "give --vram", lambda c: c.set_to.get("DEVICE") == "cuda" and not c.given("VRAM")),
    ("vram refused", "raise --vram", lambda c: c.vram_bytes < c.segment_bytes),
    ("resident-budget-gib refused", "leave --resident-budget-gib out", lambda c: c.number("RESIDENT_BUDGET_GIB") < 0),
    ("cache-min-slots refused", "1 or more", lambda c: c.number("CACHE_MIN_SLOTS", 1) < 1),
    ("cache-swaps refused", "give --cache-swaps 0", lambda c: c.set_to.get("CACHE_SWAPS") in ("-1", "17")),
    ("warm-start refused", "it is empty; give --warm-start a file", lambda c: c.set_to.get("WARM_START") == ""),
    (
        "warm-start refused",
        "give --cache-swaps 1 to 16",
        lambda c: c.given("WARM_START") and c.set_to["WARM_START"] != "" and c.number("CACHE_SWAPS", 0) == 0,
    ),
    ("ctx refused", "2 or more", lambda c: c.number("CTX", 2) < 2),
    ("prefill refused", "multiple of 256", lambda c: c.chunk is not None and c.chunk in (0, 300)),
    ("short-read refused", "leave --short-read out", lambda c: c.number("SHORT_READ") < 0),
    ("parked-mib refused", "give --parked-mib 0", lambda c: c.number("PARKED_MIB") < 0),
    ("checkpoint-mib refused", "give --checkpoint-mib 0", lambda c: c.number("CHECKPOINT_MIB") < 0),
    ("spec refused", "give --spec 1 to 8, or leave --spec out", lambda c: c.set_to.get("SPEC") in ("0", "9")),
    ("draft-p-min refused", "give --draft-p-min 0 to 1", lambda c: c.set_to.get("DRAFT_P_MIN") in ("-0.1", "1.5")),
    (
        "draft-p-min refused: draft-p-min=0.5 without --mtp",
        "give --mtp",
        lambda c: c.set_to.get("DRAFT_P_MIN") == "0.5" and not c.on("MTP"),
    ),
    ("host refused", "it is empty; give --host", lambda c: c.set_to.get("HOST") == ""),
    ("port refused", "to 65535", lambda c: c.set_to.get("PORT") in ("-1", "65536")),
    ("api-key refused", "empty", lambda c: c.set_to.get("API_KEY") == ""),
    ("queue refused", "0 or more", lambda c: c.number("QUEUE") < 0),
    ("write-deadline refused", "more than 0", lambda c: c.number("WRITE_DEADLINE", 1) <= 0),
    ("shutdown-grace refused", "0 or more", lambda c: c.number("SHUTDOWN_GRACE") < 0),
    ("trace refused", "it is empty; give --trace a file", lambda c: c.set_to.get("TRACE") == ""),
    (
        "trace-commands refused",
        "1 to 10000000",
        lambda c: c.set_to.get("TRACE_COMMANDS") in ("0", "10000001"),
    ),
    ("trace-commands refused", "no --trace;", lambda c: c.given("TRACE_COMMANDS") and not c.given("TRACE")),
    ("batch refused", "leave --batch out", lambda c: c.number("BATCH", 1) < 1),
    ("kv-resident refused", "leave --kv-resident out", lambda c: c.number("KV_RESIDENT", 1) < 1),
    # What the model's header says.
    ("ctx refused", "the model has 512", lambda c: c.facts is not None and c.number("CTX") > 512),
    (
        "prefill refused",
        "never fills",
        lambda c: (
            c.facts is not None
            and c.set_to.get("CTX") not in ("1", "513")
            and "auto" not in c.set_to.get("PREFILL", "auto")
            and c.chunk is not None
            and c.chunk > c.longest
        ),
    ),
    (
        "cache-min-slots refused",
        "in all its layers",
        lambda c: c.facts is not None and c.number("CACHE_MIN_SLOTS") > c.facts.num_expert_pairs,
    ),
    (
        "cache-min-slots refused",
        "one token uses",
        lambda c: c.facts is not None and c.set_to.get("CACHE_MIN_SLOTS") == "1" and c.facts.num_expert_pairs > 0,
    ),
    (
        "prefill ring refused",
        "in all its layers",
        lambda c: c.facts is not None and c.number("PREFILL_RING") > c.facts.num_expert_pairs,
    ),
    (
        "kv refused",
        "are not whole blocks of 32; give --kv f16",
        lambda c: c.facts is not None and c.facts.head_dim % 32 != 0 and c.set_to.get("KV") == "k8v4",
    ),
    # Lending.
    ("room refused", "outside the server", lambda c: c.room and not c.is_server),
    ("elastic loan refused", "outside the server", lambda c: c.elastic and not c.is_server),
    ("room refused", " without --mtp", lambda c: c.room and not c.on("MTP")),
    ("room refused", " with --batch: slot drafters share the block", lambda c: c.room and c.given("BATCH")),
    ("elastic loan refused", " without --vram-elastic", lambda c: c.elastic and not c.on("VRAM_ELASTIC")),
    (
        "elastic loan refused",
        "at least 64 MiB are needed",
        lambda c: (
            c.elastic
            and c.number("VRAM_SEGMENT_MIB", 64) < 64
            and not (c.given("TWIN_SEGMENT_KIB") and c.is_virtual)
        ),
    ),
    ("elastic loan refused", " with --batch;", lambda c: c.elastic and c.given("BATCH")),
    *(clash(name) for name in LOAN_FREE),
    orphan("PREFILL_MTP_LOAN"),
    orphan("PREFILL_HEAD_LOAN"),
    orphan("PREFILL_RETAIN_STARTUP_CHUNK"),
    orphan("PREFILL_REPEAT_LOAN"),
    (
        "elastic loan refused",
        "STRATA_PREFILL_REPEAT_MIN_TOKENS=",
        lambda c: c.given("PREFILL_REPEAT_MIN_TOKENS") and not c.elastic,
    ),
    (
        "repeat loan refused",
        " without STRATA_PREFILL_MTP_LOAN=1",
        lambda c: c.on("PREFILL_REPEAT_LOAN") and not c.on("PREFILL_MTP_LOAN"),
    ),
    (
        "repeat loan refused",
        " without STRATA_PREFILL_HEAD_LOAN=1",
        lambda c: c.on("PREFILL_REPEAT_LOAN") and not c.on("PREFILL_HEAD_LOAN"),
    ),
    ("mtp loan refused", " without --mtp", lambda c: c.on("PREFILL_MTP_LOAN") and not c.on("MTP")),
    ("mtp loan refused", "at least 2 are needed", lambda c: c.on("PREFILL_MTP_LOAN") and c.rows < 2),
    ("head loan refused", " without --mtp", lambda c: c.on("PREFILL_HEAD_LOAN") and not c.on("MTP")),
    ("head loan refused", "at least 2 are needed", lambda c: c.on("PREFILL_HEAD_LOAN") and c.rows < 2),
    ("mtp refused", "no NextN block; name a d", lambda c: c.facts is not None and c.on("MTP") and not c.has_block),
    ("mtp refused", "2 NextN blocks, one can be the drafter; name a drafter with --mtp FILE", lambda c: (
        c.facts is not None and c.on("MTP") and c.num_blocks == 2
    )),
    (
        "mtp loan refused",
        "no NextN block",
        lambda c: c.facts is not None and c.on("PREFILL_MTP_LOAN") and not c.has_block,
    ),
    (
        "head loan refused",
        "no output head of its own",
        lambda c: c.facts is not None and c.on("PREFILL_HEAD_LOAN") and not c.facts.has_output_head,
    ),
    # What is not built.
    unbuilt_value("DEVICE", lambda c: c.set_to.get("DEVICE") == "hip"),
    unbuilt_value("BATCH", lambda c: c.given("BATCH") and not c.room and not c.elastic),
    *(unbuilt_flag(name) for name in LOAN_FREE[:-1]),
    unbuilt_value("KV_RESIDENT", lambda c: c.given("KV_RESIDENT")),
    unbuilt_flag("PREFILL_HEAD_ALIAS"),
)  # fmt: skip

UNBUILT = "|".join(re.escape(row.name) for row in NOT_YET if row.name != "--device")
RECOMMENDED = re.compile(rf"\b(give|set|raise|lower|with) ({UNBUILT})(?![-\w])")
"""A remedy that the same server would refuse in its turn."""

FACTS = st.none() | st.builds(
    ModelFacts,
    context_tokens=st.just(512),
    num_expert_pairs=st.sampled_from((0, 32)),
    num_experts_used=st.just(2),
    has_output_head=st.booleans(),
    num_nextn_blocks=st.sampled_from((0, 1, 2)),
    head_dim=st.sampled_from((64, 80)),
)
ENVIRONMENTS = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})


def refused(environment: Mapping[str, str], command: Command, facts: ModelFacts | None) -> list[str]:
    config = resolve("m.gguf", {}, environment).config
    return [refusal.reason for refusal in check_config(config, command=command, facts=facts)]


def expected(case: Case) -> list[tuple[str, str]]:
    return [(start, word) for start, word, applies in RULES if applies(case)]


def check(environment: Mapping[str, str], command: Command, facts: ModelFacts | None) -> list[str]:
    set_to = {name.removeprefix("STRATA_"): value for name, value in environment.items()}
    rules = expected(Case(set_to, command is not Command.INSPECT, facts))
    reasons = refused(environment, command, facts)
    unlike = [
        (rule, reason)
        for rule, reason in zip(rules, reasons, strict=False)
        if not (reason.startswith(rule[0]) and rule[1] in reason)
    ]
    assert len(rules) == len(reasons) and not unlike, (unlike or None, rules, reasons)
    return reasons


def test_the_matrix_has_every_option_and_every_switch():
    assert set(VALUES) == {entry.variable for entry in (*OPTIONS, *SWITCHES)}


@pytest.mark.slow
@settings(max_examples=400)
@given(ENVIRONMENTS, st.sampled_from(Command), FACTS)
def test_the_refusals_are_those_of_the_table(environment, command, facts):
    reasons = check(environment, command, facts)
    event(f"about {len(reasons) // 8 * 8} reasons")
    assert all(re.search(r"; \w+", reason) or "it is empty" in reason for reason in reasons), "none without a remedy"
    assert not [reason for reason in reasons if RECOMMENDED.search(reason.rpartition("; ")[2])]


@pytest.mark.parametrize("name", sorted(VALUES))
def test_every_pair_of_values_is_judged_as_the_table_says(name):
    facts = ModelFacts(512, 32, 2, has_output_head=False, num_nextn_blocks=0, head_dim=80)
    for value in VALUES[name]:
        for other in VALUES:
            for value_of_other in VALUES[other]:
                check({other: value_of_other, name: value}, Command.SERVE, facts)


def test_every_rule_of_the_table_applies_somewhere():
    """Otherwise a rule could be wrong and nobody would see it."""
    everything = {name: values[-1] for name, values in VALUES.items()}
    lowest = {name: values[0] for name, values in VALUES.items()}
    seen: set[tuple[str, str]] = set()
    known = [
        ModelFacts(512, pairs, 2, has_output_head=False, num_nextn_blocks=blocks, head_dim=80)
        for pairs, blocks in ((0, 0), (32, 0), (32, 2))
    ]
    for name in (None, *VALUES):
        for facts in known:
            for base in (everything, lowest, {}):
                for value in VALUES[name] if name else ("",):
                    environment = {**base, **({name: value} if name else {})}
                    for command in (Command.SERVE, Command.INSPECT):
                        check(environment, command, facts)
                        set_to = {key.removeprefix("STRATA_"): text for key, text in environment.items()}
                        seen |= set(expected(Case(set_to, command is Command.SERVE, facts)))
    assert {(start, word) for start, word, _ in RULES} - seen == set()


@pytest.mark.parametrize("command", [Command.SERVE, Command.DEMO, Command.BENCH, Command.PLAN])
def test_the_server_is_serve_demo_and_bench_and_plan_judges_as_if_it_served(command):
    environment = {"STRATA_MTP_ROOM_MIN": "0", "STRATA_PREFILL_ELASTIC_LOAN": "1"}
    assert refused(environment, command, None) == refused(environment, Command.SERVE, None)
    assert not any("outside the server" in reason for reason in refused(environment, command, None))


@pytest.mark.parametrize("name", ["PREFILL_HEAD_ALIAS", "LAYER_SPLIT", "PIPELINE_WINDOWS"])
def test_the_room_refuses_neither_head_alias_nor_split_nor_pipeline(name):
    environment = {f"STRATA_{name}": "1", "STRATA_MTP_ROOM_MIN": "0", "STRATA_MTP": "1"}
    reasons = refused(environment, Command.SERVE, None)
    assert not any(reason.startswith("room refused") for reason in reasons)
    assert any(reason.startswith(f"{option(name)} is not in this version") for reason in reasons)
