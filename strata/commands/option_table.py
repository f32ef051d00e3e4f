"""Every option of a server and every lending switch, once: name, kind, default and meaning. The command line, the
environment, the configuration file and `--help` are made from this table."""

from dataclasses import dataclass

from strata.commands.option_kinds import (
    FLAG,
    GIBIBYTES,
    MTP,
    PREFILL,
    PROBABILITY,
    SECONDS,
    SIZE,
    SWITCH,
    TEXT,
    Kind,
    one_of,
    whole_number,
)
from strata.config.context import MAX_DEFAULT_CONTEXT_TOKENS
from strata.config.not_yet import NOT_YET
from strata.config.switches import DEFAULT_REPEAT_MIN_TOKENS, MIN_REPEAT_MIN_TOKENS, switch_name
from strata.config.values import (
    DEFAULT_CHECKPOINT_BYTES,
    DEFAULT_PARKED_BYTES,
    DEFAULT_TRACE_COMMANDS,
    DEFAULT_TWIN_VRAM_BYTES,
    DeviceChoice,
    ServeConfig,
)
from strata.core.kv import KvFormat
from strata.core.units import KIB, MIB
from strata.sizes import format_bytes

_DEFAULTS = ServeConfig(model="")
_WHOLE = whole_number("a whole number")
_TOKENS = whole_number("a whole number of tokens")

CARD, READING, DRAFTS, SERVER = "card", "reading a prompt", "drafts", "server"
FAULTS, UNSERVED = "finding faults", "other ways to serve"


def variable_of(name: str) -> str:
    """What the option `name` is called in the environment."""
    return f"STRATA_{name.replace('-', '_').upper()}"


@dataclass(frozen=True, slots=True)
class Option:
    """`name` without dashes in front: also the key in a file, and STRATA_NAME in the environment. `field` is that of
    ServeConfig. `metavar` "": a flag."""

    group: str
    name: str
    field: str
    kind: Kind
    metavar: str
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        return variable_of(self.name)


@dataclass(frozen=True, slots=True)
class Switch:
    """`field` is that of LendingSwitches; its name, and the key in a file, follow from it."""

    field: str
    kind: Kind
    default: str
    meaning: str

    @property
    def variable(self) -> str:
        return switch_name(self.field)


