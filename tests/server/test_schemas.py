"""Tables of bodies: what is a default, what is refused, with which status, code and parameter."""

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import RequestError
from strata.core.serving.request import SamplingParams
from strata.server.ports import ServedModel
from strata.server.schemas_prompt import parse_chat_order, parse_completion_order
from tests.server.site import MODEL, LetterText, chat

NULLS = [
    *("model", "user", "stream", "stream_options", "stop", "logit_bias", "seed", "n", "best_of"),
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("max_tokens", "max_completion_tokens", "min_tokens", "tools", "tool_choice", "functions", "function_call"),
    *("response_format", "logprobs", "top_logprobs", "echo", "suffix", "modalities", "audio"),
]


class RecordingText(LetterText):
    def render_chat(self, messages):
        self.messages = [dict(message) for message in messages]
        return super().render_chat(messages)


def order_of(body, *, parse=parse_chat_order, model=MODEL, text=None, fresh_seed=99):
    given = {"text": text or LetterText(), "model": model, "request_id": "id", "fresh_seed": fresh_seed}
    return parse(json.dumps(body).encode(), **given)


def sampling_of(**fields):
    return order_of(chat(**fields)).request.sampling


def refusal_of(body, **more):
    with pytest.raises(RequestError) as refusal:
        order_of(body, **more)
    error = refusal.value
    assert error.message and len(error.message) < 500
    return error.status, error.code, error.param


def messages_of(*messages):
    text = RecordingText()
    order_of({"messages": list(messages)}, text=text)
    return [(message["role"], message["content"]) for message in text.messages]


def test_null_and_absent_are_the_defaults():
    plain = order_of(chat(seed=1))
    nulls = order_of(chat(**dict.fromkeys(NULLS)) | {"seed": 1})
    assert plain == nulls
    assert plain.request.sampling == SamplingParams(seed=1)
    assert (plain.is_stream, plain.is_usage_wanted, plain.request.stop) == (False, False, ())
    assert plain.request.max_tokens == MODEL.context_tokens - len(plain.request.prompt_ids)


def test_every_parameter_arrives():
    order = order_of(
        chat(
            model="tiny",
            temperature=0,
            top_p=0.5,
            top_k=3,
            min_p=0.1,
            repetition_penalty=1.5,
            presence_penalty=-2,
            frequency_penalty=2,
            seed=42,
            max_tokens=9,
            min_tokens=2,
            stop=["a", "b", "a"],
            logit_bias={"7": -100, "5": 1.5},
            stream=True,
            stream_options={"include_usage": True},
            user="me",
            an_unknown_field={"x": [1]},
        )
    )
    assert order.request.sampling == SamplingParams(
        temperature=0.0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        repetition_penalty=1.5,
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        seed=42,
        min_tokens=2,
        logit_bias=((5, 1.5), (7, -100.0)),
    )
    assert (order.request.max_tokens, order.request.stop) == (9, ("a", "b"))
    assert order.is_stream and order.is_usage_wanted


