"""Byte-level BPE (`tokenizer.ggml.model` = gpt2) on the library `tokenizers`.

Decides the pre-tokenizer of each name a file may give and what happens to merges that would make a control token. It
must not know special tokens in a text: those are cut out before. Ids equal llama.cpp's, which means no Unicode
normalization (the makers' own tokenizers of Qwen normalize to NFC first).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from strata.core.errors import ModelError
from strata.model.tokenizer.vocabulary import TokenType, Vocabulary

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = (
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

PRE_TOKENIZERS: dict[str, tuple[str, ...]] = {
    "gpt-2": (_GPT2,),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "smollm": (r"\p{N}", _GPT2),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "qwen35": (_QWEN35,),
    "glm4": (_LLAMA3,),
}
"""Regular expressions by name; each splits the pieces that the one before left. "default" is what llama.cpp applies to
a file that names none."""

_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})  # a word that is a token is that token, whatever the merges say
_BLOCK_CHARS = 1 << 16
_WORD_END = re.compile(r"(?<=\S)(?= )|(?<=[^\W_])(?=[\s.,;:!?。，、！？])")
"""Where every pre-tokenizer above ends a word: any character but white space before a space; a letter or digit before
white space or one of these marks."""


def byte_characters() -> list[str]:
    """The printable character that stands for each byte: bytes that print in Latin-1 stand for themselves, the others
    are numbered upward from U+0100 (Radford et al. 2019, byte-level BPE)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


class ByteLevelPieces:
    """Plain text to ids and ids to bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises ModelError for an unknown pre-tokenizer or a merge whose parts or result are no tokens."""
        expressions = PRE_TOKENIZERS.get(vocabulary.pre_tokenizer)
        if expressions is None:
            raise ModelError(
                f"tokenizer.ggml.pre={vocabulary.pre_tokenizer!r} is not supported; supported are "
                + ", ".join(sorted(PRE_TOKENIZERS))
            )
        self._vocabulary = vocabulary
        self._byte_of = {character: bytes([byte]) for byte, character in enumerate(byte_characters())}
        plain = {text: i for text, i in vocabulary.id_of.items() if not vocabulary.is_special(i)}
        whole_words = vocabulary.pre_tokenizer in _WHOLE_WORDS_FIRST
        self._library = Tokenizer(
            models.BPE(vocab=plain, merges=_usable_merges(vocabulary, plain), ignore_merges=whole_words)
        )
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._library.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text. The batch call of the library releases the interpreter lock, `encode` does not."""
        return [self._encode_one(text) for text in texts] if _has_long(texts) else self._encode_batch(texts)

    def bytes_of(self, token_id: int) -> bytes:
        """b"" for control, unknown and unused tokens."""
        text, kind = self._vocabulary.tokens[token_id], self._vocabulary.types[token_id]
        if kind == TokenType.USER_DEFINED:
            return text.encode()
        if kind not in (TokenType.NORMAL, TokenType.UNDEFINED, TokenType.BYTE):
            return b""
        return b"".join(self._byte_of.get(character) or character.encode() for character in text)

    def _encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(done.ids) for done in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _encode_one(self, text: str) -> list[int]:
        """In blocks: the library keeps about 250 bytes a character while it works on a text."""
        return [i for block in _blocks(text) for ids in self._encode_batch([block]) for i in ids]


def _has_long(texts: Sequence[str]) -> bool:
    return any(len(text) > _BLOCK_CHARS for text in texts)


def _blocks(text: str, max_chars: int | None = None) -> Iterator[str]:
    """Cuts of `text` in which no word is cut, about `max_chars` long where the text has places for it."""
    half = (max_chars or _BLOCK_CHARS) // 2
    start = 0
    while len(text) - start > 2 * half:
        place = _WORD_END.search(text, start + half)
        if place is None:
            break
        yield text[start : place.start()]
        start = place.start()
    if start < len(text):
        yield text[start:]


def _usable_merges(vocabulary: Vocabulary, plain: Mapping[str, int]) -> list[tuple[str, str]]:
    """The merges of `plain` tokens. Those that touch a control or unknown token are left out: text must never become
    one."""
    usable = []
    for index, (left, right) in enumerate(vocabulary.merges):
        merged = left + right
        if left in plain and right in plain and merged in plain:
            usable.append((left, right))
        elif not all(text in vocabulary.id_of for text in (left, right, merged)):
            raise ModelError(f"tokenizer.ggml.merges[{index}]={left + ' ' + right!r} names a piece that is no token")
    return usable
