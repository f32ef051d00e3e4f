"""Keeps what people wrote from being read as control tokens (a message that says "<|im_end|>" ends no turn).

Before a template runs, the first character of every control token's text inside a message is replaced by a private-use
character that occurs nowhere in the conversation; after control tokens were cut out of the rendered prompt, `mend`
turns those back, so the tokenizer sees the message as it was written. A message may also end with the beginning of a
control token's text, begin with its end or be a part of it, and the template may write the rest beside it: there a
character is replaced too. Nothing is inserted: lengths stay, and white space at a message's ends can still be trimmed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from strata.core.errors import RequestError

KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""Roles are part of a template's scaffolding (`'<|' + role + '|>'`); any other role is treated as written by people."""

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


class Shield:
    """For one vocabulary. `reserved` is text in which a private-use character has a meaning (the template)."""

    def __init__(self, control_texts: Sequence[str], reserved: str = "") -> None:
        self._starts = frozenset(text[:end] for text in control_texts for end in range(1, len(text)))
        self._ends = frozenset(text[start:] for text in control_texts for start in range(1, len(text)))
        self._max_part = max(map(len, self._starts), default=0)
        self._control_texts = tuple(control_texts)
        whole = "|".join(map(re.escape, sorted(control_texts, key=len, reverse=True)))
        self._whole = re.compile(f"(?={whole})") if control_texts else None
        self._characters = sorted({character for text in control_texts for character in text})
        self._reserved = frozenset(reserved) | frozenset("".join(control_texts))

    def cover(self, messages: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], dict[int, str]]:
        """The messages to render, and the `str.translate` table that mends what comes of them.

        Raises RequestError (400) when the conversation uses up the private-use characters."""
        stand_in = self._choose_stand_ins(messages)
        covered = [{key: self._cover_field(key, value, stand_in) for key, value in each.items()} for each in messages]
        return covered, {ord(character): original for original, character in stand_in.items()}

    def _choose_stand_ins(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        used = set(self._reserved)
        for text in _texts(messages):
            used.update(text)
        free = (chr(code) for block in _PRIVATE_USE for code in block if chr(code) not in used)
        stand_in = dict(zip(self._characters, free, strict=False))
        if len(stand_in) < len(self._characters):
            raise RequestError("the messages use every private-use character of Unicode; leave some out")
        return stand_in

    def _cover_field(self, key: str, value: Any, stand_in: Mapping[str, str]) -> Any:
        if key == "role" and value in KNOWN_ROLES:
            return value
        if isinstance(value, str) and 0 < len(value) <= self._max_part and self._is_inside_one(value):
            return _replaced(value, [0], stand_in)
        return self._cover_value(value, stand_in)

    def _is_inside_one(self, text: str) -> bool:
        return any(text in control for control in self._control_texts)

    def _cover_value(self, value: Any, stand_in: Mapping[str, str]) -> Any:
        if isinstance(value, str):
            return self._cover_text(value, stand_in)
        if isinstance(value, Mapping):
            return {
                self._cover_whole(str(key), stand_in): self._cover_value(item, stand_in) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._cover_value(item, stand_in) for item in value]
        return value

    def _cover_whole(self, text: str, stand_in: Mapping[str, str]) -> str:
        if self._whole is None:
            return text
        places = [match.start() for match in self._whole.finditer(text)]
        return _replaced(text, places, stand_in) if places else text

    def _cover_text(self, text: str, stand_in: Mapping[str, str]) -> str:
        covered = self._cover_whole(text, stand_in)
        lengths = range(1, min(self._max_part, len(covered)) + 1)
        border = [len(covered) - length for length in lengths if covered[-length:] in self._starts]
        if any(covered[:length] in self._ends for length in lengths):
            border.append(0)
        return _replaced(covered, border, stand_in) if border else covered


def _replaced(text: str, places: Iterable[int], stand_in: Mapping[str, str]) -> str:
    pieces, start = [], 0
    for place in sorted(set(places)):
        pieces += [text[start:place], stand_in.get(text[place], text[place])]
        start = place + 1
    return "".join([*pieces, text[start:]])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
