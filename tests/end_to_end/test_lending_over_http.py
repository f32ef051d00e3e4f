"""What an operator sees over HTTP of lent segments and of `--verify-lent`."""

import sys
from pathlib import Path

import pytest

from strata.commands.api_client import connect, get_json
from strata.commands.child_server import child_server

pytestmark = pytest.mark.slow

CARD_BYTES = 16 << 20
OPTIONS = ("--port", "0", "--vram", "16MiB", "--ctx", "4096", "--cache-min-slots", "16", "--mtp")
SEGMENTS = ("--vram-elastic", "--twin-segment-kib", "256")
SWITCHES = ("STRATA_PREFILL_ELASTIC_LOAN", "STRATA_PREFILL_MTP_LOAN")


def test_segments_that_came_home_are_verified_and_the_map_has_every_byte_of_the_card_once(
    lend_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch in SWITCHES:
        monkeypatch.setenv(switch, "1")
    command = [sys.executable, "-m", "strata", "serve", str(lend_model), *OPTIONS, *SEGMENTS, "--verify-lent"]
    body = {"prompt": list(range(1, 101)), "max_tokens": 2, "temperature": 0}
    with child_server(command) as server, connect(server.url) as client:
        before = get_json(client, "/debug/card")
        read = client.post("/v1/completions", json=body).json()["timings"]["read"]
        after = get_json(client, "/debug/card")
        assert server.stop() == 0
    assert read["moved_segments"] > 0 and read["restored_bytes"] > 0
    assert before["statistics"]["num_verified"] == 0 < after["statistics"]["num_verified"]
    offset_bytes = 0
    for row in after["rows"]:
        assert row["offset_bytes"] == offset_bytes and row["size_bytes"] > 0
        offset_bytes += row["size_bytes"]
    assert offset_bytes == CARD_BYTES
    assert {row["owner"] for row in before["rows"] if row["offset_bytes"] >= CARD_BYTES} == {"prompt"}
