"""The file of `--warm-start`: what is written is what is read, and what is another model's or damaged is refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata.config.values import ServeConfig
from strata.core.errors import ConfigError
from strata.core.units import MIB
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from strata.model.spec import ModelSpec
from strata.planning import plan_model
from strata.warm_start import load_usage, model_digest, save_usage
from tests.fixtures.models import write_random_model


def spec_at(folder: Path, **rest: Any) -> ModelSpec:
    return spec_of(open_model(write_random_model(folder / f"{len(list(folder.iterdir()))}.gguf", **rest)))


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    """Its first layer is dense."""
    found = spec_at(tmp_path_factory.mktemp("models"), arch="glm4moe", layers=3)
    assert [blob is None for blob in found.blobs] == [True, False, False]
    return found


def heat_of(spec: ModelSpec) -> tuple[int, ...]:
    """0 in rows of dense layers."""
    moe = [blob is not None for blob in spec.blobs for _ in range(spec.num_experts)]
    return tuple(7 * i * is_moe for i, is_moe in enumerate(moe))


def test_what_is_saved_is_what_is_loaded(tmp_path: Path, spec: ModelSpec):
    path = tmp_path / "usage.json"
    assert load_usage(path, spec) == ()
    save_usage(path, spec, heat_of(spec))
    assert load_usage(path, spec) == heat_of(spec)
    document = json.loads(path.read_text())
    assert document["version"] == 1 and [len(row) for row in document["heat"]] == [
        0,
        spec.num_experts,
        spec.num_experts,
    ]
    save_usage(path, spec, heat_of(spec))
    assert [each.name for each in tmp_path.iterdir()] == ["usage.json"]


def test_it_is_written_as_a_whole_or_not_at_all(tmp_path: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "usage.json"
    save_usage(path, spec, heat_of(spec))
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        save_usage(path, spec, (1,) * len(heat_of(spec)))
    assert path.read_bytes() == before


def test_a_model_in_finer_form_has_the_same_digest_and_another_one_has_not(tmp_path: Path):
    """The fixtures keep routers in f32."""
    same = [spec_at(tmp_path, arch="mixtral", quant=quant) for quant in ("Q4_0", "Q8_0")]
    others = [spec_at(tmp_path, arch="mixtral", seed=5), spec_at(tmp_path, arch="mixtral", experts=16)]
    digests = [model_digest(spec) for spec in (*same, *others)]
    assert digests[0] == digests[1] and len(set(digests)) == 3


Change = Callable[[dict[str, Any]], object]
DAMAGES: dict[str, tuple[str, Change]] = {
    "another format": ("is no file of expert usage", lambda d: d.update(format="strata trace")),
    "no format": ("is no file of expert usage", lambda d: d.pop("format")),
    "a later version": ("has version=2, this program reads version=1", lambda d: d.update(version=2)),
    "a version that is a truth value": ("has version=true", lambda d: d.update(version=True)),
    "another model": ("is of another model", lambda d: d["model"].update(digest="0" * 64)),
    "no model": ("is of another model", lambda d: d.pop("model")),
    "a row too few": ("it has no row for each of 3 layers", lambda d: d["heat"].pop()),
    "no rows": ("it has no row for each of 3 layers", lambda d: d.update(heat={})),
    "an expert too few": ("layer 2 has no numbers for 8 experts", lambda d: d["heat"][2].pop()),
    "numbers in a dense layer": ("layer 0 has no numbers for 0 experts", lambda d: d["heat"][0].append(1)),
    "a negative number": ("layer 1 has what is no whole number", lambda d: d["heat"][1].__setitem__(3, -1)),
    "a huge number": ("layer 1 has what is no whole number", lambda d: d["heat"][1].__setitem__(3, 1 << 31)),
    "a fraction": ("layer 1 has what is no whole number", lambda d: d["heat"][1].__setitem__(3, 0.5)),
    "a truth value": ("layer 1 has what is no whole number", lambda d: d["heat"][1].__setitem__(3, True)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_damage_is_refused_with_what_to_do(tmp_path: Path, spec: ModelSpec, name: str):
    path, (reason, change) = tmp_path / "usage.json", DAMAGES[name]
    save_usage(path, spec, heat_of(spec))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ConfigError) as caught:
        load_usage(path, spec)
    (said,) = caught.value.reasons
    assert said.startswith(f"warm-start refused: {path} ") and reason in said
    assert said.endswith("; delete it, or give --warm-start another file")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"GGUF"])
def test_what_is_no_json_object_is_refused(tmp_path: Path, spec: ModelSpec, data: bytes):
    path = tmp_path / "usage.json"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="no file of expert usage"):
        load_usage(path, spec)


def test_what_cannot_be_read_is_refused(tmp_path: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_usage(tmp_path, spec)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_usage(tmp_path / "a\0b", spec)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is a pipe"):
        load_usage(tmp_path / "pipe", spec)
    save_usage(tmp_path / "usage.json", spec, heat_of(spec))
    monkeypatch.setattr("strata.warm_start.MAX_FILE_BYTES", 9)
    with pytest.raises(ConfigError, match="more than 9 B"):
        load_usage(tmp_path / "usage.json", spec)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 1 << 40) | st.floats(allow_nan=True) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.sampled_from(("format", "version", "model", "heat")), value=JSON)
def test_no_value_gets_past_the_checks(tmp_path: Path, spec: ModelSpec, key: str, value: Any):
    path = tmp_path / "usage.json"
    save_usage(path, spec, heat_of(spec))
    document = json.loads(path.read_text())
    if document[key] == value:
        return
    path.write_text(json.dumps({**document, key: value}))
    with pytest.raises(ConfigError, match="warm-start refused"):
        load_usage(path, spec)


def test_a_plan_has_the_heat_of_its_file(tmp_path: Path):
    model = write_random_model(tmp_path / "model.gguf", arch="mixtral")
    usage, config = tmp_path / "usage.json", ServeConfig(str(model), vram_bytes=16 * MIB, num_swaps=2)
    spec = spec_of(open_model(model))
    save_usage(usage, spec, heat_of(spec))
    asked = ServeConfig(str(model), vram_bytes=16 * MIB, num_swaps=2, warm_start_file=str(usage))
    assert (plan_model(config).heat, plan_model(asked).heat) == ((), heat_of(spec))
