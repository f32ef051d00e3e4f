"""Whatever a trace says, `strata replay` plays it or refuses it in words: no traceback, and little memory."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strata import boot_replay
from strata.cli import main
from strata.core.errors import DeviceError
from strata.trace.command_trace import write_trace
from strata.trace.jsonl import seal
from tests.engine.symbolic_card import prompt
from tests.trace.builders import REGRESS, recorded
from tests.trace.watched_card import WatchedCard

pytestmark = pytest.mark.slow

LENDS = "refill_cannot_be_repeated"
Change = Callable[[dict[str, Any]], object]


def rewritten(text: str, change: Change, *, line: int = 0) -> str:
    """`text` with one line changed, and the hash that belongs to it."""
    lines = [json.loads(each) for each in text.splitlines()][:-1]
    change(lines[line])
    return seal(lines[0], lines[1:])


def replayed(path: Path, text: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    path.write_text(text, encoding="utf-8")
    code = main(["replay", str(path), *options])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_experts", 33),
        ("num_experts", 0),
        ("blob_bytes", ["arena", 0, 1]),
        ("blob_bytes", []),
        ("blob_bytes", [1 << 60]),
        ("arena_bytes", 81_921),
        ("segment_bytes", 1),
        ("segment_bytes", 0),
        ("ring_slots", 10**30),
        ("context_tokens", 0),
        ("parked_bytes", 1 << 40),
        ("recurrent", [7]),
        ("delivery", {}),
    ],
)
def test_a_world_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: object
) -> None:
    text = (REGRESS / f"{LENDS}.jsonl").read_text(encoding="utf-8")
    hostile = rewritten(text, lambda head: head["geometry"].update({key: value}))
    code, err = replayed(tmp_path / "t.jsonl", hostile, capsys)
    assert code == 2 and "t.jsonl: no trace" in err and len(err.splitlines()) == 1


def test_a_geometry_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (REGRESS / f"{LENDS}.jsonl").read_text(encoding="utf-8")
    code, err = replayed(tmp_path / "t.jsonl", rewritten(text, lambda head: head.update(geometry=[])), capsys)
    assert code == 2 and "its geometry is []" in err


def test_steps_without_a_request_take_no_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (REGRESS / f"{LENDS}.jsonl").read_text(encoding="utf-8")
    head = json.loads(text.splitlines()[0])
    many = [{"do": "advance", "times": 1 << 31}] * 3
    assert replayed(tmp_path / "t.jsonl", seal(head, many), capsys) == (0, "")
    code, err = replayed(tmp_path / "t.jsonl", seal(head, [{"do": "advance", "times": 10**30}]), capsys)
    assert code == 2 and "a number that is not from 0 to" in err


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> str:
    card = WatchedCard(tmp_path_factory.mktemp("traces") / "t.jsonl")
    card.fails_at = card.num_commands + 45
    with pytest.raises(DeviceError):
        card.card.serve(prompt(300))
    return write_trace(card.trace())


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("inventory", "num_experts", 1 << 40),
        ("inventory", "num_layers", 1 << 40),
        ("inventory", "hidden_size", -1),
        ("inventory", "blob_bytes", [-5, 5]),
        ("inventory", "state_bytes", [1]),
        ("inventory", "hidden_size", "wide"),
        ("options", "ring_slots", 10**30),
        ("options", "max_chunk_tokens", 10**30),
        ("options", "context_tokens", 0),
        ("options", "window_rows", 1 << 40),
    ],
)
def test_a_server_that_cannot_have_been_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], served: str, part: str, key: str, value: object
) -> None:
    hostile = rewritten(served, lambda head: head["serving"][part].update({key: value}))
    code, err = replayed(tmp_path / "t.jsonl", hostile, capsys, "--payload", "none")
    assert code == 2 and "cannot be served again" in err and len(err.splitlines()) == 1


def test_a_card_larger_than_this_host_is_refused_before_it_is_filled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boot_replay, "available_bytes", lambda: 10_000)
    code, err = replayed(tmp_path / "t.jsonl", write_trace(recorded(LENDS).commands), capsys)
    assert code == 2 and "10,000 B are available; give --payload none" in err
    assert replayed(tmp_path / "t.jsonl", write_trace(recorded(LENDS).commands), capsys, "--payload", "none")[0] == 0


def test_what_is_no_regular_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", str(tmp_path / "pipe")):
        assert main(["replay", path]) == 2
        assert "it is no regular file" in capsys.readouterr().err


def test_names_reach_neither_terminal_nor_picture_as_controls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_trace(recorded(LENDS).commands)
    owner = "\x1b[31mred\ud800"

    def rename(line: dict[str, Any]) -> None:
        line["taker"] = owner

    lines = [json.loads(each) for each in text.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.get("op") == "transfer")
    picture = tmp_path / "card.svg"
    code, err = replayed(
        tmp_path / "t.jsonl", rewritten(text, rename, line=first), capsys, "--svg", str(picture), "--payload", "none"
    )
    assert code == 1 and "\x1b" not in err
    assert "\x1b" not in picture.read_text(encoding="utf-8")
