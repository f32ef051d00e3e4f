"""Values by themselves, and what follows from them."""

import pytest

from strata.config.context import choose_context
from strata.config.refusals import check_config
from strata.config.switches import LendingSwitches, switch_notices
from strata.config.values import DeviceChoice, ModelFacts, Mtp, Prefill, ServeConfig, slab_notices
from strata.core.errors import Refusal
from strata.core.units import KIB, MIB


def reasons(config: ServeConfig, facts: ModelFacts | None = None) -> list[str]:
    return [refusal.reason for refusal in check_config(config, facts=facts)]


def facts(**changes: object) -> ModelFacts:
    values = {"context_tokens": 512, "num_expert_pairs": 32, "num_experts_used": 2}
    return ModelFacts(**{**values, "has_output_head": True, "num_nextn_blocks": 1, "head_dim": 64, **changes})


def test_all_reasons_are_given_at_once():
    config = ServeConfig("m", DeviceChoice.HIP, vram_bytes=1, context_tokens=1, port=70_000, max_queued=-1, api_key="")
    words = ("vram=1 B", "ctx=1", "port=70000", "api-key", "queue=-1", "device=hip")
    assert len(reasons(config)) == len(words)
    assert all(word in reason for word, reason in zip(words, reasons(config), strict=True))


@pytest.mark.parametrize("known", [None, facts()])
def test_the_defaults_are_not_refused(known):
    assert reasons(ServeConfig("m"), known) == []


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (ServeConfig("m", vram_segment_bytes=3 * MIB), "vram-segment-mib=3 MiB; give --vram-segment-mib a multiple of"),
        (
            ServeConfig("m", DeviceChoice.CUDA),
            "device=cuda refused: a card's arena has no size of its own; give --vram",
        ),
        (ServeConfig("m", vram_segment_bytes=0), "vram-segment-mib=0 MiB"),
        (ServeConfig("m", parked_bytes=-3 * MIB), "parked-mib=-3 MiB; give --parked-mib 0 (none) or more"),
        (ServeConfig("m", checkpoint_bytes=-MIB), "checkpoint-mib=-1 MiB; give --checkpoint-mib 0 (none) or more"),
        (ServeConfig("m", twin_segment_bytes=6 * KIB), "twin-segment-kib=6 KiB; give --twin-segment-kib a multiple of"),
        (ServeConfig("m", vram_segment_bytes=512 * MIB), "the default card is less than one segment of 536,870,912 B"),
        (ServeConfig("m", prefill=Prefill(300)), "prefill=300 tokens; give --prefill a multiple of 256 tokens"),
        (ServeConfig("m", prefill=Prefill(None, 0)), "prefill=auto:0 tokens; give --prefill a multiple of 256 tokens"),
        (ServeConfig("m", min_cache_slots=0), "cache-min-slots=0 slots; give --cache-min-slots 1 or more"),
        (ServeConfig("m", write_deadline_s=0.0), "write-deadline=0 s; give --write-deadline more than 0"),
        (ServeConfig("m", shutdown_grace_s=-0.5), "shutdown-grace=-0.5 s; give --shutdown-grace 0 or more"),
        (ServeConfig("m", spec_rows=9), "spec=9 rows; give --spec 1 to 8, or leave --spec out"),
        (ServeConfig("m", host=""), "host refused: it is empty; give --host an address (0.0.0.0 for every one)"),
        (ServeConfig("m", host=" "), "host refused: it is empty; give --host an address (0.0.0.0 for every one)"),
    ],
)
def test_a_value_off_its_range_or_grid_is_refused_by_name(config, reason):
    assert [reason in each for each in reasons(config)] == [True]


@pytest.mark.parametrize(
    ("config", "known", "reason"),
    [
        (ServeConfig("m", context_tokens=513), facts(), "ctx=513 tokens, the model has 512; lower --ctx"),
        (ServeConfig("m", min_cache_slots=33), facts(), "cache-min-slots=33 slots, the model has 32 experts in all"),
        (ServeConfig("m", min_cache_slots=1), facts(), "cache-min-slots=1 slots, one token uses 2 experts of a layer"),
        (ServeConfig("m", min_cache_slots=2), facts(num_expert_pairs=0, num_experts_used=0), "the model has 0 experts"),
        (ServeConfig("m", prefill=Prefill(768)), facts(), "never fills more than 512; lower --prefill or give --prefi"),
        (
            ServeConfig("m", context_tokens=200, prefill=Prefill(512)),
            facts(),
            "a context of 200 tokens never fills mor",
        ),
        (
            ServeConfig("m", switches=LendingSwitches(prefill_ring=33)),
            facts(),
            "STRATA_PREFILL_RING=33 slots, the model has 32 experts in all its layers; lower STRATA_PREFILL_RING",
        ),
    ],
)
def test_a_value_that_this_model_cannot_have_is_refused_by_name(config, known, reason):
    assert reasons(config) == []
    assert [reason in each for each in reasons(config, known)] == [True]


