"""The tokenizer part of a GGUF file's metadata as checked values.

Decides which `tokenizer.ggml.*` keys are believed: types, lengths and id ranges are checked here, once, so that no
other file meets a hostile array (every refusal is a ModelError that names the key). Knows nothing of how text is cut.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from strata.core.errors import ModelError

_PREFIX = "tokenizer.ggml."
_NO_TOKEN = (-1, 2**32 - 1)  # some writers store this, as i32 or u32, for a token that the model does not have

END_OF_GENERATION_TEXTS = frozenset(
    {
        *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>"),
        *("<|call|>", "<end_of_turn>", "<end_of_utterance>", "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>"),
        *("<EOT>", "[EOS]", "</s>", "<eos>"),
    }
)
"""Texts that chat models use to end a turn. Only a token of type CONTROL with such a text ends a reply."""


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type` (GGUF specification)."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`tokens[i]` is spelled as the file has it. `scores` is empty for byte-level BPE, `merges` for SentencePiece."""

    model: str
    pre_tokenizer: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[tuple[str, str], ...]
    bos_id: int | None
    eos_id: int | None
    end_ids: frozenset[int]
    add_bos: bool | None  # None: the file does not say
    add_space_prefix: bool | None
    id_of: dict[str, int] = field(repr=False)

    def is_special(self, token_id: int) -> bool:
        """CONTROL and UNKNOWN tokens: never the result of plain text, and no text themselves."""
        return self.types[token_id] in (TokenType.CONTROL, TokenType.UNKNOWN)


def read_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """Raises ModelError for a missing key, a wrong type, arrays of different lengths or an id out of range."""
    model = _string(metadata, "model")
    tokens = _tokens(metadata)
    types = _types(metadata, len(tokens))
    id_of = {text: token_id for token_id, text in enumerate(tokens)}
    if len(id_of) != len(tokens):
        twice = next(text for token_id, text in enumerate(tokens) if id_of[text] != token_id)
        raise ModelError(f"tokenizer.ggml.tokens: the token {twice!r} appears twice")
    default_ids = {"bos": 1, "eos": 2} if model == "llama" else {}  # as SentencePiece numbers them
    eos_id = _token_id(metadata, "eos", len(tokens), default_ids.get("eos"))
    named = {_token_id(metadata, name, len(tokens)) for name in ("eot", "eom")} | {eos_id}
    known = {id_of[text] for text in END_OF_GENERATION_TEXTS if text in id_of}
    return Vocabulary(
        model=model,
        pre_tokenizer=_string(metadata, "pre", "default"),
        tokens=tokens,
        types=types,
        scores=_scores(metadata, len(tokens)) if model == "llama" else (),
        merges=_merges(metadata) if model == "gpt2" else (),
        bos_id=_token_id(metadata, "bos", len(tokens), default_ids.get("bos")),
        eos_id=eos_id,
        end_ids=frozenset(
            {token_id for token_id in named if token_id is not None}
            | {token_id for token_id in known if types[token_id] == TokenType.CONTROL}
        ),
        add_bos=_flag(metadata, "add_bos_token"),
        add_space_prefix=_flag(metadata, "add_space_prefix"),
        id_of=id_of,
    )


def _string(metadata: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = metadata.get(_PREFIX + name, default)
    if value is None:
        raise ModelError(f"{_PREFIX}{name} is missing: the file has no tokenizer")
    if not isinstance(value, str):
        raise ModelError(f"{_PREFIX}{name} is a {type(value).__name__}, want a string")
    return value


def _flag(metadata: Mapping[str, object], name: str) -> bool | None:
    value = metadata.get(_PREFIX + name)
    if value is not None and not isinstance(value, bool):
        raise ModelError(f"{_PREFIX}{name} is a {type(value).__name__}, want a bool")
    return value


def _array(metadata: Mapping[str, object], name: str, kinds: set[type]) -> list[object]:
    """The array's values, all of exactly one of `kinds` (a bool is no int here)."""
    value = metadata.get(_PREFIX + name)
    if value is None:
        raise ModelError(f"{_PREFIX}{name} is missing")
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise ModelError(f"{_PREFIX}{name} is a {type(value).__name__}, want an array")
    values = list(listed)  # a file's arrays decode an element each time it is asked for
    wrong = set(map(type, values)) - kinds
    if wrong:
        found, wanted = sorted(kind.__name__ for kind in wrong), sorted(kind.__name__ for kind in kinds)
        raise ModelError(f"{_PREFIX}{name} has elements of type {', '.join(found)}, want {' or '.join(wanted)}")
    return values


def _same_length(name: str, length: int, num_tokens: int) -> None:
    if length != num_tokens:
        raise ModelError(f"{_PREFIX}{name} has {length} elements, tokenizer.ggml.tokens has {num_tokens}")


def _tokens(metadata: Mapping[str, object]) -> tuple[str, ...]:
    tokens = [str(text) for text in _array(metadata, "tokens", {str})]
    if not tokens:
        raise ModelError("tokenizer.ggml.tokens is empty")
    # An empty text can never be met in a prompt, but its id exists: give it a name of its own, as llama.cpp does.
    return tuple(text or f"[EMPTY_{token_id}]" for token_id, text in enumerate(tokens))


def _types(metadata: Mapping[str, object], num_tokens: int) -> tuple[int, ...]:
    if _PREFIX + "token_type" not in metadata:
        return (TokenType.NORMAL,) * num_tokens
    types = [value for value in _array(metadata, "token_type", {int}) if isinstance(value, int)]
    _same_length("token_type", len(types), num_tokens)
    for value in set(types):
        if value not in list(TokenType):
            raise ModelError(f"tokenizer.ggml.token_type has the value {value}, known are 0 to {max(TokenType)}")
    return tuple(types)


def _scores(metadata: Mapping[str, object], num_tokens: int) -> tuple[float, ...]:
    scores = [value for value in _array(metadata, "scores", {float}) if isinstance(value, float)]
    _same_length("scores", len(scores), num_tokens)
    if not all(map(math.isfinite, scores)):
        raise ModelError("tokenizer.ggml.scores has a value that is not finite")
    return tuple(scores)


def _merges(metadata: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Each line is two pieces with one space between; a piece may start with a space, hence the search from 1."""
    pairs = []
    for index, line in enumerate(map(str, _array(metadata, "merges", {str}))):
        at = line.find(" ", 1)
        if at < 0 or at == len(line) - 1:
            raise ModelError(f"tokenizer.ggml.merges[{index}]={line!r} is not two pieces with a space between")
        pairs.append((line[:at], line[at + 1 :]))
    return tuple(pairs)


def _token_id(metadata: Mapping[str, object], name: str, num_tokens: int, default: int | None = None) -> int | None:
    key = f"{_PREFIX}{name}_token_id"
    value = metadata.get(key)
    if value is None:
        return default if default is not None and default < num_tokens else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(f"{key} is a {type(value).__name__}, want an integer")
    if value in _NO_TOKEN:
        return None
    if not 0 <= value < num_tokens:
        raise ModelError(f"{key}={value} is not below the number of tokens {num_tokens}")
    return value
