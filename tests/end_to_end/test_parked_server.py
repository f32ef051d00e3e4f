"""Two conversations over HTTP: each is read once, whoever was served in between, and told so."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from strata.commands.child_server import child_server
from tests.fixtures.models import write_random_model

pytestmark = pytest.mark.slow

SERVE = (sys.executable, "-m", "strata", "serve")
CARD = ("--device", "twin", "--vram", "16MiB", "--ctx", "400", "--port", "0")
NAMES = ("abcdefgh", "zyxwvuts")
FIRST_CHARACTERS, MORE_CHARACTERS, REPLY_TOKENS = 100, 20, 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_model(tmp_path_factory.mktemp("models") / "model.gguf", arch="mixtral")


@pytest.fixture(scope="module")
def cold(model: Path) -> Iterator[httpx.Client]:
    """Knows nothing but the request before, which is always another conversation's."""
    with (
        child_server((*SERVE, str(model), *CARD, "--parked-mib", "0")) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        yield client


def ask(client: httpx.Client, prompt: str) -> tuple[str, int, dict[str, int]]:
    """Text, cached tokens, and how the prompt was read."""
    body = {"prompt": prompt, "temperature": 0, "max_tokens": REPLY_TOKENS, "min_tokens": REPLY_TOKENS}
    reply = client.post("/v1/completions", json=body).raise_for_status().json()
    cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
    return reply["choices"][0]["text"], cached, reply["timings"]["read"]


def metric(client: httpx.Client, name: str) -> float:
    found = re.search(rf"^{name} ([0-9.e+]+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None, name
    return float(found[1])


@pytest.mark.parametrize("is_reread", [False, True])
def test_conversations_that_alternate_are_answered_as_by_a_cold_server(
    model: Path, cold: httpx.Client, is_reread: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STRATA_CKPT_REREAD", str(int(is_reread)))
    with (
        child_server((*SERVE, str(model), *CARD, "--parked-mib", "8")) as server,
        httpx.Client(base_url=server.url, timeout=60) as warm,
    ):
        for turn in range(3):
            for name in NAMES:
                prompt = (name * 40)[: FIRST_CHARACTERS + turn * MORE_CHARACTERS]
                text, cached, read = ask(warm, prompt)
                expected, nothing, _ = ask(cold, prompt)
                assert (text, nothing) == (expected, 0)
                assert read["read_from"] == read["unparked_tokens"] == cached
                assert (cached > FIRST_CHARACTERS // 2) == (turn > 0 and not is_reread)
        assert metric(warm, "strata_conversations_parked_total") == 5
        assert metric(warm, "strata_parked_hits_total") == 4
        assert metric(warm, "strata_conversations_restored_total") == (0 if is_reread else 4)
        assert (metric(warm, "strata_conversation_bytes_restored_total") > 0) == (not is_reread)
        assert 1 <= metric(warm, "strata_parked_conversations") <= 2
        assert metric(warm, "strata_parked_bytes") > 0
        assert metric(cold, "strata_conversations_parked_total") == 0