def test_the_card_is_whole_segments():
    assert ServeConfig("m", vram_bytes=5 * MIB + 1).arena_bytes == 4 * MIB
    assert ServeConfig("m", vram_bytes=100 * KIB, twin_segment_bytes=64 * KIB).arena_bytes == 64 * KIB
    assert ServeConfig("m").arena_bytes == 256 * MIB


@pytest.mark.parametrize(
    ("config", "segment_bytes"),
    [
        (ServeConfig("m"), 2 * MIB),
        (ServeConfig("m", is_vram_elastic=True), 64 * MIB),
        (ServeConfig("m", is_vram_elastic=True, vram_segment_bytes=128 * MIB), 128 * MIB),
        (ServeConfig("m", vram_segment_bytes=4 * MIB), 4 * MIB),
        (ServeConfig("m", vram_segment_bytes=4 * MIB, twin_segment_bytes=8 * KIB), 8 * KIB),
        (ServeConfig("m", DeviceChoice.CUDA, vram_segment_bytes=4 * MIB, twin_segment_bytes=8 * KIB), 4 * MIB),
    ],
)
def test_segments_are_those_of_the_twin_then_of_any_card_then_the_default(config, segment_bytes):
    assert config.segment_bytes == segment_bytes


@pytest.mark.parametrize(("asked", "model", "chosen"), [(None, 512, 512), (None, 10**6, 32_768), (600, 600, 600)])
def test_the_context_is_the_models_or_what_was_asked(asked, model, chosen):
    assert choose_context(ServeConfig("m", context_tokens=asked), model_context_tokens=model) == chosen


def test_more_context_than_the_model_has_is_refused():
    refused = choose_context(ServeConfig("m", context_tokens=513), model_context_tokens=512)
    assert isinstance(refused, Refusal)
    assert "513" in refused.reason
    assert "512" in refused.reason


def test_windows_have_one_row_and_three_with_a_drafter_unless_asked_for():
    assert ServeConfig("m").window_rows == 1
    assert ServeConfig("m", mtp=Mtp()).window_rows == 3
    assert ServeConfig("m", mtp=Mtp(), spec_rows=2).window_rows == 2


def test_the_key_is_in_no_description_of_a_configuration():
    assert "secret" not in repr(ServeConfig("m", api_key="secret"))


@pytest.mark.parametrize(("asked", "used"), [(None, 1024), (-1, 256), (255, 256), (256, 256), (5000, 5000)])
def test_the_threshold_of_repeats_is_raised_to_256_with_one_line(asked, used):
    switches = LendingSwitches(prefill_elastic_loan=True, prefill_repeat_loan=True, prefill_repeat_min_tokens=asked)
    raised = [f"STRATA_PREFILL_REPEAT_MIN_TOKENS={asked} tokens is raised to 256 tokens"]
    assert switches.repeat_min_tokens == used
    assert switch_notices(switches) == (raised if asked is not None and asked < 256 else [])


def test_a_threshold_without_repeats_is_said_to_have_no_effect():
    [notice] = switch_notices(LendingSwitches(prefill_elastic_loan=True, prefill_repeat_min_tokens=300))
    assert notice == "STRATA_PREFILL_REPEAT_MIN_TOKENS=300 has no effect without STRATA_PREFILL_REPEAT_LOAN=1"


@pytest.mark.parametrize(
    ("device", "has_slab", "is_told"),
    [
        (DeviceChoice.AUTO, True, True),
        (DeviceChoice.TWIN, True, True),
        (DeviceChoice.CUDA, True, False),
        (DeviceChoice.TWIN, False, False),
    ],
)
def test_a_slab_that_nobody_would_work_in_is_told(device: DeviceChoice, has_slab: bool, is_told: bool):
    config = ServeConfig("m", device, switches=LendingSwitches(mmq_slab=has_slab))
    line = "STRATA_MMQ_SLAB=1 has no effect on the twin: its programs need no scratch on the card"
    assert slab_notices(config) == [line] * is_told


@pytest.mark.parametrize(
    ("config", "short_read"),
    [
        (ServeConfig("m"), 0),
        (ServeConfig("m", short_read_tokens=9), 9),
        (ServeConfig("m", mtp=Mtp()), 64),
        (ServeConfig("m", mtp=Mtp(), spec_rows=1), 0),
        (ServeConfig("m", spec_rows=4), 64),
        (ServeConfig("m", mtp=Mtp(), short_read_tokens=0), 0),
    ],
)
def test_windows_read_short_prompts_where_they_have_several_rows(config: ServeConfig, short_read: int):
    assert config.short_read == short_read
