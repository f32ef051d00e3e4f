"""What a client asks for, as bytes on the wire and as the request that the engine must make of it; and the right reply.

The reply follows from the model's sizes and the token ids alone (`sim/world/expected.py`): nothing of the server, the
engine or the card is asked.
"""

import json
from dataclasses import dataclass
from typing import Any

from sim.world.card import TERMINATORS
from sim.world.expected import Expected
from sim.world.geometry import Geometry
from sim.world.server.text import END_OF_TURN, ID_OF, LETTERS, ROLE_IDS
from strata.core.serving.request import GenerationRequest, SamplingParams

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
FRESH_SEED = 0x5EED
"""The seed that the simulated server gives to whoever brings none."""

Turn = tuple[str, str]  # role, content


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a reply. `prompt`: turns of a chat, or the text or the ids of a completion. Sampling holds what
    is not the API's default; so does `seed`, None for a client that sends none."""

    prompt: tuple[Turn, ...] | str | tuple[int, ...]
    max_tokens: int
    is_stream: bool = False
    is_usage_wanted: bool = False
    seed: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    min_tokens: int = 0
    presence_penalty: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()
    stop: tuple[str, ...] = ()

    @property
    def is_chat(self) -> bool:
        return isinstance(self.prompt, tuple) and isinstance(self.prompt[0], tuple)

    @property
    def path(self) -> str:
        return CHAT if self.is_chat else COMPLETION

    def body(self) -> bytes:
        fields: dict[str, Any] = {"max_tokens": self.max_tokens, "stream": self.is_stream}
        if self.is_chat:
            fields["messages"] = [{"role": role, "content": content} for role, content in self.turns()]
        else:
            fields["prompt"] = self.prompt
        if self.is_stream and self.is_usage_wanted:
            fields["stream_options"] = {"include_usage": True}
        if self.seed is not None:
            fields["seed"] = self.seed
        for name in ("temperature", "top_k", "min_tokens", "presence_penalty"):
            fields[name] = getattr(self, name)
        fields["logit_bias"] = {str(token_id): bias for token_id, bias in self.bias}
        fields["stop"] = list(self.stop)
        return json.dumps(fields).encode()

    def prompt_ids(self) -> tuple[int, ...]:
        if isinstance(self.prompt, str):
            return tuple(ID_OF[letter] for letter in self.prompt)
        if not self.is_chat:
            return tuple(token_id for token_id in self.prompt if isinstance(token_id, int))
        ids: list[int] = []
        for role, content in self.turns():
            ids += [ROLE_IDS[role], *(ID_OF[letter] for letter in content), END_OF_TURN]
        return (*ids, ROLE_IDS["assistant"])

    def request(self, *, context_tokens: int) -> GenerationRequest:
        """What the engine must be given."""
        ids = self.prompt_ids()
        sampling = SamplingParams(
            temperature=self.temperature,
            top_k=self.top_k,
            presence_penalty=self.presence_penalty,
            seed=FRESH_SEED if self.seed is None else self.seed,
            min_tokens=self.min_tokens,
            logit_bias=self.bias,
        )
        return GenerationRequest("", ids, min(self.max_tokens, context_tokens - len(ids)), sampling, self.stop)

    def turns(self) -> tuple[Turn, ...]:
        """Of a chat; none of a completion."""
        return tuple(turn for turn in self.prompt if isinstance(turn, tuple))


@dataclass(frozen=True, slots=True)
class RightReply:
    text: str
    reason: str
    prompt_tokens: int
    completion_tokens: int


def right_reply(ask: Ask, geometry: Geometry) -> RightReply:
    request = ask.request(context_tokens=geometry.context_tokens)
    expected = Expected(geometry, request, TERMINATORS)
    text, prompt_tokens = "", len(request.prompt_ids)
    for num_tokens in range(1, request.max_tokens + 1):
        token = expected.next_token()
        if token in TERMINATORS:
            return RightReply(text, "stop", prompt_tokens, num_tokens)
        text += LETTERS[token]
        completed = [stop for stop in ask.stop if text.endswith(stop)]
        if completed:
            return RightReply(text[: -max(map(len, completed))], "stop", prompt_tokens, num_tokens)
        expected.take(token)
    return RightReply(text, "length", prompt_tokens, request.max_tokens)
