"""Files that a server will write: judged before anything is loaded, never over something else, and always whole."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from strata.commands import serve
from strata.config.values import ServeConfig
from strata.core.errors import ConfigError
from strata.output_file import check_target, replace_file

CONFIG = ServeConfig(model="model.gguf")


def test_a_target_is_judged_before_the_server_starts(tmp_path: Path) -> None:
    assert check_target(tmp_path / "t.jsonl", kind="a trace") == ""
    assert check_target(tmp_path, kind="a trace") == f"{tmp_path} is a folder"
    assert check_target(tmp_path / "none" / "t.jsonl", kind="a trace") == f"there is no folder {tmp_path / 'none'}"


def test_neither_a_device_nor_another_kind_of_file_is_ever_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for special in (tmp_path / "pipe", Path("/dev/null")):
        assert check_target(special, kind="a trace") == f"{special} is no regular file, and would be replaced by one"
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    assert check_target(path, kind="a trace") == f"{path} exists and is not a trace"
    for old in (b"", b'{"device":{}'):
        path.write_bytes(old)
        assert check_target(path, kind="a trace") == ""


def refusals(**files: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        serve._check_files(replace(CONFIG, **files))  # type: ignore[arg-type]
    return str(caught.value).splitlines()


def test_a_refusal_says_what_the_file_of_its_option_should_be(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    trace, usage = refusals(trace_file=str(path), warm_start_file=str(other))
    assert trace.startswith(f"trace refused: {path} exists and is not a trace; give --trace ")
    assert usage.startswith(f"warm-start refused: {other} exists and is not a file of expert usage; give --warm-start ")


def test_one_file_cannot_be_trace_and_expert_usage(tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    (tmp_path / "sub").mkdir()
    (said,) = refusals(trace_file=str(path), warm_start_file=str(tmp_path / "sub" / ".." / "both.json"))
    assert said.startswith("warm-start refused: ") and said.endswith("give --warm-start another file")
    serve._check_files(replace(CONFIG, trace_file=str(path), warm_start_file=str(tmp_path / "usage.json")))


def test_of_two_writers_at_once_each_leaves_a_whole_file(tmp_path: Path) -> None:
    path, texts = tmp_path / "file", ("{" + "a" * 4000 + "}", "{" + "b" * 9000 + "}")

    def write(text: str) -> None:
        for _ in range(100):
            replace_file(path, text)
            assert path.read_text(encoding="utf-8") in texts

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, texts))
    assert list(tmp_path.iterdir()) == [path]
