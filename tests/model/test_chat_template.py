"""What a template may do, what it may not, and that a hostile one costs its own request only."""

import json
import tracemalloc
from datetime import datetime
from typing import Any

import pytest

from strata.core.errors import ModelError, RequestError
from strata.model.chat_template.shield import Shield
from strata.model.chat_template.template import ChatTemplate, TemplateOrigin, template_source
from tests.model.template_attacks import ATTACKS_ON_MEMORY_AND_MANNERS, ATTACKS_ON_TIME

COST = ("it ran on", "too much text", "prompt is too long", "nested more than")

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Hi <b>&</b>  "},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."},
    {"role": "user", "content": "Bye"},
]
SPECIAL_TEXTS = {"bos_token": "<s>", "eos_token": "</s>"}


def template_of(source: str | None, *, known: tuple[str, ...] = ()) -> ChatTemplate:
    return ChatTemplate(
        source,
        has_text=known.__contains__,
        special_texts=SPECIAL_TEXTS,
        clock=lambda: datetime(2026, 2, 3, 4, 5, 6),
    )


def rendered(source: str, messages: list[dict[str, Any]] | None = None) -> str:
    return template_of(source).render(MESSAGES if messages is None else messages, input_chars=100)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{% for m in messages %}[{{ m.role }}]{% endfor %}", "<s>[system][user][assistant][user]"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{{ tools is none }}{{ tools is defined }}{{ nothing is defined }}", "TrueTrueFalse"),
        ("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"),
        ("{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        ("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% break %}{% endfor %}",
         "user"),
        ("{{ messages[1].content | trim }}", "Hi <b>&</b>"),
        ("{{ messages[1]['content'].strip() }}", "Hi <b>&</b>"),
        ("{{ messages[1] | tojson }}", '{"role": "user", "content": "  Hi <b>&</b>  "}'),
        ("{{ {'a': 'é'} | tojson(indent=1) }}", '{\n "a": "é"\n}'),
        ("{{ ['é\ue000'] | tojson(ensure_ascii=True) }}", '["\\u00e9\ue000"]'),
        ("{{ messages[1:] | length }}{{ messages[::-1][0].content }}{{ 'abc'[:-1] }}", "3Byeab"),
        ("{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}", "Hello."),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "4"),
        ("{% macro f(x, y=2) %}{{ x }}-{{ y }};{% endmacro %}{{ f(1) }}{{ f(3, y=4) }}", "1-2;3-4;"),
        ("{{ 'a' ~ 1 ~ none ~ ['b'] }}", "a1None['b']"),
        ("{{ 1 < 2 <= 2 != 3 }}{{ 'a' in 'cat' }}{{ 'x' not in ['y'] }}", "TrueTrueTrue"),
        ("{{ strftime_now('%d %b %Y') }}", "03 Feb 2026"),
        ("{% generation %}said{% endgeneration %}", "said"),
        ("{{ messages | map(attribute='role') | unique | join(', ') }}", "system, user, assistant"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "2"),
        ("{{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }}", "['system', 'assistant']"),
        ("{{ {'b': 1, 'a': 2} | dictsort }}{{ {'a': 1} | items | list }}", "[('a', 2), ('b', 1)][('a', 1)]"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{{ 'a,b'.split(',') | join('+') }}{{ 'x'.upper() }}{{ 'ab'.startswith('a') }}", "a+bXTrue"),
        ("{{ '%s is %d%%' % ('x', 3) }}{{ '%s' | format('y') }}{{ '%s' % none }}", "x is 3%yNone"),
        ("{{ 7 % 4 }}{{ 2 ** 8 }}{{ 3 * 'ab' }}{{ [1] * 2 }}{{ [1] + [2] }}", "3256ababab[1, 1][1, 2]"),
        ("{{ 'abc' | replace('b', 'xx') }}{{ 'a\nb' | indent(2) }}", "axxca\n  b"),
        ("{{ [1, 2.5] | sum }}{{ 2.345 | round(1) }}{{ '12' | int }}{{ 'x' | int(7) }}", "3.52.3127"),
        ("{{ [3, 1] | sort | first }}{{ [3, 1] | max }}", "13"),
        ("{{ 'abc' | reverse }}{{ [1, 2] | reverse | list }}{{ 'a' | safe }}{{ '<' | e }}", "cba[2, 1]a&lt;"),
        ("{{ missing | default('d') }}{{ missing }}{{ messages | last is mapping }}", "dTrue"),
        ("{% filter upper %}loud{% endfilter %}{% set x %}block{% endset %}{{ x }}", "LOUDblock"),
        ("{% for x in [[1, [[2, []]]], [3, []]] recursive %}{{ x[0] }}{{ loop(x[1]) }}{% endfor %}", "123"),
        ("{{ 'ab'.center(6) }}|{{ '7'.zfill(3) }}|{{ 'a'.rjust(2) }}", "  ab  |007| a"),
        ("{{ 'a b  c'.split() }}|{{ 'a\nb'.splitlines() }}", "['a', 'b', 'c']|['a', 'b']"),
        ("{% for i in range(3) %}{{ i }}{{ ',' if not loop.last }}{% else %}none{% endfor %}", "0,1,2"),
    ],
)  # fmt: skip
def test_what_published_templates_use_works(source: str, text: str) -> None:
    template = template_of(source)
    assert template.problem is None
    assert template.render(MESSAGES, input_chars=100) == text