HUGE = 10**400
WRONG = [
    *[("temperature", value) for value in (-0.1, 2.1, "1", True, [], {}, HUGE, -HUGE)],
    *[("top_p", value) for value in (-1, 1.01, 2, "x", False)],
    *[("top_k", value) for value in (-1, 1.5, "3", True, HUGE)],
    *[("min_p", value) for value in (-0.1, 1.1, "x")],
    *[("repetition_penalty", value) for value in (0, -1, 5e-324, 1e-38, 0.0099, 100.1, "x")],
    *[(f"{name}_penalty", value) for name in ("presence", "frequency") for value in (-2.1, 2.1, "x")],
    *[("seed", value) for value in (2**63, -(2**63) - 1, 1.5, "7", True, HUGE)],
    *[(name, value) for name in ("max_tokens", "max_completion_tokens") for value in (0, -5, 1.5, "9", True, [])],
    *[("min_tokens", value) for value in (-1, 1.5, "x", 65, HUGE)],
    *[("stop", value) for value in (5, "", [""], [1], [None], ["a"] * 5, {}, "x" * 1025)],
    *[("logit_bias", value) for value in ([], "x", {"300": 1}, {"-1": 1}, {"x": 1}, {"5": 101}, {"5": "1"})],
    *[
        ("logit_bias", value)
        for value in ({"5": None}, {"05": 1}, {"5": True}, {" 5": 1}, {"\u0665": 1}, {"9" * 99: 1})
    ],
    *[("stream", value) for value in (1, "true", [])],
    *[("stream_options", value) for value in ({"include_usage": True}, "x", [1])],
    *[("user", value) for value in (5, [])],
    *[("model", value) for value in (5, ["tiny"])],
    *[(name, value) for name in ("n", "best_of") for value in (0, -1, "x", 1.5, True, HUGE * -1)],
    *[("messages", value) for value in (None, [], "x", {}, 5)],
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_a_400_that_names_the_parameter(name, value):
    assert refusal_of(chat() | {name: value}) == (400, "invalid_value", name)


@pytest.mark.parametrize(
    ("asked", "taken"),
    [(0, 0.0), (-0.0, 0.0), (5e-324, 0.0), (1e-308, 0.0), (1e-38, 0.0), (1e-6, 0.0), (9.99e-4, 0.0), (1e-3, 1e-3)],
)
def test_a_temperature_near_zero_is_greedy(asked, taken):
    assert sampling_of(temperature=asked).temperature == taken


@pytest.mark.parametrize("value", [0.01, 1, 100])
def test_a_repetition_penalty_from_0_01_to_100_is_taken(value):
    assert sampling_of(repetition_penalty=value).repetition_penalty == value


FLOATS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
EDGES = st.sampled_from([0.0, 5e-324, -5e-324, 1e-310, 1e-45, 1e-38, 1e-3, 0.01, 1.0, 2.0, 3.4e38, 1e39, 1.7e308])


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FLOATS, EDGES | st.floats(allow_nan=False, allow_infinity=False))),
    EDGES,
)
def test_what_is_accepted_is_safe_in_float32(values, bias):
    """Nothing overflows it, and what the sampler divides by is far from the smallest it holds."""
    refused = None
    try:
        sampling = sampling_of(**values, logit_bias={"5": bias})
    except RequestError as error:
        refused = error.param
    if refused is not None:
        assert refused in (*values, "logit_bias")
        return
    for value in (*(getattr(sampling, name) for name in FLOATS), sampling.logit_bias[0][1]):
        assert math.isfinite(struct.unpack("<f", struct.pack("<f", value))[0])
    assert sampling.temperature == 0.0 or sampling.temperature >= 1e-3
    assert 0.01 <= sampling.repetition_penalty <= 100.0


def test_include_usage_must_be_a_boolean():
    body = chat(stream=True, stream_options={"include_usage": "yes"})
    assert refusal_of(body) == (400, "invalid_value", "include_usage")


def test_an_overflowing_float_is_a_400():
    with pytest.raises(RequestError, match="temperature"):
        parse_chat_order(
            b'{"messages":[{"role":"user","content":"x"}],"temperature":1e999}',
            text=LetterText(),
            model=MODEL,
            request_id="id",
            fresh_seed=99,
        )


UNSUPPORTED = [
    ("n", 2),
    ("n", HUGE),
    ("best_of", 2),
    ("tools", [{"type": "function"}]),
    ("functions", [{}]),
    ("tool_choice", "auto"),
    ("tool_choice", {"type": "function"}),
    ("function_call", "auto"),
    ("response_format", {"type": "json_object"}),
    ("response_format", "text"),
    ("logprobs", True),
    ("logprobs", 0),
    ("logprobs", 5),
    ("top_logprobs", 3),
    ("echo", True),
    ("suffix", "x"),
    ("modalities", ["audio"]),
    ("audio", {"voice": "x"}),
]


@pytest.mark.parametrize(("name", "value"), UNSUPPORTED)
def test_what_is_not_served_says_so(name, value):
    assert refusal_of(chat() | {name: value}) == (400, "unsupported_parameter", name)


NEUTRAL = [
    ("n", 1),
    ("best_of", 1),
    ("tools", []),
    ("tool_choice", "none"),
    ("function_call", "none"),
    ("response_format", {"type": "text"}),
    ("logprobs", False),
    ("top_logprobs", 0),
    ("echo", False),
    ("suffix", ""),
    ("modalities", ["text"]),
    ("stop", []),
    ("logit_bias", {}),
    ("stream_options", {}),
]


@pytest.mark.parametrize(("name", "value"), NEUTRAL)
def test_a_neutral_value_changes_nothing(name, value):
    assert order_of(chat(seed=1) | {name: value}) == order_of(chat(seed=1))


def test_an_unknown_model_is_not_found():
    assert refusal_of(chat(model="gpt-4")) == (404, "model_not_found", "model")


def test_seeds_are_any_int64_and_fresh_when_absent():
    seeds = [order_of(chat(seed=seed)).request.sampling.seed for seed in (0, 2**63 - 1, -1, -(2**63))]
    assert seeds == [0, 2**63 - 1, 2**63 - 1, 0]
    for body in (chat(), chat(seed=None)):
        assert [order_of(body, fresh_seed=seed).request.sampling.seed for seed in (5, 2**63 - 1)] == [5, 2**63 - 1]


