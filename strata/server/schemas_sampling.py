"""The parameters that both generation endpoints share: sampling, lengths, stop, stream, and what is not served.

Decides defaults, ranges and which OpenAI parameters are refused with `unsupported_parameter`. Pure: a request that
brings no seed gets `fresh_seed`, which the caller draws, so that two such requests differ. Unknown fields are ignored.
A temperature in (0, 0.001) is taken as 0, greedy.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strata.core.errors import RequestError
from strata.core.serving.request import SamplingParams
from strata.server.ports import ServedModel
from strata.server.schemas_fields import (
    check_number,
    invalid,
    read_bool,
    read_int,
    read_number,
    read_object,
    read_string,
    show,
    unsupported,
)

MAX_STOPS = 4
MAX_STOP_CHARS = 1_024
MAX_TOP_K = 2**31 - 1
NUM_SEEDS = 2**63
LEAST_TEMPERATURE = 1e-3  # below it a request is greedy, as clients that send 1e-6 mean it

_TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a body asks for beside its prompt. `max_tokens` None: as many as the context leaves."""

    sampling: SamplingParams
    max_tokens: int | None
    stop: tuple[str, ...]
    is_stream: bool
    is_usage_wanted: bool


def parse_parameters(body: Mapping[str, Any], model: ServedModel, *, fresh_seed: int) -> Parameters:
    check_model(read_string(body, "model"), model)
    _refuse_unsupported(body)
    read_string(body, "user")
    is_stream = read_bool(body, "stream")
    options = read_object(body, "stream_options")
    if options and not is_stream:
        raise invalid("stream_options", options, "is allowed only with stream=true")
    return Parameters(
        sampling=_parse_sampling(body, model, fresh_seed=fresh_seed),
        max_tokens=_parse_max_tokens(body),
        stop=_parse_stop(body.get("stop")),
        is_stream=is_stream,
        is_usage_wanted=read_bool(options, "include_usage"),
    )


def check_model(asked: str | None, model: ServedModel) -> None:
    """Raises 404 `model_not_found` unless `asked` is the served model or nothing."""
    if asked is not None and asked != model.model_id:
        message = f"model={show(asked)} is not served here; use {model.model_id!r} or leave it out"
        raise RequestError(message, status=404, code="model_not_found", param="model")


def _parse_sampling(body: Mapping[str, Any], model: ServedModel, *, fresh_seed: int) -> SamplingParams:
    """The sampler computes in float32 and divides by temperature and repetition_penalty, so these two are kept from
    what rounds to 0 or overflows there. The others are added, multiplied with a count, or compared; one too small for
    float32 is 0 in effect."""
    seed = read_int(body, "seed", least=-(2**63), most=2**63 - 1)
    temperature = read_number(body, "temperature", 1.0, least=0.0, most=2.0)
    return SamplingParams(
        temperature=0.0 if temperature < LEAST_TEMPERATURE else temperature,
        top_k=read_int(body, "top_k", least=0, most=MAX_TOP_K) or 0,
        top_p=read_number(body, "top_p", 1.0, least=0.0, most=1.0),
        min_p=read_number(body, "min_p", 0.0, least=0.0, most=1.0),
        repetition_penalty=read_number(body, "repetition_penalty", 1.0, least=0.01, most=100.0),
        presence_penalty=read_number(body, "presence_penalty", 0.0, least=-2.0, most=2.0),
        frequency_penalty=read_number(body, "frequency_penalty", 0.0, least=-2.0, most=2.0),
        # The engine's seeds are 0 .. 2^63-1; a negative one is taken modulo 2^63.
        seed=fresh_seed if seed is None else seed % NUM_SEEDS,
        min_tokens=read_int(body, "min_tokens", least=0) or 0,
        logit_bias=_parse_logit_bias(read_object(body, "logit_bias"), model.vocab_size),
    )


def _parse_max_tokens(body: Mapping[str, Any]) -> int | None:
    """`max_completion_tokens` is the newer name and wins when both are given."""
    older = read_int(body, "max_tokens", least=1)
    newer = read_int(body, "max_completion_tokens", least=1)
    return older if newer is None else newer


def _parse_stop(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = value if isinstance(value, list) else [value]
    if len(stops) > MAX_STOPS:
        raise invalid("stop", value, f"may hold at most {MAX_STOPS} strings, got {len(stops)}")
    for stop in stops:
        if not isinstance(stop, str) or not 1 <= len(stop) <= MAX_STOP_CHARS:
            raise invalid("stop", stop, f"must be a string or an array of strings, each 1 to {MAX_STOP_CHARS} long")
    return tuple(dict.fromkeys(stops))


def _parse_logit_bias(entries: Mapping[str, Any], vocab_size: int) -> tuple[tuple[int, float], ...]:
    biases = []
    for key, value in entries.items():
        if not _TOKEN_ID.fullmatch(key) or int(key) >= vocab_size:
            raise invalid("logit_bias", key, f"must map token ids from 0 to {vocab_size - 1}, written as strings")
        biases.append((int(key), check_number("logit_bias", value, least=-100.0, most=100.0)))
    return tuple(sorted(biases))


def _refuse_unsupported(body: Mapping[str, Any]) -> None:
    for name in ("n", "best_of"):
        if (read_int(body, name, least=1) or 1) > 1:
            raise unsupported(name, body[name], "ask for one choice a request")
    for name in ("tools", "functions"):
        if body.get(name):
            raise unsupported(name, body[name], "leave it out")
    for name in ("tool_choice", "function_call"):
        if body.get(name) not in (None, "none"):
            raise unsupported(name, body[name], 'use "none" or leave it out')
    if body.get("response_format") not in (None, {"type": "text"}):
        raise unsupported("response_format", body["response_format"], 'use {"type": "text"} or leave it out')
    if body.get("modalities") not in (None, ["text"]):
        raise unsupported("modalities", body["modalities"], 'use ["text"] or leave it out')
    # Identity: 0 is equal to False, but asks for the probability of the chosen token.
    if body.get("logprobs") is not None and body["logprobs"] is not False:
        raise unsupported("logprobs", body["logprobs"], "leave it out")
    for name in ("top_logprobs", "echo", "suffix", "audio"):
        if body.get(name):
            raise unsupported(name, body[name], "leave it out")
