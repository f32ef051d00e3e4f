"""Templates as published models have them render here as they do in plain jinja2, byte for byte."""

import json
from datetime import datetime
from typing import Any

import pytest
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from strata.core.errors import RequestError
from strata.model.chat_template.template import ChatTemplate

NOW = datetime(2026, 2, 3, 4, 5, 6)
SPECIAL_TEXTS = {"bos_token": "<s>", "eos_token": "</s>"}

SMALL = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

HEADERS = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|header|>system<|end_header|>\\n\\nToday: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "You may call: \\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role in ['tool', 'ipython'] or 'tool_calls' in message) %}
        {{- '<|header|>' + message['role'] + '<|end_header|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {%- for name, value in call.arguments | items %}
            {{- name + '=' + value | tojson }}{{ ", " if not loop.last }}
        {%- endfor %}
        {{- '}<|eot|>' }}
    {%- else %}
        {{- '<|header|>ipython<|end_header|>\\n\\n' }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|header|>assistant<|end_header|>\\n\\n' }}
{%- endif %}
"""

THINKING = """{%- macro content_of(content) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable %}
        {%- for part in content %}
            {{- part.text if part.type == 'text' else raise_exception('no ' ~ part.type) }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- content_of(messages[0].content) + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}{{- tool | tojson }}
        {%- set properties = tool.function.parameters.properties %}
        {%- for name, fields in properties | dictsort %}
            {{- name ~ ':' ~ (fields.type | default('any')) }}
            {%- set rest = namespace(names=[]) %}
            {%- for key in fields if key not in ['type', 'description'] %}
                {%- set rest.names = rest.names + [key] %}
            {%- endfor %}
            {{- rest.names | sort | join('|') }}
        {%- endfor %}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + content_of(messages[0].content) + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not
        (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = content_of(message.content) | trim %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning) %}
            {{- '<|im_start|>assistant\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- set tool_call = tool_call.function or tool_call %}
            {{- '\\n<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' }}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or loop.previtem.role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

_CITY = "{'type': 'string', 'enum': ['a', 'é'], 'description': 'where'}"
WITH_TOOLS = (
    "{%- set tools = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object', "
    "'properties': {'city': " + _CITY + ", 'at': {'anyOf': [{'type': 'null'}]}}, 'required': ['city']}}}] -%}\n"
)

TALK: list[dict[str, Any]] = [
    {"role": "system", "content": " Be <brief> & “kind”. "},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."},
    {"role": "user", "content": "  Wie heißt du? 😀\n"},
]
CALLS: list[dict[str, Any]] = [
    *TALK,
    {
        "role": "assistant",
        "content": "<think>\nlook\n</think>\n\n",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"city": "é", "deep": [{"a": [1, None]}]}}}],
    },
    {"role": "tool", "content": "12 °C"},
    {"role": "tool", "content": "windy"},
]
PARTS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
]
LONG: list[dict[str, Any]] = CALLS * 60


def rendered_by_jinja(source: str, messages: list[dict[str, Any]]) -> str:
    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": NOW.strftime}
    variables: dict[str, Any] = {**SPECIAL_TEXTS, "messages": messages, "tools": None, "documents": None}
    return environment.from_string(source).render(variables, add_generation_prompt=True)


def template_of(source: str) -> ChatTemplate:
    return ChatTemplate(source, has_text=bool, special_texts=SPECIAL_TEXTS, clock=lambda: NOW)


def input_chars(messages: list[dict[str, Any]]) -> int:
    return sum(len(value) for message in messages for value in message.values() if isinstance(value, str))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "messages"),
    [
        pytest.param(source, messages, id=f"{name}-{talk}")
        for name, source, talks in [
            ("small", SMALL, ("talk", "long")),
            ("headers", HEADERS, ("talk", "calls", "long")),
            ("headers with tools", WITH_TOOLS + HEADERS, ("talk", "calls", "long")),
            ("thinking", THINKING, ("talk", "calls", "parts", "long")),
            ("thinking with tools", WITH_TOOLS + THINKING, ("talk", "calls", "parts", "long")),
        ]
        for talk, messages in {"talk": TALK, "calls": CALLS, "parts": PARTS, "long": LONG}.items()
        if talk in talks
    ],
)
def test_a_published_template_renders_as_in_plain_jinja(source: str, messages: list[dict[str, Any]]) -> None:
    template = template_of(source)
    assert template.problem is None
    prompt = template.render(messages, input_chars=input_chars(messages))
    assert prompt == rendered_by_jinja(source, messages)
    assert len(prompt) > 40


def test_a_published_template_refuses_what_it_refuses() -> None:
    two_calls = [{"role": "assistant", "content": "", "tool_calls": [{"function": {}}] * 2}]
    with pytest.raises(RequestError, match="one call at a time"):
        template_of(HEADERS).render([*TALK, *two_calls], input_chars=100)