def test_max_tokens_takes_the_newer_name_and_is_cut_to_the_room():
    room = MODEL.context_tokens - 3
    bodies = [{"max_tokens": 5}, {"max_completion_tokens": 6}, {"max_tokens": 5, "max_completion_tokens": 6}]
    assert [order_of(chat(**body)).request.max_tokens for body in bodies] == [5, 6, 6]
    for stream in (False, True):
        cut = [order_of(chat(max_tokens=wanted, stream=stream)) for wanted in (room, room + 1, HUGE)]
        assert [order.request.max_tokens for order in cut] == [room] * 3


def test_the_models_default_holds_where_none_is_given():
    model = ServedModel("tiny", created_s=0, context_tokens=64, vocab_size=300, default_max_tokens=7)
    assert order_of(chat(), model=model).request.max_tokens == 7
    assert order_of(chat(max_tokens=9), model=model).request.max_tokens == 9
    assert order_of(chat("x" * 60), model=model).request.max_tokens == 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("num_prompt", "fits"), [(63, True), (64, False), (65, False), (640, False)])
def test_a_prompt_must_leave_room_for_one_token(num_prompt, fits, stream):
    body = chat("x" * (num_prompt - 1), stream=stream)
    if fits:
        assert order_of(body).request.max_tokens == 1
        return
    with pytest.raises(RequestError, match=rf"prompt_tokens={num_prompt} .* 64 tokens") as refusal:
        order_of(body)
    assert (refusal.value.status, refusal.value.code) == (400, "context_length_exceeded")


def test_min_tokens_must_fit_into_max_tokens():
    assert order_of(chat(min_tokens=5, max_tokens=5)).request.sampling.min_tokens == 5
    assert refusal_of(chat(min_tokens=6, max_tokens=5)) == (400, "invalid_value", "min_tokens")


def text(*pieces):
    return [{"type": "text", "text": piece} for piece in pieces]


def test_contents_become_plain_strings():
    assert messages_of(
        {"role": "developer", "content": "d"},
        {"role": "user", "content": text("a", "", "b")},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "t"},
        {"role": "system", "content": "in the middle", "name": "x"},
        {"role": "assistant"},
        {"role": "user", "content": []},
        {"role": "user", "content": ""},
    ) == [
        ("system", "d"),
        ("user", "ab"),
        ("assistant", ""),
        ("tool", "t"),
        ("system", "in the middle"),
        ("assistant", ""),
        ("user", ""),
        ("user", ""),
    ]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("hi", "messages[0]"),
        (None, "messages[0]"),
        ({}, "messages[0].role"),
        ({"role": "robot", "content": "x"}, "messages[0].role"),
        ({"role": ["user"], "content": "x"}, "messages[0].role"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": {"type": "text", "text": "x"}}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [*text("a"), {"type": "text", "text": None}]}, "messages[0].content[1].text"),
    ],
)
def test_a_wrong_message_is_named(message, param):
    assert refusal_of({"messages": [message]}) == (400, "invalid_value", param)


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "refusal"])
def test_parts_other_than_text_are_not_served(kind):
    body = {"messages": [{"role": "user", "content": [*text("a"), {"type": kind}]}]}
    assert refusal_of(body) == (400, "unsupported_parameter", "messages[0].content[1].type")


def completion(prompt):
    return order_of({"prompt": prompt}, parse=parse_completion_order).request.prompt_ids


def test_a_prompt_is_text_or_token_ids_or_one_of_them_in_a_list():
    assert completion("ab") == completion(["ab"]) == completion([97, 98]) == completion([[97, 98]]) == (97, 98)


@pytest.mark.parametrize(
    "prompt", [None, [], [[]], 5, {}, [300], [-1], [1.5], [True], [1, "a"], [[1, [2]]], [[["a"]]], [HUGE]]
)
def test_a_wrong_prompt_is_a_400(prompt):
    assert refusal_of({"prompt": prompt}, parse=parse_completion_order) == (400, "invalid_value", "prompt")


@pytest.mark.parametrize("prompt", [["a", "b"], [[1], [2]], ["a", 1]])
def test_several_prompts_are_not_served(prompt):
    assert refusal_of({"prompt": prompt}, parse=parse_completion_order) == (400, "unsupported_parameter", "prompt")


def test_a_prompt_without_tokens_is_a_400():
    assert refusal_of({"prompt": ""}, parse=parse_completion_order) == (400, "invalid_value", "prompt")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(NULLS), ANYTHING, max_size=4), ANYTHING, st.booleans())
def test_any_json_is_an_order_or_a_refusal(fields, prompt, is_chat):
    body = {"messages": prompt, **fields} if is_chat else {"prompt": prompt, **fields}
    outcome = outcome_of(body, parse_chat_order if is_chat else parse_completion_order)
    if isinstance(outcome, RequestError):
        assert outcome.status in (400, 404)
    else:
        assert len(outcome.request.prompt_ids) + outcome.request.max_tokens <= MODEL.context_tokens


def outcome_of(body, parse):
    try:
        return order_of(body, parse=parse)
    except RequestError as error:
        return error
