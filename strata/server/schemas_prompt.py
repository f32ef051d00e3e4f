"""From a body to a request for the engine: messages or a prompt, token ids, and the room that the context leaves.

Pure; runs in a worker thread (tokenizing 10 MiB takes seconds). Decides how message contents become plain strings and
what happens at the context's end: a prompt that leaves no room for one token is refused; `max_tokens` beyond the room
is cut to it, as OpenAI's clients expect of a maximum, the same with and without stream.
`fresh_seed` is for a request that brings none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from strata.core.errors import RequestError
from strata.core.serving.request import GenerationRequest
from strata.server.ports import ServedModel, TextPort
from strata.server.schemas_fields import invalid, unsupported
from strata.server.schemas_json import parse_json_object
from strata.server.schemas_sampling import Parameters, parse_parameters

# `developer` is the newer name of `system`; templates know the older one.
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class Order:
    """One accepted request: what the engine gets, and how the client wants the reply."""

    request: GenerationRequest
    is_stream: bool
    is_usage_wanted: bool


def parse_chat_order(body: bytes, *, text: TextPort, model: ServedModel, request_id: str, fresh_seed: int) -> Order:
    fields = parse_json_object(body)
    parameters = parse_parameters(fields, model, fresh_seed=fresh_seed)
    prompt_ids = text.render_chat(parse_messages(fields.get("messages")))
    return place_order(prompt_ids, parameters, model, request_id=request_id, source="messages")


def parse_completion_order(
    body: bytes, *, text: TextPort, model: ServedModel, request_id: str, fresh_seed: int
) -> Order:
    fields = parse_json_object(body)
    parameters = parse_parameters(fields, model, fresh_seed=fresh_seed)
    prompt = parse_prompt(fields.get("prompt"), vocab_size=model.vocab_size)
    prompt_ids = text.encode_prompt(prompt) if isinstance(prompt, str) else prompt
    return place_order(prompt_ids, parameters, model, request_id=request_id, source="prompt")


def place_order(
    prompt_ids: tuple[int, ...], parameters: Parameters, model: ServedModel, *, request_id: str, source: str
) -> Order:
    """`source`: the field that the prompt came from, for errors."""
    num_prompt = len(prompt_ids)
    if not prompt_ids:
        raise RequestError("prompt refused: it has no tokens; send at least one", code="invalid_value", param=source)
    room = model.context_tokens - num_prompt
    if room < 1:
        message = (
            f"prompt refused: prompt_tokens={num_prompt} and at least 1 token of reply exceed the context of "
            f"{model.context_tokens} tokens; shorten the prompt or start the server with a larger --ctx"
        )
        raise RequestError(message, code="context_length_exceeded", param=source)
    wanted = parameters.max_tokens or model.default_max_tokens or room
    max_tokens = min(wanted, room)
    if parameters.sampling.min_tokens > max_tokens:
        rule = f"must not be greater than the {max_tokens} tokens that max_tokens and the context leave"
        raise invalid("min_tokens", parameters.sampling.min_tokens, rule)
    request = GenerationRequest(
        request_id=request_id,
        prompt_ids=prompt_ids,
        max_tokens=max_tokens,
        sampling=parameters.sampling,
        stop=parameters.stop,
    )
    return Order(request, is_stream=parameters.is_stream, is_usage_wanted=parameters.is_usage_wanted)


def parse_messages(value: object) -> tuple[Mapping[str, str], ...]:
    """Messages of `role` and plain `content` only: fields of tool calls and names are dropped."""
    if not isinstance(value, list) or not value:
        raise invalid("messages", value, "must be an array of at least one message")
    messages = []
    for index, message in enumerate(value):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise invalid(where, message, "must be an object with role and content")
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise invalid(f"{where}.role", role, f"must be one of {', '.join(ROLES)}")
        messages.append({"role": ROLES[role], "content": _join_content(f"{where}.content", message.get("content"))})
    return tuple(messages)


def _join_content(where: str, content: object) -> str:
    """null and absent are empty (an assistant turn of tool calls only); text parts are joined with nothing between."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(where, content, "must be a string, an array of text parts or null")
    texts = []
    for index, part in enumerate(content):
        place = f"{where}[{index}]"
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise invalid(place, part, 'must be an object {"type": "text", "text": ...}')
        if part["type"] != "text":
            raise unsupported(f"{place}.type", part["type"], "send parts of type text only")
        if not isinstance(part.get("text"), str):
            raise invalid(f"{place}.text", part.get("text"), "must be a string")
        texts.append(part["text"])
    return "".join(texts)


def parse_prompt(value: object, *, vocab_size: int) -> str | tuple[int, ...]:
    """A string, token ids, or an array that holds one of them. Several prompts in one request are not served."""
    prompts = value if isinstance(value, list) and value and isinstance(value[0], str | list) else [value]
    if len(prompts) > 1:
        raise unsupported("prompt", value, f"send its {len(prompts)} prompts one a request")
    prompt = prompts[0]
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not prompt:
        raise invalid("prompt", prompt, "must be a string or an array of token ids, and not empty")
    for token_id in prompt:
        if not isinstance(token_id, int) or isinstance(token_id, bool) or not 0 <= token_id < vocab_size:
            raise invalid("prompt", token_id, f"must hold token ids from 0 to {vocab_size - 1} only")
    return tuple(prompt)
