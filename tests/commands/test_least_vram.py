"""What a refusal says of --vram is enough, and one segment less is not."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from strata.config.switches import LendingSwitches
from strata.config.values import DeviceChoice, ServeConfig
from strata.core.errors import ConfigError
from strata.core.units import MIB
from strata.planning import plan_model
from tests.fixtures.models import write_random_model

SLAB = LendingSwitches(mmq_slab=True)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vram") / "big.gguf"
    shape = {"layers": 4, "experts": 64, "hidden": 128, "ffn": 128, "context": 4096}
    return write_random_model(path, arch="qwen3moe", quant="F16", **shape)


def config_of(path: Path, *, vram_mib: int, switches: LendingSwitches) -> ServeConfig:
    vram_bytes = vram_mib * MIB
    return ServeConfig(str(path), DeviceChoice.CUDA, vram_bytes=vram_bytes, context_tokens=256, switches=switches)


@pytest.mark.parametrize("switches", [LendingSwitches(), SLAB], ids=["plain", "slab"])
def test_what_is_asked_for_is_enough_and_less_is_not(big: Path, switches: LendingSwitches):
    config = config_of(big, vram_mib=2, switches=switches)
    with pytest.raises(ConfigError) as refused:
        plan_model(config)
    asked = re.search(r"--vram=(\d+)MiB at least", str(refused.value))
    assert asked is not None, refused.value
    least_bytes = int(asked[1]) * MIB
    plan_model(replace(config, vram_bytes=least_bytes))
    with pytest.raises(ConfigError):
        plan_model(replace(config, vram_bytes=least_bytes - config.segment_bytes))


def test_where_no_card_is_large_enough_no_size_is_asked_for(tmp_path: Path):
    """A cache of all experts there are keeps 128 slots, and so lends none."""
    path = write_random_model(tmp_path / "small.gguf", arch="qwen3moe", layers=2, experts=8)
    with pytest.raises(ConfigError, match=r"no --vram is enough; unset STRATA_MMQ_SLAB"):
        plan_model(config_of(path, vram_mib=1024, switches=SLAB))
