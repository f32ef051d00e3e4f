"""The terminal client against a scripted server: what is shown, what is sent, what is remembered."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from strata.cli import build_parser, main
from strata.commands.chat import run
from strata.commands.options import ChatOptions, chat_options
from strata.core.errors import ConfigError
from tests.commands.fake_server import Script, fake_server


def typed(*lines: str | type[BaseException]) -> Callable[[str], str]:
    """A user who types `lines` (an exception: presses that key), then Ctrl-D."""
    waiting = iter(lines)

    def read_line(prompt: str) -> str:
        line = next(waiting, EOFError)
        if isinstance(line, str):
            return line
        raise line

    return read_line


class InterruptingOut(io.StringIO):
    """Ctrl-C at the moment when `trigger` is printed, once."""

    def __init__(self, trigger: str) -> None:
        super().__init__()
        self.trigger: str | None = trigger

    def write(self, text: str) -> int:
        if self.trigger is not None and self.trigger in text:
            self.trigger = None
            raise KeyboardInterrupt
        return super().write(text)


def roles(body: dict[str, list[dict[str, str]]]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


def test_an_answer_is_shown_and_remembered() -> None:
    out = io.StringIO()
    with fake_server(Script()) as server:
        assert run(ChatOptions(url=server.url, system="Be kind."), typed("hi", "again"), out) == 0
    assert "fake-model" in out.getvalue()
    assert out.getvalue().count("Hello there.\n") == 2
    assert roles(server.bodies[1]) == [
        ("system", "Be kind."),
        ("user", "hi"),
        ("assistant", "Hello there."),
        ("user", "again"),
    ]


def test_options_reach_the_request() -> None:
    with fake_server(Script()) as server:
        options = ChatOptions(url=server.url, temperature=0.0, seed=5, max_tokens=9)
        run(options, typed("hi"), io.StringIO())
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["seed"], body["max_tokens"]) == ("fake-model", 0.0, 5, 9)


def asked_for(*arguments: str, **environment: str) -> ChatOptions:
    return chat_options(build_parser().parse_args(["chat", *arguments]), environment)


def test_address_and_key_come_from_the_environment_unless_they_are_written() -> None:
    environment = {"STRATA_URL": "http://host:1", "STRATA_API_KEY": "k"}
    assert asked_for() == ChatOptions()
    assert asked_for(**environment) == ChatOptions("http://host:1", "k")
    assert asked_for("--url", "other:2", "--api-key", "l", **environment) == ChatOptions("other:2", "l")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--max-tokens", "0"), "max-tokens=0 tokens; give --max-tokens 1 or more"),
        (("--temperature", "2.1"), "temperature=2.1; give --temperature 0 to 2"),
        (("--temperature", "nan"), "temperature=nan; give --temperature 0 to 2"),
        (("--seed", str(2**63)), "give --seed a number of 64 bits"),
        (("--api-key", ""), "api-key refused: it is empty"),
    ],
)
def test_what_no_server_would_take_is_refused_at_the_start(arguments: tuple[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        asked_for(*arguments)
    assert main(["chat", *arguments]) == 2


def test_reset_forgets_and_quit_leaves() -> None:
    with fake_server(Script()) as server:
        assert run(ChatOptions(url=server.url), typed("one", "/reset", "two", "/quit", "three"), io.StringIO()) == 0
    assert [roles(body) for body in server.bodies] == [[("user", "one")], [("user", "two")]]


def test_an_unknown_command_and_an_empty_line_ask_nothing() -> None:
    out = io.StringIO()
    with fake_server(Script()) as server:
        assert run(ChatOptions(url=server.url), typed("/what", "", "   "), out) == 0
    assert server.bodies == []
    assert out.getvalue().count("/reset starts a new conversation") == 2


def test_control_characters_of_the_model_do_not_reach_the_terminal() -> None:
    out = io.StringIO()
    with fake_server(Script(deltas=("a\x1b", "[2J\x1b]0;title\x07b\u202e", "c"))) as server:
        run(ChatOptions(url=server.url), typed("hi"), out)
    assert "abc\n" in out.getvalue()
    assert not {"\x1b", "\x07", "\u202e"} & set(out.getvalue())


def test_ctrl_c_stops_the_answer_on_the_server_and_the_session_goes_on() -> None:
    out = InterruptingOut(trigger=" there")
    lines = typed("one", "/quit")
    with fake_server(Script(ending="hold")) as server:

        def read_line(prompt: str) -> str:
            line = lines(prompt)
            if line == "/quit":
                assert server.client_left.wait(10)
            return line

        assert run(ChatOptions(url=server.url), read_line, out) == 0
    assert "[stopped]" in out.getvalue()


def test_a_stopped_answer_stays_in_the_history_as_far_as_it_came() -> None:
    with fake_server(Script()) as server:
        run(ChatOptions(url=server.url), typed("one", "two"), InterruptingOut(trigger=" there"))
    assert roles(server.bodies[1]) == [("user", "one"), ("assistant", "Hello there"), ("user", "two")]


def test_ctrl_c_at_the_prompt_tells_how_to_leave() -> None:
    out = io.StringIO()
    with fake_server(Script()) as server:
        assert run(ChatOptions(url=server.url), typed(KeyboardInterrupt, "hi"), out) == 0
    assert len(server.bodies) == 1
    assert out.getvalue().count("Ctrl-D leaves") == 2


@pytest.mark.parametrize("script", [Script(ending="error"), Script(status=503), Script(ending="cut")])
def test_a_failed_answer_is_one_line_and_no_part_of_the_history(script: Script) -> None:
    out = io.StringIO()
    with fake_server(script) as server:
        assert run(ChatOptions(url=server.url), typed("one", "two"), out) == 1
    assert roles(server.bodies[1]) == [("user", "two")]
    assert len([line for line in out.getvalue().splitlines() if line.startswith("error: ")]) == 2


def test_a_cut_answer_says_why_it_ended() -> None:
    out = io.StringIO()
    with fake_server(Script(finish_reason="length")) as server:
        assert run(ChatOptions(url=server.url), typed("hi"), out) == 0
    assert "Hello there.\n[length]\n" in out.getvalue()


@pytest.mark.parametrize("models_body", ['{"data": []}', "{}", '{"data": 3}', "<html>"])
def test_something_else_at_the_address_is_a_refusal(models_body: str) -> None:
    with fake_server(Script(models_body=models_body)) as server, pytest.raises(ConfigError, match="chat refused: "):
        run(ChatOptions(url=server.url), typed("hi"), io.StringIO())
    assert server.bodies == []


def stdin_of(content: bytes, *, encoding: str = "utf-8", errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding=encoding, errors=errors)


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
@pytest.mark.parametrize(
    ("typed_bytes", "sent", "exit_code"),
    [
        (b"\xff\xfe\nhi\n", ["hi"], 0),
        (b"hi\n\xff", ["hi"], 1),
        (b"\xed\xa0\x80\ncaf\xc3\xa9", ["caf\u00e9"], 0),
        (b"\xff\n" * 3 + b"one\ntwo\n", ["one", "two"], 0),
    ],
)
def test_a_line_that_is_not_utf8_is_skipped_and_the_others_are_asked(
    typed_bytes: bytes, sent: list[str], exit_code: int, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin_of(typed_bytes, errors=errors))
    out = io.StringIO()
    with fake_server(Script()) as server:
        assert run(ChatOptions(url=server.url), out=out) == exit_code
    assert [roles(body)[-1] for body in server.bodies] == [("user", text) for text in sent]
    num_skipped = len(typed_bytes.split()) - len(sent)
    assert out.getvalue().count("error: the line is not UTF-8 and was skipped\n") == num_skipped > 0


def test_an_answer_with_half_a_character_does_not_stop_the_conversation() -> None:
    out = io.StringIO()
    with fake_server(Script(deltas=("a\ud83d", "\ude00", "\udcff"))) as server:
        assert run(ChatOptions(url=server.url), typed("one", "two"), out) == 0
    assert roles(server.bodies[1]) == [("user", "one"), ("assistant", "a\U0001f600\ufffd"), ("user", "two")]


def test_a_system_message_that_is_not_utf8_is_refused() -> None:
    with fake_server(Script()) as server, pytest.raises(ConfigError, match="system is not UTF-8"):
        run(ChatOptions(url=server.url, system="\udcff"), typed("hi"), io.StringIO())
    assert server.bodies == []


@pytest.mark.parametrize(
    "options", [ChatOptions(url="http://[::1"), ChatOptions(api_key="a\nb"), ChatOptions(url="http://\udcff")]
)
def test_what_no_connection_can_be_made_of_is_a_refusal(options: ChatOptions) -> None:
    with pytest.raises(ConfigError, match=r"^chat refused: ") as caught:
        run(options, typed("hi"), io.StringIO())
    assert str(caught.value).isprintable()


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_command_ends_in_one_line_whatever_bytes_it_is_given(locale: str) -> None:
    def strata_chat(*arguments: str | bytes, typed_bytes: bytes) -> tuple[int, bytes, bytes]:
        environment = {**os.environ, "LC_ALL": locale}
        command = [sys.executable, "-m", "strata", "chat", *arguments]
        done = subprocess.run(command, input=typed_bytes, env=environment, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    with fake_server(Script()) as server:
        exit_code, shown, complaints = strata_chat(
            "--url", server.url, "--api-key", b"\xff", typed_bytes=b"\xff\xfe\nhi\n"
        )
    assert (exit_code, complaints) == (0, b"")
    assert b"was skipped" in shown and b"Hello there." in shown
    exit_code, _, complaints = strata_chat("--url", "http://[::1", typed_bytes=b"hi\n")
    assert exit_code == 2
    assert complaints.startswith(b"strata: chat refused: ") and complaints.count(b"\n") == 1
