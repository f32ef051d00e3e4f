"""A server on the twin under clients that come and go; on a card `tests/cuda/test_engine_on_card.py` does the same."""

import sys
from pathlib import Path

import pytest

from strata.commands.child_server import child_server
from tests.end_to_end.mixed_clients import Mixed, check_all_is_home, check_answers, serve_mixed_clients
from tests.fixtures.models import write_random_model

MIXED = Mixed(24, lengths=(3, 40, 120, 300), replies=(1, 4))
CARD = ("--vram", "3MiB", "--twin-segment-kib", "64", "--ctx", "512", "--cache-min-slots", "2")


@pytest.mark.slow
def test_a_server_under_clients_that_come_and_go_answers_each_as_if_alone(tmp_path: Path) -> None:
    path = write_random_model(
        tmp_path / "model.gguf", hidden=64, heads=2, kv_heads=1, head_dim=32, ffn=128, layers=2, experts=64, used=2
    )
    with child_server([sys.executable, "-m", "strata", "serve", str(path), "--port", "0", *CARD]) as server:
        answered = serve_mixed_clients(server, MIXED)
        assert server.stop() == 0
    check_answers(answered, MIXED)
    check_all_is_home(answered, least_loans=MIXED.num_requests // 3)
