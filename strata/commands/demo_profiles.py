"""What the demo shows for each model: how its server is started, unless the user says otherwise, and what is asked.

strata-tiny   the model that comes with the package: a hybrid with a drafter, so every loan and drafts
smollm2       a mixture made of SmolLM2 on this machine: no drafter, so cache slots alone
FILE          any other model, on a card of the same size
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from strata.commands import embedded_model
from strata.config.values import ServeConfig

SMOLLM2, STRATA_TINY = "smollm2", "strata-tiny"
DEMO_FIXED = {"device": "twin", "port": "0"}
"""What the demo's server always has: the twin, and a port that nobody else uses."""
DEMO_OPTIONS = ("vram", "ctx")
"""Options of a server that the demo has too."""

LETTER = (
    "Read this letter, then answer the question below it.\n\n"
    '"Dear Anna, we are back from the mountains. On Monday we took the early train to the lake, and my brother Tom '
    "carried the heavy blue tent all the way up the hill. It rained for two days, so we stayed in a small hut near the "
    "river, where an old farmer named Peter gave us bread, cheese and warm milk. On Thursday the sun came out at last. "
    "We swam in the cold lake, saw two eagles over the forest, and in the evening we made a fire and sang until the "
    "stars came out. On Saturday we packed everything and walked down to the village. Next summer you must come with "
    'us. With love, Marie"\n\n'
)
TURNS = (
    (LETTER + "Question: Where did they stay while it rained?", 16),
    ("Thank you! And what did they see over the forest?", 14),
)
"""(what is asked, the most tokens of the answer). Long enough that the letter is read as a chunk through the ring;
short enough that a slow machine (60 prompt and 2.5 answer tokens a second) ends within half a minute."""
TINY_TURNS = (
    (
        "Please read this.\n\nOn Monday Anna went to a lake in the mountains. Anna carried a blue tent. There was an "
        "eagle that followed Anna all the way. It rained for two days. In the evening Anna met Peter, a farmer, who "
        "had bread and warm milk.\n\nQuestion: Whom did Anna meet in the evening?",
        32,
    ),
    ("What is the work of Peter?", 32),
    (
        "Here is a short text.\n\nOn Saturday Tom went to a market near the river. Tom carried a red basket. There was "
        "a goose that followed Tom all the way. The sun came out at last. In the evening Tom met Marie, a painter, who "
        "had three apples and a cake.\n\nQuestion: Which color was the basket?",
        32,
    ),
    ("Tell me a story for children about a proud goose who finds a hidden door. Use simple words.", 64),
)
"""The first is read on lent segments, the third in the room, the short ones by decode windows."""


DRAFTER_OPTIONS = ("mtp", "spec")
DRAFTER_SWITCHES = ("STRATA_MTP_ROOM_MIN", "STRATA_PREFILL_MTP_LOAN", "STRATA_PREFILL_HEAD_LOAN")
ELASTIC_OPTIONS = ("vram-elastic", "twin-segment-kib")
ELASTIC_SWITCHES = ("STRATA_PREFILL_ELASTIC_LOAN", "STRATA_PREFILL_MTP_LOAN", "STRATA_PREFILL_HEAD_LOAN")


@dataclass(frozen=True, slots=True)
class DemoProfile:
    """`options`: of the server, by name, as they would be written, flags True; `switches`: by variable. The turns take
    `context_tokens` at most. `has_drafter`: a demo without a room or without drafts is none."""

    options: Mapping[str, str | bool]
    switches: Mapping[str, str] = field(default_factory=dict)
    turns: tuple[tuple[str, int], ...] = TURNS
    context_tokens: int = 256
    has_drafter: bool = False

    def without(self, options: Container[str], switches: Container[str]) -> "DemoProfile":
        return replace(
            self,
            options={name: value for name, value in self.options.items() if name not in options},
            switches={name: value for name, value in self.switches.items() if name not in switches},
        )


ANY = DemoProfile({"vram": "256MiB", "ctx": "2048"})
MIXTURE = DemoProfile({**ANY.options, "cache-min-slots": "16", "parked-mib": "64"})
"""So few slots are kept that the cache of a small card may lend."""
TINY = DemoProfile(
    {
        "vram": "14MiB",
        "ctx": "2048",
        "cache-min-slots": "16",
        "parked-mib": "64",
        "checkpoint-mib": "16",
        "vram-elastic": True,
        "twin-segment-kib": "64",
        "mtp": "1",
        "spec": "3",
    },
    switches={
        "STRATA_MTP_ROOM_MIN": "0",
        "STRATA_PREFILL_ELASTIC_LOAN": "1",
        "STRATA_PREFILL_MTP_LOAN": "1",
        "STRATA_PREFILL_HEAD_LOAN": "1",
    },
    turns=TINY_TURNS,
    context_tokens=512,
    has_drafter=True,
)


def without_what_is_off(profile: DemoProfile, config: ServeConfig, set_by_user: Container[str]) -> DemoProfile:
    """The demo of a user who turned the drafter or segments that move off, by variable, without what needs them."""
    is_drafter_off = "STRATA_MTP" in set_by_user and config.mtp is None
    if profile.has_drafter and (is_drafter_off or ("STRATA_SPEC" in set_by_user and config.window_rows < 2)):
        profile = replace(profile.without(DRAFTER_OPTIONS, DRAFTER_SWITCHES), has_drafter=False)
    if "STRATA_VRAM_ELASTIC" in set_by_user and not config.is_vram_elastic:
        profile = profile.without(ELASTIC_OPTIONS, ELASTIC_SWITCHES)
    return profile


def choose_demo(name: str | None) -> tuple[DemoProfile, Path | None]:
    """What the demo shows, and its file; None where that has to be made first."""
    if name in (None, STRATA_TINY):
        return TINY, embedded_model.EMBEDDED
    return (MIXTURE, None) if name == SMOLLM2 else (ANY, Path(str(name)))
