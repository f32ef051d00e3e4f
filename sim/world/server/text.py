"""A tokenizer, a chat template and a text stream for the world's model: a token is one character.

They stand where `strata.model.text` stands in a real server. The characters are chosen for what they do to JSON, SSE
and HTTP on the way: quotes, line breaks, letters of two, three and four bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sim.world.geometry import VOCAB_SIZE
from strata.core.errors import RequestError
from strata.core.serving.request import GenerationRequest
from strata.terminator import Emission

_ASCII = "".join(map(chr, range(0x20, 0x7F))) + "\n\r\t\0\x7f"
_WIDE = "\u2028\u2029\u00a0\u0085\ufffd" + "".join(map(chr, range(0x1F600, 0x1F620)))
LETTERS = (_ASCII + _WIDE + "".join(map(chr, range(0x3B1, 0x3C9))) + "".join(map(chr, range(0x4E00, 0x4F00))))[
    :VOCAB_SIZE
]
ID_OF = {letter: token_id for token_id, letter in enumerate(LETTERS)}
ROLE_IDS = {"system": 200, "user": 201, "assistant": 202, "tool": 203}
END_OF_TURN = 204


class WorldText:
    """`strata.server.ports.TextPort`."""

    def render_chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        turns = ((ROLE_IDS[turn["role"]], *self.encode_prompt(turn["content"]), END_OF_TURN) for turn in messages)
        return (*(token_id for turn in turns for token_id in turn), ROLE_IDS["assistant"])

    def encode_prompt(self, text: str) -> tuple[int, ...]:
        unknown = next((letter for letter in text if letter not in ID_OF), None)
        if unknown is not None:
            raise RequestError(f"prompt refused: the vocabulary has no U+{ord(unknown):04X}", code="invalid_value")
        return tuple(ID_OF[letter] for letter in text)


class LetterStream:
    """`strata.terminator.Terminator`: holds back what may still become a stop string."""

    def __init__(self, request: GenerationRequest) -> None:
        self._stops, self._held = request.stop, ""

    def push(self, token_id: int) -> Emission:
        self._held += LETTERS[token_id]
        ended = [stop for stop in self._stops if self._held.endswith(stop)]
        if ended:
            return Emission(self._held[: -max(map(len, ended))], is_stopped=True)
        starts = (stop[:size] for stop in self._stops for size in range(1, len(stop)))
        kept = max((len(start) for start in starts if self._held.endswith(start)), default=0)
        free = len(self._held) - kept
        text, self._held = self._held[:free], self._held[free:]
        return Emission(text, is_stopped=False)

    def flush(self) -> str:
        text, self._held = self._held, ""
        return text
