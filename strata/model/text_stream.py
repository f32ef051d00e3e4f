"""The text of one reply, token by token: whole characters, nothing that could still become a stop string.

Decides what may go out now. A stop string ends the reply with the first character that completes one, and the text ends
where the longest one completed there starts, so the result depends on the characters alone, not on how tokens cut
them. What is held back is exactly the longest end of the text that some stop string starts with. Implements
`strata.terminator.Terminator`.

    sent | held: end of the text that a stop string starts with | bytes of an unfinished character
"""

import codecs
from collections.abc import Callable, Sequence

from strata.terminator import Emission


class _StopMatcher:
    """Where one stop string stands: `num_matched` characters of it end the text so far (Knuth, Morris, Pratt 1977)."""

    __slots__ = ("_fallback", "num_matched", "stop")

    def __init__(self, stop: str) -> None:
        assert stop, "an empty stop string would end every reply"
        self.stop = stop
        self.num_matched = 0
        self._fallback = [0] * len(stop)  # longest proper prefix of stop that ends stop[: i + 1]
        length = 0
        for index in range(1, len(stop)):
            while length and stop[index] != stop[length]:
                length = self._fallback[length - 1]
            length += stop[index] == stop[length]
            self._fallback[index] = length

    def take(self, character: str) -> bool:
        """True when `character` completes the stop string. It must not be called again after that."""
        while self.num_matched and self.stop[self.num_matched] != character:
            self.num_matched = self._fallback[self.num_matched - 1]
        self.num_matched += self.stop[self.num_matched] == character
        return self.num_matched == len(self.stop)


class TextStream:
    """Terminator of one request. `bytes_of` gives the bytes of a token id; bytes that are no UTF-8 become U+FFFD just
    as `bytes.decode(errors="replace")` of the whole reply would have it."""

    def __init__(self, bytes_of: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        self._bytes_of = bytes_of
        self._matchers = [_StopMatcher(text) for text in stop]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._is_stopped = False

    def push(self, token_id: int) -> Emission:
        """Must not be called after an emission with `is_stopped`."""
        assert not self._is_stopped, f"token_id={token_id} after the stop"
        return Emission(self._advance(self._decoder.decode(self._bytes_of(token_id))), self._is_stopped)

    def flush(self) -> str:
        """What is still held back; "" after a stop and when called again."""
        if self._is_stopped:
            return ""
        text = self._advance(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + held

    def _advance(self, new: str) -> str:
        text = self._held + new
        for end, character in enumerate(new, len(self._held) + 1):
            completed = [matcher.stop for matcher in self._matchers if matcher.take(character)]
            if completed:
                self._held, self._is_stopped = "", True
                return text[: end - max(map(len, completed))]
        num_held = max((matcher.num_matched for matcher in self._matchers), default=0)
        cut = len(text) - num_held
        self._held = text[cut:]
        return text[:cut]
