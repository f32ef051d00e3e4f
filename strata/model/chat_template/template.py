"""A conversation as one prompt text, by the template of the model file.

Decides where the template comes from and what its failure means: whatever a template does wrong is a RequestError (400)
for that request. A file without `tokenizer.chat_template` gets ChatML when its vocabulary has both of ChatML's markers,
and no chat at all otherwise (a guessed format would only look like an answer). Named extra templates are not used.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import jinja2
from jinja2.exceptions import TemplateError

from strata.core.errors import ModelError, RequestError
from strata.model.chat_template.budget import budget_for, current, spending
from strata.model.chat_template.counting import count_everything
from strata.model.chat_template.environment import TemplateEnvironment

MAX_SOURCE_CHARS = 64 * 1024  # compiling takes time with the square of it, at worst 1.5 s at this length
_KEY = "tokenizer.chat_template"
_CHATML = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)
_CHATML_MARKERS = ("<|im_start|>", "<|im_end|>")
_MAX_MESSAGE_CHARS = 200

# All that foreign code in the sandbox may raise; anything else would be our own mistake.
_TEMPLATE_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class TemplateOrigin(StrEnum):
    FILE = "file"
    CHATML = "chatml"  # the file has none, its vocabulary has ChatML's markers
    NONE = "none"


class ChatTemplate:
    """Any number of threads may render at once. `origin` and `problem` are for `strata inspect`; `problem` says why no
    conversation can be rendered at all (no template, or one that does not compile)."""

    def __init__(
        self,
        source: str | None,
        *,
        has_text: Callable[[str], bool],
        special_texts: Mapping[str, str],
        clock: Callable[[], datetime],
    ) -> None:
        """`has_text`: is there a token of this text. `special_texts`: the variables bos_token, eos_token, ..."""
        self.origin = TemplateOrigin.FILE
        self.problem: str | None = None
        if source is None:
            is_chatml = all(map(has_text, _CHATML_MARKERS))
            self.origin = TemplateOrigin.CHATML if is_chatml else TemplateOrigin.NONE
            source = _CHATML if is_chatml else ""
        self.source = source
        self._special_texts = dict(special_texts)
        self._environment = TemplateEnvironment(clock)
        self._template = self._compile() if self.origin != TemplateOrigin.NONE else None
        if self.origin == TemplateOrigin.NONE:
            self.problem = "this model has no chat template; use /v1/completions"

    def render(self, messages: Sequence[Mapping[str, Any]], *, input_chars: int) -> str:
        """The prompt text, generation prompt included. `input_chars`: about the characters of all messages; the
        template's share of time and memory grows with it."""
        if self._template is None:
            raise RequestError(self.problem or "no chat template", param="messages")
        variables: dict[str, Any] = {**self._special_texts, "messages": self._with_known_roles(messages)}
        variables |= {"add_generation_prompt": True, "tools": None, "documents": None}
        try:
            with spending(budget_for(len(self.source) + input_chars)):
                return self._collect(self._template, variables)
        except _TEMPLATE_FAILURES as error:
            raise RequestError(f"the model's chat template failed: {_describe(error)}", param="messages") from error

    def _compile(self) -> jinja2.Template | None:
        """None, and `problem` set, when the source is no template."""
        if len(self.source) > MAX_SOURCE_CHARS:
            size = f"{len(self.source):,} characters, the limit is {MAX_SOURCE_CHARS:,}"
            self.problem = f"the model's chat template has {size}"
            return None
        try:
            with spending(budget_for(len(self.source))):  # jinja computes constant filters while it compiles
                tree = count_everything(self._environment.parse(self.source))
                tree.set_environment(self._environment)
                return self._environment.from_string(tree)
        except _TEMPLATE_FAILURES as error:
            self.problem = f"the model's chat template does not compile: {_describe(error)}"
            return None

    @staticmethod
    def _collect(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        chunks, budget = [], current()
        for chunk in template.generate(variables):
            budget.step(1)
            budget.output(len(chunk))
            chunks.append(chunk)
        prompt = "".join(chunks)
        prompt.encode()  # a template can write down a lone surrogate, which no tokenizer takes
        return prompt

    def _with_known_roles(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """`developer` is the newer name of `system`; a template that does not name it gets the older one."""
        rename = {} if "developer" in self.source else {"developer": "system"}
        return [{**message, "role": rename.get(message["role"], message["role"])} for message in messages]


def _describe(error: BaseException) -> str:
    """One line for a client; the template's own words are cut short."""
    text = " ".join(str(error)[: 2 * _MAX_MESSAGE_CHARS].split())[:_MAX_MESSAGE_CHARS]
    return text if isinstance(error, TemplateError) and text else f"{type(error).__name__}: {text}"


def template_source(metadata: Mapping[str, object]) -> str | None:
    """The file's default template. Raises ModelError when the key is no string."""
    source = metadata.get(_KEY)
    if source is not None and not isinstance(source, str):
        raise ModelError(f"{_KEY} is a {type(source).__name__}, want a string")
    return source or None
