"""SentencePiece-style BPE (`tokenizer.ggml.model` = llama): the neighbours with the best score merge first.

Decides the order of merges as llama.cpp does it: best score of the merged token, then the leftmost place. The library
`tokenizers` ranks pairs, not results, and cannot express the tie (of `aa a` and `a aa` the left one wins, wherever it
lies), so this is our own. Cost: text is first cut where no token could reach across, and the ids of short cuts are
remembered, so that natural text costs one look-up a word.
"""

import heapq
from collections.abc import Sequence
from operator import add

from strata.core.errors import ModelError
from strata.model.tokenizer.vocabulary import TokenType, Vocabulary

SPACE = "\u2581"
_MAX_REMEMBERED = 1 << 16
_MAX_REMEMBERED_CHARS = 32


class ScoredPieces:
    """Plain text to ids and ids to bytes. Spaces are written as U+2581 inside."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises ModelError when one of the 256 byte tokens `<0x00>` .. `<0xFF>` is missing."""
        self._vocabulary = vocabulary
        self._byte_ids = [self._byte_id(byte) for byte in range(256)]
        self._byte_of = {token_id: bytes([byte]) for byte, token_id in enumerate(self._byte_ids)}
        # Text never merges into a control, unknown or byte token.
        self._id_of = {
            text: token_id
            for text, token_id in vocabulary.id_of.items()
            if not vocabulary.is_special(token_id) and vocabulary.types[token_id] != TokenType.BYTE
        }
        self._pairs: set[str] = set()
        for text in self._id_of:
            self._pairs.update(map(add, text, text[1:]))
        self._remembered: dict[str, list[int]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text."""
        return [self._encode_one(text.replace(" ", SPACE)) for text in texts]

    def bytes_of(self, token_id: int) -> bytes:
        """b"" for control, unknown and unused tokens."""
        text, kind = self._vocabulary.tokens[token_id], self._vocabulary.types[token_id]
        if kind == TokenType.BYTE:
            return self._byte_of[token_id]
        if kind == TokenType.USER_DEFINED:
            return text.encode()
        return text.replace(SPACE, " ").encode() if kind in (TokenType.NORMAL, TokenType.UNDEFINED) else b""

    def _byte_id(self, byte: int) -> int:
        token_id = self._vocabulary.id_of.get(f"<0x{byte:02X}>")
        if token_id is None or self._vocabulary.types[token_id] != TokenType.BYTE:
            raise ModelError(f"tokenizer.ggml.tokens has no byte token <0x{byte:02X}>; a llama vocabulary has all 256")
        return token_id

    def _encode_one(self, text: str) -> list[int]:
        ids: list[int] = []
        start, pairs = 0, self._pairs
        for at, pair in enumerate(map(add, text, text[1:]), 1):
            if pair not in pairs:  # no token holds these two characters side by side
                ids += self._piece(text[start:at])
                start = at
        return ids + self._piece(text[start:]) if text else ids

    def _piece(self, text: str) -> list[int]:
        known = self._remembered.get(text)
        if known is None:
            known = [i for symbol in self._merge(list(text)) for i in self._ids_of_symbol(symbol)]
            if len(text) <= _MAX_REMEMBERED_CHARS:
                if len(self._remembered) >= _MAX_REMEMBERED:
                    self._remembered = {}
                self._remembered[text] = known
        return known

    def _ids_of_symbol(self, symbol: str) -> list[int]:
        token_id = self._id_of.get(symbol)
        return [self._byte_ids[byte] for byte in symbol.encode()] if token_id is None else [token_id]

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merges until no two neighbours make a token. A symbol that was swallowed is "" from then on."""
        before = list(range(-1, len(symbols) - 1))
        after = [*range(1, len(symbols)), -1]
        queue: list[tuple[float, int, int, str]] = []  # (-score, left, right, merged text)

        def offer(left: int, right: int) -> None:
            if left < 0 or right < 0:
                return
            merged = symbols[left] + symbols[right]
            token_id = self._id_of.get(merged)
            if token_id is not None:
                heapq.heappush(queue, (-self._vocabulary.scores[token_id], left, right, merged))

        for left in range(len(symbols) - 1):
            offer(left, left + 1)
        while queue:
            _, left, right, merged = heapq.heappop(queue)
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != len(merged):
                continue  # one of the two has merged with another neighbour since
            symbols[left], symbols[right] = merged, ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [symbol for symbol in symbols if symbol]
