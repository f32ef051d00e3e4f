"""Text in, token ids out, for the server; and the streams that turn a reply back into text.

Puts tokenizer, chat template and shield together; implements `TextPort` of the server and makes the engine's
terminators. Everything here may run in worker threads, several at once.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from strata.core.errors import RequestError
from strata.core.serving.request import GenerationRequest
from strata.model.chat_template.shield import Shield
from strata.model.chat_template.template import ChatTemplate, template_source
from strata.model.text_stream import TextStream
from strata.model.tokenizer.tokenizer import Tokenizer, load_tokenizer


class ModelText:
    """`context_tokens` lets a text that cannot fit be refused before it is tokenized; None: no such limit."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, *, context_tokens: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self._context_tokens = context_tokens
        self._shield = Shield(tokenizer.control_texts, template.source)

    def render_chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Prompt ids, generation prompt included; BOS once where the model wants one."""
        input_chars = sum(len(value) for message in messages for value in message.values() if isinstance(value, str))
        _check_unicode((value for message in messages for value in message.values()), "messages")
        covered, mend = self._shield.cover(messages)
        prompt = self.template.render(covered, input_chars=input_chars)
        self._check_length(len(prompt), "messages")
        ids = self.tokenizer.with_bos(self.tokenizer.encode(prompt, parse_special=True, mend=mend))
        if not ids:
            raise RequestError("the chat template made an empty prompt of these messages", param="messages")
        return ids

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        """Ids of a raw prompt with special tokens parsed; BOS once where the model wants one."""
        self._check_length(len(text), "prompt")
        _check_unicode([text], "prompt")
        ids = self.tokenizer.with_bos(self.tokenizer.encode(text, parse_special=True))
        if not ids:
            raise RequestError("prompt is empty: write at least one character", param="prompt")
        return ids

    def new_stream(self, request: GenerationRequest) -> TextStream:
        """The terminator of one request (`strata.engine.ports.TerminatorFactory`)."""
        return TextStream(self.tokenizer.bytes_of, request.stop)

    def _check_length(self, num_chars: int, param: str) -> None:
        """No token is longer than `max_token_chars`, so a text has at least its quotient of tokens."""
        if self._context_tokens is None:
            return
        min_tokens = -(-num_chars // self.tokenizer.max_token_chars)
        if min_tokens > self._context_tokens:
            raise RequestError(
                f"{param} has at least {min_tokens} tokens ({num_chars} characters), the context is "
                f"{self._context_tokens} tokens; shorten it",
                code="context_length_exceeded",
                param=param,
            )


def load_text(
    metadata: Mapping[str, object],
    *,
    clock: Callable[[], datetime] = datetime.now,
    context_tokens: int | None = None,
) -> ModelText:
    """From a model file's metadata. Raises ModelError for a broken or unsupported tokenizer or template key.

    `clock` answers a template's `strftime_now` (local time, as people expect a date in a prompt)."""
    tokenizer = load_tokenizer(metadata)
    vocabulary = tokenizer.vocabulary
    template = ChatTemplate(
        template_source(metadata),
        has_text=vocabulary.id_of.__contains__,
        special_texts={
            "bos_token": tokenizer.text_of_special(vocabulary.bos_id),
            "eos_token": tokenizer.text_of_special(vocabulary.eos_id),
        },
        clock=clock,
    )
    return ModelText(tokenizer, template, context_tokens=context_tokens)


def _check_unicode(values: Any, param: str) -> None:
    """JSON lets lone surrogates through; no text has them."""
    for value in values:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise RequestError(f"{param} is not valid Unicode: {error.reason}", param=param) from error
