"""The terminal client against a scripted server: what is shown, what is sent, what is remembered."""

import io
from collections.abc import Callable

import pytest

from strata.commands.chat import run
from strata.commands.options import ChatOptions
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
