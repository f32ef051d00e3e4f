"""What the twin predicts for a card follows from the pace that it is given."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.predict import PACE, Prediction, Twin, compare, predict_measured, read_pace, table
from bench.synth import QUANTS, SHAPES, write_model
from strata.config.values import DeviceChoice, ServeConfig
from strata.core.units import MIB
from strata.planning import PlannedModel, plan_model

SHAPE = replace(SHAPES["qwen3moe-tiny"], experts=64, ffn=512)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> PlannedModel:
    """A third of the experts is resident."""
    path = tmp_path_factory.mktemp("predict") / "model.gguf"
    write_model(path, SHAPE, QUANTS["q4_k"], own_head=False)
    config = ServeConfig(str(path), DeviceChoice.CUDA, vram_bytes=16 * MIB, context_tokens=512, min_cache_slots=8)
    planned = plan_model(config)
    assert 0 < len(planned.plan.slots) < planned.plan.inventory.num_pairs
    return planned


def predicted(planned: PlannedModel, folder: Path, **changes: object) -> Prediction:
    """Without anything that takes time but what `changes` names."""
    still = dict.fromkeys(("copy_ns", "launch_ns", "graph_node_ns", "map_ns", "unmap_ns"), 0)
    fast = {"link_bytes_per_us": 10**9, "pack_read_bytes_per_us": 10**9, "memory_bytes_per_us": 10**9}
    path = folder / "pace.json"
    path.write_text(json.dumps({"about": "a test", "programs": {}, **still, **fast, **changes}))
    return Twin(planned, read_pace(path)).predict(300, generated=9, first_id=1)


@pytest.mark.slow
def test_a_prompts_time_is_that_of_its_programs(planned: PlannedModel, tmp_path: Path):
    attention = predicted(planned, tmp_path, programs={"attention": [0, 1000]})
    assert attention.prompt_ms == pytest.approx(SHAPE.layers * 300 * 1e-3, rel=0.02)
    assert attention.token_ms == pytest.approx(SHAPE.layers * 1e-3, rel=0.02)


@pytest.mark.slow
def test_a_token_reads_over_the_link_what_is_not_resident(planned: PlannedModel, tmp_path: Path):
    plan = planned.plan
    missing = 1 - len(plan.slots) / plan.inventory.num_pairs
    read_bytes = missing * SHAPE.layers * SHAPE.used * plan.inventory.max_blob_bytes
    found = predicted(planned, tmp_path, pack_read_bytes_per_us=1000)
    assert found.token_ms == pytest.approx(read_bytes / 1000 * 1e-3, rel=0.5)  # drawn evenly, few of them
    assert found.prompt_ms < 2 * found.token_ms


def test_what_was_measured_says_what_is_predicted(planned: PlannedModel, tmp_path: Path):
    """Arena, context, prompts and link are the measurement's; its drafts and other arms are left out."""
    spread = {"median": 50.0}
    row = {"prompt_tokens": 300, "generated": 3, "ttft_ms": spread, "decode_tok_s": spread, "reclaim_ms": spread}
    measured = {
        "ceilings": {"link_bytes_s": 1e9},
        "loans on, start": {"arena_bytes": 128 * MIB, "context_tokens": 512},
        "loans on, prompt 300": row,
        "loans off, prompt 300": row,
    }
    rows = predict_measured(planned.config.model, read_pace(PACE), measured)
    assert [(row["prompt"], row["what"]) for row in rows] == [(300, what) for what in ("prompt", "token", "reclaim")]
    assert all(row["off"] == pytest.approx(row["twin_ms"] / row["card_ms"] - 1) for row in rows)
    assert "**" in table(rows) and table(rows).count("\n") == 4


def test_a_prediction_stands_beside_the_medians_of_a_measurement():
    measured = {"ttft_ms": {"median": 400.0}, "decode_tok_s": {"median": 50.0}}
    assert compare(Prediction(380.0, 30.0, 21.0), measured) == [("prompt", 380.0, 400.0), ("token", 21.0, 20.0)]
