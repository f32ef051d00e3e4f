"""The server as people start it: a process, real sockets, signals and exit codes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from strata.commands.child_server import ChildServer, child_server
from tests.fixtures.models import CycleModel, write_cycle_model

pytestmark = pytest.mark.slow

SERVE = (sys.executable, "-m", "strata", "serve")
CARD = ("--device", "twin", "--vram", "16MiB", "--port", "0")
REFUSAL_S = 30  # ten times what it takes on a busy machine
REPLY_S = 60  # the same; httpx alone gives up after 5


@pytest.fixture(scope="module")
def cycle(tmp_path_factory: pytest.TempPathFactory) -> CycleModel:
    return write_cycle_model(tmp_path_factory.mktemp("models") / "cycle.gguf")


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> CycleModel:
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    return write_cycle_model(path, reaches_end=False, context=16_384)


@pytest.fixture(scope="module")
def server(cycle: CycleModel) -> Iterator[ChildServer]:
    with child_server((*SERVE, str(cycle.path), *CARD, "--api-key", "sesame")) as server:
        yield server


@pytest.fixture
def client(server: ChildServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sesame", max_retries=0) as client:
        yield client


def whole_reply(model: CycleModel) -> str:
    """What the model says after the generation prompt of its template ends in a newline."""
    last_id = model.vocabulary.tokens.index("Ċ")
    return model.reply_bytes(last_id, 400).decode()


def test_the_known_reply_comes_whole_and_streamed_with_the_right_counts(client: openai.OpenAI, cycle: CycleModel):
    expected = whole_reply(cycle)
    messages = [{"role": "user", "content": "hello"}]
    whole = client.chat.completions.create(model="cycle", messages=messages, temperature=0)
    assert whole.choices[0].message.content == expected
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.completion_tokens == len(expected) + 1  # the end token counts
    assert whole.usage.prompt_tokens_details.cached_tokens == 0
    with client.chat.completions.create(
        model="cycle", messages=messages, temperature=0, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == expected
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage]
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1  # the same prompt once more
    usage.prompt_tokens_details.cached_tokens = 0
    assert usage == whole.usage


def test_special_token_text_in_a_message_stays_text(client: openai.OpenAI):
    def prompt_tokens(content: str) -> int:
        messages = [{"role": "user", "content": content}]
        return client.chat.completions.create(model="cycle", messages=messages, max_tokens=1).usage.prompt_tokens

    empty = prompt_tokens("")
    assert prompt_tokens("<|im_end|>") - empty == len("<|im_end|>")
    assert prompt_tokens("<|im_end|>" * 20) - empty == 20 * (prompt_tokens("<|im_end|>") - empty)


def test_the_same_seed_gives_the_same_text_and_others_give_others(client: openai.OpenAI):
    def text(seed: int) -> str:
        options = {"temperature": 2.0, "max_tokens": 12, "logit_bias": {str(i): 40 for i in range(65, 80)}}
        messages = [{"role": "user", "content": "x"}]
        reply = client.chat.completions.create(model="cycle", messages=messages, seed=seed, **options)
        return reply.choices[0].message.content

    texts = [text(seed) for seed in range(1, 9)]
    assert len(set(texts)) >= 6
    assert [text(seed) for seed in range(1, 4)] == texts[:3]


def test_min_tokens_keeps_the_reply_from_ending(client: openai.OpenAI, cycle: CycleModel):
    length = len(whole_reply(cycle))
    options = {"messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 60}
    reply = client.chat.completions.create(model="cycle", extra_body={"min_tokens": length + 5}, **options)
    assert reply.usage.completion_tokens > length + 5
    assert reply.choices[0].message.content.startswith(whole_reply(cycle))


def test_logit_bias_bans_and_forces_tokens(client: openai.OpenAI, cycle: CycleModel):
    options = {"messages": [{"role": "user", "content": "x"}], "temperature": 0, "max_tokens": 3}
    a, z = (cycle.vocabulary.tokens.index(letter) for letter in "az")
    banned = client.chat.completions.create(model="cycle", logit_bias={str(a): -100}, **options)
    assert "a" not in banned.choices[0].message.content
    forced = client.chat.completions.create(model="cycle", logit_bias={str(z): 100}, **options)
    assert forced.choices[0].message.content == "zzz"


def test_a_stop_string_ends_the_reply_before_it(client: openai.OpenAI):
    messages = [{"role": "user", "content": "x"}]
    reply = client.chat.completions.create(model="cycle", messages=messages, temperature=0, stop=["fgh", "zz"])
    assert reply.choices[0].message.content == "abcde"
    assert reply.choices[0].finish_reason == "stop"


def test_a_prompt_over_the_context_is_refused_with_both_numbers(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match=r"512") as refused:
        client.chat.completions.create(model="cycle", messages=[{"role": "user", "content": "x " * 3000}])
    assert refused.value.code == "context_length_exceeded"


def test_without_the_key_only_health_and_readiness_answer(server: ChildServer):
    def status(path: str) -> int:
        return httpx.get(f"{server.url}{path}", timeout=REPLY_S).status_code

    assert [status(path) for path in ("/health", "/ready", "/metrics", "/v1/models", "/debug/card")] == [
        200,
        200,
        401,
        401,
        401,
    ]


def test_the_cards_map_has_every_byte_once_and_nothing_was_mapped_while_serving(server: ChildServer):
    card = httpx.get(f"{server.url}/debug/card", headers={"Authorization": "Bearer sesame"}, timeout=REPLY_S).json()
    offset_bytes = 0
    for row in card["rows"]:
        assert row["offset_bytes"] == offset_bytes
        offset_bytes += row["size_bytes"]
    assert offset_bytes == 16 << 20
    assert {"weights", "kv", "verifier", "prompt", "cache"} <= {row["owner"] for row in card["rows"]}
    assert card["statistics"]["num_maps_while_serving"] == 0


def test_twenty_clients_that_leave_cost_nothing(server: ChildServer, client: openai.OpenAI):
    headers = {"Authorization": "Bearer sesame"}
    body = {"messages": [{"role": "user", "content": "long " * 60}], "stream": True, "temperature": 0}
    for turn in range(20):
        call = httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=REPLY_S)
        with call as response:
            if turn % 2:
                next(response.iter_lines())
    reply = client.chat.completions.create(model="cycle", messages=body["messages"], max_tokens=3, temperature=0)
    assert reply.choices[0].message.content == "abc"


def test_sigterm_lets_a_running_stream_end_and_exits_0(endless: CycleModel):
    with (
        child_server((*SERVE, str(endless.path), *CARD, "--ctx", "1024")) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        body = {"messages": [{"role": "user", "content": "go"}], "stream": True, "max_tokens": 40, "temperature": 0}
        with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            os.kill(server.pid, signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        assert server.stop() == 0


def test_a_second_sigterm_ends_at_once(endless: CycleModel):
    """The reply would take minutes, and the grace for it is 20 s: only the second signal cuts it this early."""
    with child_server((*SERVE, str(endless.path), *CARD, "--vram", "64MiB")) as server:
        with httpx.Client(base_url=server.url, timeout=REPLY_S) as client:
            last = _signal_at_every_token(client, server.pid)
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert server.stop() == 0


def _signal_at_every_token(client: httpx.Client, pid: int) -> str:
    """The last event of the stream."""
    body = {"messages": [{"role": "user", "content": "go"}], "stream": True, "temperature": 0}
    last = ""
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                last = line
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
    return last


@pytest.mark.soak  # it takes the whole grace of 20 s; tests/server shows the same with a short one
def test_a_client_that_never_reads_does_not_hold_the_shutdown(endless: CycleModel):
    with child_server((*SERVE, str(endless.path), *CARD, "--ctx", "1024")) as server:
        host, port = server.url.removeprefix("http://").split(":")
        body = json.dumps({"messages": [{"role": "user", "content": "go"}], "stream": True, "max_tokens": 200}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection((host, int(port))) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.sendall(head + body)
            assert silent.recv(16, socket.MSG_PEEK)
            assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("/nowhere/model.gguf",), "/nowhere/model.gguf"),
        ((str(Path(__file__)),), "GGUF"),
        (("MODEL", "--vram", "4MiB"), "B are missing"),
        (("MODEL", "--ctx", "100000"), "the model has 512"),
        (("MODEL", "--device", "hip"), "not in this version"),
        (("MODEL", "--device", "cuda"), "give --vram"),
        (("MODEL", "--port", "99999"), "port=99999"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_line(cycle: CycleModel, arguments: tuple[str, ...], reason: str):
    command = [*SERVE, *(str(cycle.path) if word == "MODEL" else word for word in arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=REFUSAL_S)
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_refused_in_one_line(cycle: CycleModel):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*SERVE, str(cycle.path), "--vram", "16MiB", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=REFUSAL_S)
    assert ended.returncode == 2
    assert port in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_while_loading_ends_the_process_at_once(cycle: CycleModel, number: signal.Signals, exit_code: int):
    command = [sys.executable, "-m", "tests.end_to_end.starting_server", str(cycle.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=REFUSAL_S)
    assert (process.returncode, out) == (exit_code, "")
    assert err == "strata: stopped while starting\n"


def test_a_card_that_fails_at_start_ends_the_process_with_70_in_one_line(cycle: CycleModel):
    command = [sys.executable, "-m", "tests.end_to_end.dying_server", "12", str(cycle.path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=REFUSAL_S)
    assert ended.returncode == 70
    assert ended.stderr.strip().splitlines()[-1] == "strata: the device is lost: the card fell off the bus"
    assert "Traceback" not in ended.stderr


def test_a_lost_card_ends_the_process_with_70_and_an_error_for_the_client(cycle: CycleModel):
    command = (sys.executable, "-m", "tests.end_to_end.dying_server", "200", str(cycle.path))
    with child_server(command) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"messages": [{"role": "user", "content": "go on " * 20}], "temperature": 0}
        errors = []
        for _ in range(20):
            try:
                reply = client.post("/v1/chat/completions", json=body)
            except httpx.HTTPError:
                break
            if reply.status_code != 200:
                errors.append(reply)
                break
        assert errors
        assert errors[0].status_code >= 500
        assert server.stop() == 70
        assert "the device is lost: the card fell off the bus" in server.last_words()


def test_a_lost_card_leaves_the_trace_that_was_asked_for(cycle: CycleModel, tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    command = (sys.executable, "-m", "tests.end_to_end.dying_server", "200", str(cycle.path), str(trace))
    with child_server(command) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        body = {"messages": [{"role": "user", "content": "go on " * 20}], "temperature": 0}
        with contextlib.suppress(httpx.HTTPError):
            while client.post("/v1/chat/completions", json=body).status_code == 200:
                pass
        assert server.stop() == 70
        assert f"{trace}, with the token ids of prompts" in server.last_words()
    replayed = subprocess.run(
        [*SERVE[:-1], "replay", str(trace), "--json"], capture_output=True, text=True, timeout=10 * REFUSAL_S
    )
    report = json.loads(replayed.stdout)
    assert replayed.returncode == 1 and "DeviceError when it was recorded, and taken now" in replayed.stderr
    assert [(row["recorded"], row["found"]) for row in report["deviations"]] == [("DeviceError", "")]
    assert report["served"]["requests"] >= 1 and len(report["wrong"]) == 1


@pytest.mark.parametrize("name", ["folder", "none/trace.jsonl"])
def test_a_trace_that_cannot_be_written_is_refused_before_anything_is_loaded(
    cycle: CycleModel, tmp_path: Path, name: str
):
    (tmp_path / "folder").mkdir()
    command = [*SERVE, str(cycle.path), *CARD, "--trace", str(tmp_path / name)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=REFUSAL_S)
    assert ended.returncode == 2
    assert ended.stderr.startswith("strata: trace refused: ") and len(ended.stderr.splitlines()) == 1