def refusal_of(source: str) -> RequestError:
    with pytest.raises(RequestError) as refused:
        template_of(source).render(MESSAGES, input_chars=100)
    assert refused.value.status == 400
    assert "chat template" in refused.value.message and "\n" not in refused.value.message
    assert len(refused.value.message) < 400
    return refused.value


@pytest.mark.slow
@pytest.mark.parametrize("source", ATTACKS_ON_TIME.values(), ids=ATTACKS_ON_TIME)
def test_a_template_that_runs_on_is_a_refused_request(source: str) -> None:
    assert any(reason in refusal_of(source).message for reason in COST)


@pytest.mark.parametrize("source", ATTACKS_ON_MEMORY_AND_MANNERS.values(), ids=ATTACKS_ON_MEMORY_AND_MANNERS)
def test_a_template_that_grows_or_fails_is_a_refused_request(source: str) -> None:
    tracemalloc.start()
    try:
        refusal_of(source)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000_000


def test_a_refused_rendering_leaves_the_template_usable() -> None:
    template = template_of("{{ messages[0].content * 10 ** 9 if messages[1:] else messages[0].content }}")
    with pytest.raises(RequestError):
        template.render(MESSAGES, input_chars=100)
    assert template.render(MESSAGES[:1], input_chars=100) == "Be brief."


def test_raise_exception_reaches_the_client() -> None:
    with pytest.raises(RequestError, match="chat template failed: roles must alternate"):
        rendered("{{ raise_exception('roles must\nalternate') }}")


def test_the_share_of_a_template_grows_with_the_conversation() -> None:
    source = "{% for m in messages %}{{ m.content | trim }}{% endfor %}"
    messages = [{"role": "user", "content": "é" * 4_000_000}]
    assert len(template_of(source).render(messages, input_chars=4_000_000)) == 4_000_000


@pytest.mark.slow
def test_three_hundred_turns_render_with_a_loop_inside_the_loop() -> None:
    source = (
        "{%- for m in messages -%}{%- for n in messages -%}{%- if n.role == 'system' -%}{%- break -%}{%- endif -%}"
        "{%- endfor -%}{{ m.role + ': ' + (m.content | trim) + '\\n' }}{%- endfor -%}"
    )
    messages = [{"role": "user", "content": "x" * 1000}] * 300
    assert len(template_of(source).render(messages, input_chars=300_000)) == 300 * 1007


def test_developer_is_system_where_the_template_does_not_know_it() -> None:
    messages = [{"role": "developer", "content": "x"}]
    assert rendered("{{ messages[0].role }}", messages) == "system"
    assert rendered("{{ messages[0].role }}{# developer #}", messages) == "developer"


def test_chatml_when_the_file_has_no_template_but_its_markers() -> None:
    template = template_of(None, known=("<|im_start|>", "<|im_end|>"))
    assert template.origin == TemplateOrigin.CHATML
    assert template.render([{"role": "user", "content": " a "}], input_chars=3) == (
        "<|im_start|>user\n a <|im_end|>\n<|im_start|>assistant\n"
    )


def test_no_template_and_no_markers_refuses_chat() -> None:
    template = template_of(None, known=("<|im_start|>",))
    assert template.origin == TemplateOrigin.NONE
    with pytest.raises(RequestError, match="no chat template"):
        template.render(MESSAGES, input_chars=100)


def test_a_template_key_of_another_type_is_a_broken_file() -> None:
    with pytest.raises(ModelError, match=r"tokenizer\.chat_template"):
        template_source({"tokenizer.chat_template": ["x"]})
    assert template_source({}) is None


CONTROL = ("<|im_start|>", "<|im_end|>", "</s>")


def _mended(covered: Any, mend: dict[int, str]) -> Any:
    return json.loads(json.dumps(covered, ensure_ascii=False).translate(mend))


@pytest.mark.parametrize(
    "content",
    [
        "<|im_end|>",
        "a</s>b</s></s>",
        "<<|im_end|>>",
        "\ue000<|im_end|>\ue001",
        "ends with <|im_",
        "|im_end|> begins",
        "im_end",
    ],
)
def test_the_shield_breaks_every_marker_and_mends_it(content: str) -> None:
    covered, mend = Shield(CONTROL).cover([{"role": "user", "content": content}])
    text = covered[0]["content"]
    assert not any(marker in text for marker in CONTROL)
    assert not any(marker in "<|im_" + text + "end|>" or marker in "<|" + text + "|>" for marker in CONTROL)
    assert len(text) == len(content)
    assert _mended(covered, mend) == [{"role": "user", "content": content}]


def test_the_shield_reaches_nested_values_and_unknown_roles() -> None:
    messages = [{"role": "user</s>", "content": "x", "tool_calls": [{"</s>": {"arguments": "</s>"}}]}]
    covered, mend = Shield(CONTROL).cover(messages)
    assert "</s>" not in json.dumps(covered)
    assert _mended(covered, mend) == messages


def test_known_roles_are_scaffolding() -> None:
    covered, _ = Shield(("<|user|>",)).cover([{"role": "user", "content": "user"}])
    assert covered[0]["role"] == "user"
    assert covered[0]["content"] != "user"


def test_a_text_of_all_private_use_characters_is_refused() -> None:
    everything = "".join(map(chr, [*range(0xE000, 0xF900), *range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]))
    with pytest.raises(RequestError, match="private-use"):
        Shield(CONTROL).cover([{"role": "user", "content": everything}])
