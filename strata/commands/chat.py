"""`strata chat`: a conversation in the terminal, over the API of a server that is running already.

Decides what a line typed by the user does and what stays in the history. Holds no wire format (`api_client`) and
prints nothing of the model's that has not been through `terminal_text`.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

import httpx

from strata.commands.api_client import ApiError, Completed, connect, get_json, stream_chat
from strata.commands.options import ChatOptions
from strata.commands.terminal_text import Sanitizer, one_line
from strata.core.errors import ConfigError

HELP = "/reset starts a new conversation, /quit or Ctrl-D leaves, Ctrl-C stops the answer that is being written"

ReadLine = Callable[[str], str]
"""Shows a prompt and gives a line; raises EOFError at the end of the input."""


@dataclass(slots=True)
class Conversation:
    """What the model is told. A turn counts only once it has an answer, whole or stopped by the user half way."""

    system: str | None = None
    turns: list[tuple[str, str]] = field(default_factory=list)

    def messages(self, question: str) -> list[dict[str, str]]:
        """The history and one more question, in the API's form."""
        messages = [{"role": "system", "content": self.system}] if self.system is not None else []
        for user, assistant in self.turns:
            messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        return [*messages, {"role": "user", "content": question}]


def run(options: ChatOptions, read_line: ReadLine | None = None, out: TextIO | None = None) -> int:
    """Talk until /quit or the end of the input, by default the process's own; the exit code is 1 when the last answer
    failed, or the last line could not be sent.

    Raises ConfigError when no server answers or it refuses us."""
    if options.system is not None and not _is_unicode(options.system):
        raise ConfigError("chat refused: system is not UTF-8; give --system in the encoding of the terminal")
    if out is None:
        out = sys.stdout
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="replace")  # a terminal without UTF-8 shows a question mark, not a traceback
    if read_line is None:
        read_line = input
        if isinstance(sys.stdin, io.TextIOWrapper):
            # Bytes that are no text become lone surrogates of their line. A strict reader would lose the lines after
            # it too, as many as it had read ahead.
            sys.stdin.reconfigure(errors="surrogateescape")
    try:
        with connect(options.url, options.api_key) as client:
            model_id = get_json(client, "/v1/models")["data"][0]["id"]
            print(f"{one_line(str(model_id))} at {client.base_url}\n{HELP}", file=out, flush=True)
            return _talk(client, str(model_id), options, read_line, out)
    except ApiError as error:
        raise ConfigError(f"chat refused: {error}") from error
    except (KeyError, IndexError, TypeError) as error:
        raise ConfigError(
            f"chat refused: {options.url} answers, but not with a list of models; is it strata?"
        ) from error


def _talk(client: httpx.Client, model_id: str, options: ChatOptions, read_line: ReadLine, out: TextIO) -> int:
    conversation = Conversation(options.system)
    exit_code = 0
    for line in _lines(read_line, out):
        if line == "/quit":
            break
        if line == "/reset":
            conversation = Conversation(options.system)
            print("a new conversation", file=out, flush=True)
        elif line.startswith("/"):
            print(HELP, file=out, flush=True)
        elif line and not _is_unicode(line):
            exit_code = 1
            print("error: the line is not UTF-8 and was skipped", file=out, flush=True)
        elif line:
            exit_code = _ask(client, model_id, options, conversation, line, out)
    return exit_code


def _lines(read_line: ReadLine, out: TextIO) -> Iterator[str]:
    while True:
        try:
            yield read_line("> ").strip()
        except EOFError:
            print(file=out, flush=True)
            return
        except KeyboardInterrupt:
            print(f"\n{HELP}", file=out, flush=True)


def _ask(
    client: httpx.Client, model_id: str, options: ChatOptions, conversation: Conversation, question: str, out: TextIO
) -> int:
    """One turn. Ctrl-C closes the connection, which cancels the reply on the server; the session goes on."""
    updates = stream_chat(
        client,
        conversation.messages(question),
        model=model_id,
        temperature=options.temperature,
        seed=options.seed,
        max_tokens=options.max_tokens,
    )
    sanitizer, answer = Sanitizer(), ""
    ending, exit_code = "", 0
    with contextlib.closing(updates):
        try:
            for update in updates:
                if isinstance(update, Completed):
                    ending = "" if update.finish_reason == "stop" else f"[{one_line(update.finish_reason)}]"
                    break
                answer += update.text
                print(sanitizer.feed(update.text), end="", file=out, flush=True)
        except KeyboardInterrupt:
            ending = "[stopped]"
        except ApiError as error:
            ending, exit_code = f"error: {error}", 1
    if answer and exit_code == 0:
        conversation.turns.append((question, _repaired(answer)))
    print(f"\n{ending}" if ending else "", file=out, flush=True)
    return exit_code


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _repaired(text: str) -> str:
    """Halves of surrogate pairs, which JSON may spell and a server may cut between two deltas, joined; what has no
    other half becomes U+FFFD. Without this one such answer would make every later question impossible to send."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
