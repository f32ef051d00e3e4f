import pytest

from strata.core.config import DeviceChoice, ServeConfig, check_config, choose_context
from strata.core.errors import Refusal
from strata.core.units import MIB


def test_all_reasons_are_given_at_once():
    config = ServeConfig("m", DeviceChoice.CUDA, vram_bytes=1, context_tokens=1, port=70_000, max_queued=-1, api_key="")
    words = ("device=cuda", "vram=1 B", "ctx=1", "port=70000", "queue=-1", "api-key")
    reasons = [refusal.reason for refusal in check_config(config)]
    assert len(reasons) == len(words)
    assert all(word in reason for word, reason in zip(words, reasons, strict=True))


def test_the_defaults_are_not_refused():
    assert check_config(ServeConfig("m")) == []


def test_the_card_is_whole_segments():
    assert ServeConfig("m", vram_bytes=5 * MIB + 1).arena_bytes == 4 * MIB
    assert ServeConfig("m").arena_bytes == 256 * MIB


@pytest.mark.parametrize(("asked", "model", "chosen"), [(None, 512, 512), (None, 10**6, 32_768), (600, 600, 600)])
def test_the_context_is_the_models_or_what_was_asked(asked, model, chosen):
    assert choose_context(ServeConfig("m", context_tokens=asked), model_context_tokens=model) == chosen


def test_more_context_than_the_model_has_is_refused():
    refused = choose_context(ServeConfig("m", context_tokens=513), model_context_tokens=512)
    assert isinstance(refused, Refusal)
    assert "513" in refused.reason
    assert "512" in refused.reason
