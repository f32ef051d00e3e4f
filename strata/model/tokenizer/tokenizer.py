"""Text to token ids and token ids to bytes, for one model file.

Decides which special tokens are seen in a text, where BOS goes and which ids end a reply; how plain text is cut is the
business of `byte_level` and `sentencepiece`. Ids equal llama.cpp's, but for one thing on purpose: plain text never
becomes a control token, even where merges would allow it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from strata.core.errors import ModelError
from strata.model.tokenizer.byte_level import ByteLevelPieces
from strata.model.tokenizer.sentencepiece import ScoredPieces
from strata.model.tokenizer.vocabulary import TokenType, Vocabulary, read_vocabulary

_BOS_BY_DEFAULT = frozenset({"llama-bpe"})  # pre-tokenizers whose models want BOS when the file does not say


class _Pieces(Protocol):
    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    def bytes_of(self, token_id: int) -> bytes: ...


_PIECES: dict[str, type[ByteLevelPieces] | type[ScoredPieces]] = {"gpt2": ByteLevelPieces, "llama": ScoredPieces}


def load_tokenizer(metadata: Mapping[str, object]) -> "Tokenizer":
    """From the keys `tokenizer.ggml.*`. Raises ModelError for a broken or unsupported tokenizer."""
    model = metadata.get("tokenizer.ggml.model")
    if isinstance(model, str) and model not in _PIECES:
        raise ModelError(f"tokenizer.ggml.model={model!r} is not supported; supported are {', '.join(sorted(_PIECES))}")
    return Tokenizer(read_vocabulary(metadata))


class Tokenizer:
    """Immutable after construction; any number of threads may use it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._pieces: _Pieces = _PIECES[vocabulary.model](vocabulary)
        is_scored = vocabulary.model == "llama"
        add_bos = vocabulary.add_bos
        if add_bos is None:
            add_bos = is_scored or vocabulary.pre_tokenizer in _BOS_BY_DEFAULT
        if add_bos and vocabulary.bos_id is None:
            raise ModelError("tokenizer.ggml.bos_token_id is missing, but prompts of this model start with BOS")
        self.adds_bos = add_bos
        # Byte-level vocabularies never get a space in front, whatever the file says: llama.cpp reads the key for all.
        self._adds_space = is_scored and vocabulary.add_space_prefix is not False
        self._user_defined = self._texts({TokenType.USER_DEFINED})
        self._special = self._texts({TokenType.USER_DEFINED, TokenType.CONTROL, TokenType.UNKNOWN})
        self.control_texts = tuple(self._texts({TokenType.CONTROL, TokenType.UNKNOWN}))
        self.max_token_chars = max(map(len, vocabulary.tokens))

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary.tokens)

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end a reply: eos, eot, eom and well-known control tokens of the vocabulary."""
        return self.vocabulary.end_ids

    def encode(self, text: str, *, parse_special: bool, mend: Mapping[int, str] | None = None) -> list[int]:
        """Ids without BOS. User-defined tokens are always seen in the text, control tokens when `parse_special`.

        `mend` (a `str.translate` table) is applied to what lies between control tokens, after they were found: that
        is how text that only looks like a control token gets past them (`chat_template.shield`).
        Raises UnicodeEncodeError for a text with lone surrogates."""
        text.encode()
        parts = _cut_out([text], self._special if parse_special else self._user_defined)
        if mend:
            mended = (part if isinstance(part, int) else part.translate(mend) for part in parts)
            parts = [piece for part in mended for piece in self._cut_user_defined(part)]
        return self._encode_parts(parts)

    def with_bos(self, ids: Sequence[int]) -> tuple[int, ...]:
        """`ids` with BOS in front where the model asks for one and it is not there yet (templates often write it)."""
        bos_id = self.vocabulary.bos_id
        if not self.adds_bos or bos_id is None or (ids and ids[0] == bos_id):
            return tuple(ids)
        return (bos_id, *ids)

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes that a token adds to a reply; b"" for control, unknown and unused tokens."""
        return self._pieces.bytes_of(token_id)

    def text_of_special(self, token_id: int | None) -> str:
        """The text that stands for a special token in a chat template; "" for None."""
        return "" if token_id is None else self.vocabulary.tokens[token_id]

    def _texts(self, types: set[TokenType]) -> dict[str, int]:
        """Longest first, as llama.cpp looks for them; equal lengths by id."""
        chosen = [(text, i) for i, text in enumerate(self.vocabulary.tokens) if self.vocabulary.types[i] in types]
        return dict(sorted(chosen, key=lambda item: (-len(item[0]), item[1])))

    def _cut_user_defined(self, part: str | int) -> list[str | int]:
        return [part] if isinstance(part, int) else _cut_out([part], self._user_defined)

    def _encode_parts(self, parts: list[str | int]) -> list[int]:
        """SentencePiece models put a space before plain text at the start and after every special token."""
        texts, is_after_special = [], True
        for part in parts:
            if isinstance(part, str):
                texts.append(" " + part if self._adds_space and is_after_special else part)
            is_after_special = isinstance(part, int)
        encoded = iter(self._pieces.encode(texts))
        return [i for part in parts for i in ([part] if isinstance(part, int) else next(encoded))]


def _cut_out(parts: list[str | int], specials: Mapping[str, int]) -> list[str | int]:
    """Replaces the text of each special token by its id; empty text between two is dropped."""
    whole = "".join(part for part in parts if isinstance(part, str))
    for text in [text for text in specials if text in whole]:
        token_id, cut = specials[text], list[str | int]()
        for part in parts:
            if isinstance(part, int):
                cut.append(part)
                continue
            for piece in part.split(text):
                cut += [piece, token_id]
            cut.pop()
        parts = cut
    return [part for part in parts if part != ""]
