"""Refusals and start-up lines of the real commands, each in a process of its own: what is said, the exit code, and that
nothing was touched."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.commands.api_client import connect, get_json
from strata.commands.child_server import child_server
from strata.core.units import KIB, MIB
from tests.fixtures.models import write_random_model
from tests.tidy.tree import ROOT

pytestmark = pytest.mark.slow

WATCHED = """
import json, sys
report = sys.argv[1]
touched = []
def watch(event, arguments):
    if event in ("mmap.__new__", "socket.bind", "subprocess.Popen", "os.posix_spawn"):
        touched.append(event)
sys.addaudithook(watch)
from strata.cli import main
code = main(sys.argv[2:])
touched += sorted({name.partition(".")[0] for name in sys.modules})
with open("/proc/self/io") as file:
    read_bytes = int(file.readline().split()[1])
with open(report, "w") as file:
    json.dump({"code": code, "touched": touched, "read_bytes": read_bytes}, file)
"""
FORBIDDEN = {"torch", "trio", "quart", "hypercorn", "triton", "sim", "socket.bind", "subprocess.Popen", "mmap.__new__"}


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: list[str]
    touched: set[str]
    read_bytes: int


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("model") / "m.gguf", arch="qwen3moe", tied=True, context=512)


def start(tmp_path: Path, *arguments: str, **environment: str) -> Ended:
    report = tmp_path / "report.json"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    process = subprocess.run(
        [sys.executable, "-c", WATCHED, str(report), *arguments],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert report.exists(), process.stderr
    seen = json.loads(report.read_text())
    return Ended(seen["code"], process.stdout, process.stderr.splitlines(), set(seen["touched"]), seen["read_bytes"])


SWITCHED_ON = {
    "STRATA_MTP_ROOM_MIN": "0",
    "STRATA_PREFILL_ELASTIC_LOAN": "1",
    "STRATA_PREFILL_HEAD_LOAN": "1",
    "STRATA_PREFILL_REPEAT_LOAN": "1",
    "STRATA_PREFILL_REPEAT_MIN_TOKENS": "100",
    "STRATA_MMQ_SLAB": "1",
}
REFUSED = [
    "room refused: STRATA_MTP_ROOM_MIN=0 tokens without --mtp: there is no drafter whose block could be lent; give "
    "--mtp, or unset it",
    "room refused: STRATA_MTP_ROOM_MIN=0 tokens with --batch: slot drafters share the block; leave --batch out",
    "elastic loan refused: STRATA_PREFILL_ELASTIC_LOAN=1 without --vram-elastic: only a segmented arena can be "
    "remapped; give --vram-elastic, or unset it",
    "elastic loan refused: STRATA_PREFILL_ELASTIC_LOAN=1 with vram-segment-mib=2 MiB, at least 64 MiB are needed; "
    "raise --vram-segment-mib, or describe a small virtual card with --twin-segment-kib",
    "elastic loan refused: STRATA_PREFILL_ELASTIC_LOAN=1 with --batch; leave --batch out",
    "repeat loan refused: STRATA_PREFILL_REPEAT_LOAN=1 without STRATA_PREFILL_MTP_LOAN=1; set that one too, "
    "or unset this one",
    "head loan refused: STRATA_PREFILL_HEAD_LOAN=1 without --mtp; give --mtp, or unset it",
    "head loan refused: STRATA_PREFILL_HEAD_LOAN=1 with spec=1 rows, at least 2 are needed; raise --spec (with "
    "--mtp it is 3 by default), or unset it",
    "head loan refused: STRATA_PREFILL_HEAD_LOAN=1, the model has no output head of its own (its token embedding is "
    "used, which every read needs); unset it",
    "--kv-resident=9 is not in this version; leave --kv-resident out",
]
IDLE = "STRATA_MMQ_SLAB=1 has no effect on the twin: its programs need no scratch on the card"
RAISED = "STRATA_PREFILL_REPEAT_MIN_TOKENS=100 tokens is raised to 256 tokens"


@pytest.mark.parametrize("command", ["serve", "plan"])
def test_all_refusals_come_together_and_nothing_was_touched(tmp_path: Path, model: Path, command: str) -> None:
    options = ("--batch", "4", "--kv-resident", "9", "--vram-segment-mib", "2")
    ended = start(tmp_path, command, str(model), *options, **SWITCHED_ON)
    assert ended.err == [f"strata: {line}" for line in (RAISED, IDLE, *REFUSED)]
    assert (ended.code, ended.out) == (2, "")
    assert not ended.touched & FORBIDDEN


def test_a_refusal_reads_the_models_header_and_nothing_behind_it(tmp_path: Path) -> None:
    """Two models with the same header but for sizes: the larger one costs no more reading. Maps are forbidden too."""
    small, large = (
        write_random_model(tmp_path / f"{ffn}.gguf", arch="qwen3moe", ffn=ffn, layers=1, hidden=256)
        for ffn in (32, 512)
    )
    assert large.stat().st_size - small.stat().st_size > 10 * MIB
    refusals = [start(tmp_path, "serve", str(model), "--mtp", "--vram", "1GiB") for model in (small, large)]
    assert all("the model has no NextN block" in ended.err[0] and ended.code == 2 for ended in refusals)
    assert not any(ended.touched & FORBIDDEN for ended in refusals)
    assert abs(refusals[1].read_bytes - refusals[0].read_bytes) < MIB


def test_a_model_that_cannot_be_read_hides_no_other_reason(tmp_path: Path) -> None:
    missing = tmp_path / "none.gguf"
    ended = start(tmp_path, "serve", str(missing), "--port", "70000", "--device", "hip")
    assert [line.partition(":")[2].strip()[:12] for line in ended.err[:2]] == ["port refused", "--device=hip"]
    assert ended.err[2].startswith(f"strata: {missing}: cannot open the model file: No such file or directory; ")
    assert ended.err[2].endswith("name a .gguf file that can be read, or a folder that holds one")
    assert (ended.code, len(ended.err)) == (2, 3)


def test_the_demo_is_refused_before_its_model_is_made(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    arguments = ("demo", "--model", "smollm2", "--cache-dir", str(cache))
    ended = start(tmp_path, *arguments, STRATA_MTP_ROOM_MIN="1024", STRATA_BATCH="2")
    assert ended.code == 2 and not cache.exists() and not ended.touched & FORBIDDEN
    assert [line.partition("refused")[0] for line in ended.err[:2]] == ["strata: room ", "strata: room "]


@pytest.mark.parametrize("switch", ["STRATA_MTP_ROOM_MIN", "STRATA_PREFILL_ELASTIC_LOAN"])
def test_outside_the_server_room_and_elastic_loan_are_refused(tmp_path: Path, model: Path, switch: str) -> None:
    ended = start(tmp_path, "inspect", str(model), **{switch: "1", "STRATA_PORT": "none of its business"})
    assert ended.code == 2 and ended.out == "" and not ended.touched & FORBIDDEN
    [line] = ended.err
    assert f"refused: {switch}=1" in line and line.endswith("outside the server, in inspect; unset it, or run serve")
    assert start(tmp_path, "inspect", str(model), STRATA_MTP_ROOM_MIN="-1").code == 0


def test_plan_shows_what_the_options_ask_for(tmp_path: Path, model: Path) -> None:
    arguments = ("plan", str(model), "--json", "--vram", "2000KiB", "--twin-segment-kib", "16", "--prefill", "256")
    ended = start(tmp_path, *arguments, "--cache-min-slots", "3", STRATA_PREFILL_RING="5", STRATA_CTX="300")
    assert (ended.code, ended.err) == (0, [])
    plan = json.loads(ended.out)
    assert (plan["chunk_tokens"], plan["ring_slots"], plan["context_tokens"]) == (256, 5, 300)
    assert plan["arena_bytes"] == 2000 * 1024 and plan["cache_slots"] >= 3


def test_a_budget_is_whole_pages_and_goes_with_no_swaps_where_blobs_are_pageable(tmp_path: Path, model: Path) -> None:
    arguments = ("plan", str(model), "--json", "--vram", "2000KiB", "--twin-segment-kib", "16", "--prefill", "256")
    budget = ("--ctx", "300", "--resident-budget-gib", "0.0002")
    ended = start(tmp_path, *arguments, *budget)
    plan = json.loads(ended.out)
    assert (ended.code, plan["pinned_bytes"]) == (0, 52 * 4096) and plan["staged_blobs"] > 0
    [line] = start(tmp_path, *arguments, *budget, "--cache-swaps", "2").err
    assert line.endswith("leave --cache-swaps out or raise --resident-budget-gib")
    [line] = start(tmp_path, *arguments, "--resident-budget-gib", "-1").err
    assert "0 or more" in line


def test_slots_that_the_card_cannot_hold_are_refused_with_the_missing_bytes(tmp_path: Path, model: Path) -> None:
    arguments = ("plan", str(model), "--vram", "2000KiB", "--twin-segment-kib", "16", "--ctx", "300")
    [line] = start(tmp_path, *arguments, "--cache-min-slots", "16").err
    assert "16 cache slots" in line and "B are missing" in line and "or lower --cache-min-slots (--vram=" in line


@pytest.mark.parametrize("segment_kib", ["16", "4", "2048"])
def test_a_refusal_says_how_large_the_card_must_be_in_whole_segments(
    tmp_path: Path, model: Path, segment_kib: str
) -> None:
    segments = ("--twin-segment-kib", segment_kib)
    arguments = ("plan", str(model), "--json", *segments, "--ctx", "300", "--cache-min-slots", "16")
    [line] = start(tmp_path, *arguments, "--vram", "2MiB").err
    size, unit = re.search(r"--vram=(\d+)(KiB|MiB) at least", line).groups()
    least_bytes = int(size) * (MIB if unit == "MiB" else KIB)
    assert least_bytes % (int(segment_kib) * KIB) == 0
    assert start(tmp_path, *arguments, "--vram", f"{least_bytes}").code == 0
    smaller = start(tmp_path, *arguments, "--vram", f"{least_bytes - 1}")
    assert smaller.code == 2 and f"--vram={size}{unit} at least" in smaller.err[0]


def test_the_demo_is_planned_before_its_server_starts(tmp_path: Path, model: Path) -> None:
    arguments = ("demo", "--model", str(model), "--ctx", "300", "--vram", "160KiB")
    ended = start(tmp_path, *arguments, STRATA_TWIN_SEGMENT_KIB="16")
    assert ended.code == 2 and ended.out == "" and "subprocess.Popen" not in ended.touched
    [line] = ended.err
    assert line.startswith("strata: vram refused: ") and "B are missing" in line


def test_an_output_that_nobody_reads_is_no_traceback(tmp_path: Path, model: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "strata", "inspect", str(model)]
    ended = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_one_of_a_kind_is_written_in_the_singular(tmp_path: Path, model: Path) -> None:
    lines = start(tmp_path, "inspect", str(model)).out.splitlines()
    assert ", 1 shard, " in lines[0] and "MTP           no NextN blocks" in lines
    [embedding] = [line for line in lines if line.startswith("embedding")]
    assert " 1 tensor  " in embedding


def test_a_line_about_an_unknown_variable_leaves_json_alone(tmp_path: Path, model: Path) -> None:
    ended = start(tmp_path, "plan", str(model), "--json", STRATA_MTP_ROM_MIN="0")
    assert ended.code == 0 and json.loads(ended.out)
    assert len(ended.err) == 1 and "did you mean STRATA_MTP_ROOM_MIN?" in ended.err[0]


@pytest.mark.parametrize("variables", [{"STRATA_MTP": "1"}, {"STRATA_SPEC": "2"}])
def test_a_drafter_is_planned_for_where_it_is_asked_for_and_wide_windows_need_none(
    lend_model: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    ended = start(tmp_path, "plan", str(lend_model), "--json", "--vram", "16MiB", **variables)
    assert (ended.code, ended.err) == (0, [])
    plan = json.loads(ended.out)
    owners = [region["owner"] for region in plan["regions"]]
    assert ("block" in owners) == ("STRATA_MTP" in variables) == (plan["drafter"] is not None)
    assert not ended.touched & FORBIDDEN


def test_a_server_runs_with_the_geometry_that_was_asked_for(tmp_path: Path, model: Path) -> None:
    """Options of all three sources at once; the prompt is longer than a chunk, so it is read through the ring."""
    file = tmp_path / "strata.toml"
    file.write_text('prefill = "auto:256"\ncache-min-slots = 3\nctx = 400\nSTRATA_PREFILL_RING = 5\n')
    command = [sys.executable, "-m", "strata", "serve", str(model), "--port", "0", "--twin-segment-kib", "16"]
    command += ["--vram", "1775KiB", "--config", str(file)]
    with child_server(command) as server, connect(server.url) as client:
        reply = client.post("/v1/completions", json={"prompt": "a b " * 80, "max_tokens": 2, "temperature": 0})
        assert reply.status_code == 200, reply.text
        card = get_json(client, "/debug/card")
        assert server.stop() == 0
    assert (card["chunk_tokens"], card["ring_slots"]) == (256, 5)
    assert sum(row["size_bytes"] for row in card["rows"]) == 1760 * 1024
    assert card["statistics"]["ring_entries"] > 0