OPTIONS = (
    Option(CARD, "device", "device", one_of(DeviceChoice), "{auto,twin,cuda,hip}", _DEFAULTS.device,
           "twin: a virtual card on the CPU; auto: twin; cuda, hip: a real one"),
    Option(CARD, "vram", "vram_bytes", SIZE, "SIZE", f"{format_bytes(DEFAULT_TWIN_VRAM_BYTES)} on the twin",
           "bytes of the card, like 8GiB"),
    Option(CARD, "vram-elastic", "is_vram_elastic", FLAG, "", "off",
           "an arena of segments that can be remapped"),
    Option(CARD, "vram-segment-mib", "vram_segment_bytes", whole_number("a whole number of MiB", unit=MIB), "N",
           "64 with --vram-elastic, else 2", "physical segments of the card, in MiB"),
    Option(CARD, "twin-segment-kib", "twin_segment_bytes", whole_number("a whole number of KiB", unit=KIB), "N",
           "as --vram-segment-mib", "physical segments of the virtual card, in KiB; comes before --vram-segment-mib"),
    Option(CARD, "cache-min-slots", "min_cache_slots", _WHOLE, "N",
           "128 where slots are lent, else the experts of one token",
           "expert-cache slots that stay when others are lent to a prompt, and must fit on the card; a cache without "
           "more of them lends nothing"),
    Option(CARD, "cache-swaps", "num_swaps", _WHOLE, "N", "0",
           "while answers are written, up to N experts of the cache (at most 16) are exchanged every 16 windows for "
           "ones that are read more often; 0: those chosen at start stay"),
    Option(CARD, "warm-start", "warm_start_file", TEXT, "FILE", "none",
           "how often each expert was read: written when the server ends, and the most read are on the card from its "
           "next start; needs --cache-swaps"),
    Option(CARD, "resident-budget-gib", "resident_budget_bytes", GIBIBYTES, "X", "all",
           "pinned host memory for the weights, at most, in GiB; experts that have no place in it nor on the card are "
           "copied to the card before the layer that needs them, and windows run layer by layer"),
    Option(READING, "ctx", "context_tokens", _TOKENS, "N", f"the model's, at most {MAX_DEFAULT_CONTEXT_TOKENS:,}",
           "context: tokens of prompt and answer together"),
    Option(READING, "kv", "kv_format", one_of(KvFormat), f"{{{','.join(KvFormat)}}}", _DEFAULTS.kv_format,
           "how K and V are stored: floats, or blocks of 32 numbers with a scale, of 8 bits (int8, also q8_0) or of 4 "
           "(q4_0); k8v4 has K in 8 and V in 4"),
    Option(READING, "prefill", "prefill", PREFILL, "N|auto|auto:N", "auto",
           "tokens of a chunk: exactly N, or the largest (up to 8,192 or N) that has room in slots that may be lent "
           "or in a quarter of what weights, K/V and window leave of the card; a multiple of 256"),
    Option(READING, "short-read", "short_read_tokens", _TOKENS, "N", "64 with --spec above 1, else 0",
           "prompts of at most N fresh tokens are read by decode windows"),
    Option(READING, "parked-mib", "parked_bytes", whole_number("a whole number of MiB", unit=MIB), "N",
           str(DEFAULT_PARKED_BYTES // MIB),
           "host memory for conversations that make room for another one, in MiB; 0: none, they are read again"),
    Option(READING, "checkpoint-mib", "checkpoint_bytes", whole_number("a whole number of MiB", unit=MIB), "N",
           str(DEFAULT_CHECKPOINT_BYTES // MIB),
           "host memory for recurrent states behind earlier turns of a conversation, in MiB; 0: none, an edited one is "
           "read again"),
    Option(DRAFTS, "mtp", "mtp", MTP, "FILE", "off",
           "load the model's NextN block as drafter, or FILE's (write --mtp behind MODEL)"),
    Option(DRAFTS, "spec", "spec_rows", _WHOLE, "T", "1, with --mtp 3",
           "rows of a decode window at most, 1 to 8: the last token and up to T - 1 drafts, of the drafter, or without "
           "--mtp what followed the last tokens where they stood before"),
    Option(DRAFTS, "draft-p-min", "least_probability", PROBABILITY, "P", f"{_DEFAULTS.least_probability:g}",
           "with --mtp: drafts end before the first token that the drafter finds less likely than P"),
    Option(DRAFTS, "verify-lent", "is_lent_verified", FLAG, "", "off",
           "check digests of what was lent before it is used again"),
    Option(SERVER, "host", "host", TEXT, "ADDRESS", _DEFAULTS.host, "address to listen on"),
    Option(SERVER, "port", "port", _WHOLE, "N", str(_DEFAULTS.port), "port to listen on, 0 for any free one"),
    Option(SERVER, "api-key", "api_key", TEXT, "KEY", "none", "clients must send it as a bearer token"),
    Option(SERVER, "queue", "max_queued", _WHOLE, "N", str(_DEFAULTS.max_queued),
           "requests that may wait; beyond them 503"),
    Option(SERVER, "write-deadline", "write_deadline_s", SECONDS, "S", f"{_DEFAULTS.write_deadline_s:g}",
           "seconds after which a client that reads nothing is dropped"),
    Option(SERVER, "shutdown-grace", "shutdown_grace_s", SECONDS, "S", f"{_DEFAULTS.shutdown_grace_s:g}",
           "seconds that running answers get after SIGTERM"),
    Option(FAULTS, "trace", "trace_file", TEXT, "FILE", "none",
           "when something breaks, write there what the card was asked for last, with the token ids of prompts"),
    Option(FAULTS, "trace-commands", "trace_commands", _WHOLE, "N", f"{DEFAULT_TRACE_COMMANDS:,} with --trace",
           "commands and reports that are kept for --trace"),
    Option(UNSERVED, "batch", "batch_slots", _WHOLE, "N", "off", "requests served at once"),
    Option(UNSERVED, "pipeline-windows", "has_pipeline_windows", FLAG, "", "off",
           "the next window while one is verified"),
    Option(UNSERVED, "layer-split", "has_layer_split", FLAG, "", "off", "layers over several cards"),
    Option(UNSERVED, "peer-cache", "has_peer_cache", FLAG, "", "off", "experts cached on another card"),
    Option(UNSERVED, "remote-cache", "has_remote_cache", FLAG, "", "off", "experts cached on another machine"),
    Option(UNSERVED, "helper-cache", "has_helper_cache", FLAG, "", "off", "experts computed by a helper card"),
    Option(UNSERVED, "kv-resident", "kv_resident_tokens", _TOKENS, "N", "all",
           "tokens whose K and V stay on the card"),
    Option(UNSERVED, "prefill-head-alias", "has_prefill_head_alias", FLAG, "", "off",
           "prompt buffers over the output head"),
)  # fmt: skip

SWITCHES = (
    Switch("mtp_room_min", whole_number("a whole number of tokens, 0 for every request, or -1 for none", minimum=-1),
           "-1", "requests of at least N fresh tokens use the drafter's block as ring slots while they are read"),
    Switch("prefill_elastic_loan", SWITCH, "0",
           "lend what decoding alone uses to the first request, by remapping its segments"),
    Switch("prefill_mtp_loan", SWITCH, "0", "of that, also the drafter's experts and the draft head"),
    Switch("prefill_head_loan", SWITCH, "0", "of that, also the output head"),
    Switch("prefill_retain_startup_chunk", SWITCH, "0", "a first read keeps the geometry that was planned at start"),
    Switch("prefill_repeat_loan", SWITCH, "0", "take the loan again for later long prompts"),
    Switch("prefill_repeat_min_tokens", whole_number("a whole number of tokens"), str(DEFAULT_REPEAT_MIN_TOKENS),
           f"fresh tokens from which it is taken again; below {MIN_REPEAT_MIN_TOKENS} raised to that"),
    Switch("mmq_slab", SWITCH, "0", "scratch of prompt kernels comes out of the loan's tail"),
    Switch("ckpt_reread", SWITCH, "0", "do not restore a checkpoint or a parked conversation, read again from 0"),
    Switch("prefill_ring", whole_number("a whole number of slots, 1 or more", minimum=1), "the planner's rule",
           "slots of the prompt ring"),
)  # fmt: skip

_NOT_YET = {row.name: row for row in NOT_YET}


def describe(entry: Option | Switch) -> str:
    """Meaning, what of it is not in this version, and the default."""
    row = _NOT_YET.get(f"--{entry.name}" if isinstance(entry, Option) else entry.variable)
    note = "" if row is None else f"; {row.part}{': ' if row.part else ''}not in this version"
    return f"{entry.meaning}{note} (default: {entry.default})"
