"""From a plan to a card with its weights: refused with numbers where the host cannot hold them; then nothing stays."""

import fcntl
from pathlib import Path

import pytest

from strata import boot_card
from strata.boot_card import open_card
from strata.config.values import Mtp
from strata.core.errors import ConfigError, ModelError
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import blob_content
from strata.planning import PlannedModel, lends
from tests.cuda.builders import PAGE_BYTES, SEGMENT_BYTES, fake_driver
from tests.cuda.fake_driver import CUresult, FakeDriver
from tests.cuda.host_views import HostViews
from tests.cuda.model_on_fake import plan_on_card
from tests.fixtures.lend_model import NUM_EXPERTS, write_lend_model, write_lend_pair
from tests.fixtures.models import write_random_model

SMALL = {"hidden": 32, "heads": 2, "kv_heads": 1, "ffn": 32, "vocab": 288}


@pytest.fixture
def planned(tmp_path: Path) -> PlannedModel:
    path = write_random_model(tmp_path / "model.gguf", arch="qwen3moe", quant="Q8_0", **SMALL)
    return plan_on_card(path, PlanOptions(64, chunk_tokens=16, num_cache_slots=7), arena_bytes=128 * SEGMENT_BYTES)


def opened(planned: PlannedModel, fake: FakeDriver):
    folder = planned.file.path.parent
    return open_card(planned, api=fake, make_views=HostViews, torch_device="cpu", lock_folder=folder)


def test_the_pack_holds_every_weight_before_anything_is_mapped(planned: PlannedModel) -> None:
    with fake_driver() as fake:
        device = opened(planned, fake)
        pack = planned.plan.pack
        blobs = [bytes(device.host(home)) for row in pack.blobs for home in row]
        assert len(set(blobs)) == len(blobs) == planned.plan.inventory.num_pairs, blob_content(0, 0)
        assert all(any(device.host(home)) for home in pack.weights.values())
        assert device.statistics().mapped_bytes == 0
        device.close()
        assert fake.leftovers() == {}


@pytest.mark.slow
def test_a_drafter_of_a_file_of_its_own_is_packed_as_that_of_the_model(tmp_path: Path) -> None:
    pair, whole = write_lend_pair(tmp_path), write_lend_model(tmp_path / "model.gguf")
    options = PlanOptions(64, chunk_tokens=16, num_cache_slots=7, window_rows=2)
    packs = []
    for path, mtp in ((whole, Mtp()), (pair.trunk, Mtp(str(pair.drafter)))):
        planned = plan_on_card(path, options, arena_bytes=512 * SEGMENT_BYTES, mtp=mtp)
        pack, drafter = planned.plan.pack, planned.spec.drafter
        assert drafter is not None and len(pack.block) == NUM_EXPERTS
        with fake_driver() as fake:
            device = opened(planned, fake)
            blobs = [bytes(device.host(home)) for home in pack.block]
            packs.append((blobs, {name: bytes(device.host(pack.weights[name])) for name in drafter.dense}))
            device.close()
    assert packs[0] == packs[1] and len(set(packs[0][0])) == NUM_EXPERTS


def test_a_pack_that_cannot_be_pinned_whole_is_refused_with_the_missing_bytes(planned: PlannedModel) -> None:
    """Pinning is refused in the middle of the only block there is, so nothing of the pack is pinned."""
    size_bytes = planned.plan.pack.size_bytes
    with fake_driver(pinnable_bytes=size_bytes // 2) as fake:
        with pytest.raises(ConfigError) as refused:
            opened(planned, fake)
        text = str(refused.value)
        assert f"{size_bytes:,} B of it, of which 0 B could be pinned: {size_bytes:,} B are missing" in text
        assert "memlock" in text and "strata doctor" in text and "--resident-budget-gib 0.0: then" in text
        assert fake.leftovers() == {}


def test_a_host_without_room_for_the_weights_is_refused_before_the_driver_is_asked(
    planned: PlannedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_card, "available_bytes", lambda: PAGE_BYTES)
    with fake_driver() as fake:
        with pytest.raises(ConfigError, match=r"pinned host memory, 4,096 B are available"):
            opened(planned, fake)
        assert fake.calls == []


def test_a_file_that_changed_gives_the_card_back(planned: PlannedModel) -> None:
    planned.file.path.write_bytes(planned.file.path.read_bytes() + b"\0")
    with fake_driver() as fake:
        with pytest.raises(ModelError, match="changed"):
            opened(planned, fake)
        assert fake.leftovers() == {}


def test_a_card_without_attributes_is_refused_and_given_back(planned: PlannedModel) -> None:
    with fake_driver() as fake:
        fake.refuse("cuDeviceGetAttribute", code=CUresult.CUDA_ERROR_INVALID_VALUE)
        with pytest.raises(Exception, match="cuDeviceGetAttribute failed"):
            opened(planned, fake)
        assert fake.leftovers() == {}


def test_a_card_whose_memory_is_lent_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    """Invariant 45: another process is refused before it takes anything, and a plan that lends nothing asks nobody."""
    path = write_random_model(tmp_path / "lends.gguf", arch="qwen3moe", experts=64, **{**SMALL, "ffn": 64}, layers=1)
    lending = plan_on_card(path, PlanOptions(64, chunk_tokens=16, min_cache_slots=3), arena_bytes=40 * SEGMENT_BYTES)
    alone = plan_on_card(path, PlanOptions(64, chunk_tokens=16, num_cache_slots=7), arena_bytes=64 * SEGMENT_BYTES)
    assert lends(lending.plan) and not lends(alone.plan)
    with fake_driver() as fake:
        device = opened(lending, fake)
        (path,) = tmp_path.glob("strata-GPU-*.lock")
        with path.open() as file:
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            device.close()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as another process would
            with pytest.raises(ConfigError, match="another process lends memory of card GPU-"):
                opened(lending, fake)
            assert fake.leftovers() == {}
            opened(alone, fake).close()
        opened(lending, fake).close()
