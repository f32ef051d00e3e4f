"""What a model wrote, made safe to print: text must not move the cursor, retitle the window or reorder what is read.

Kept: everything visible, newline and tab. Dropped: escape sequences as a whole (ECMA-48: ESC, CSI, and strings such as
OSC with what they hold), and every other character that stands for no text but acts on it, by Unicode's category:

    Cc      C0 and C1 controls, carriage return among them
    Cf      what reorders text (UAX #9: marks, embeddings, overrides, isolates), the byte order mark, the soft hyphen,
            invisible operators, and the tags in which text can be hidden
    Zl, Zp  separators of lines and paragraphs, which are a line end to some readers and nothing to others
    Co      private characters: they mean what this terminal takes them for, and to some they are commands

The two joiners, U+200C and U+200D, are Cf and kept: Persian and the scripts of India are misspelt without them, and
emoji fall apart. Neither moves the cursor or reorders anything. Characters that Unicode may assign one day are kept,
since most of them are next year's emoji; the block of the tags is not. Lone surrogates (Cs), which no terminal can be
sent, become U+FFFD. Pure; knows nothing of terminals beyond that.
"""

import unicodedata
from enum import Enum, auto

_KEPT_CONTROLS = "\n\t"
_JOINERS = "\u200c\u200d"
_FIRST_TAG, _LAST_TAG = "\U000e0000", "\U000e007f"
_DROPPED_CATEGORIES = frozenset(("Cc", "Cf", "Co", "Zl", "Zp"))
_STRING_OPENERS_7BIT = frozenset("]PX^_")  # OSC, DCS, SOS, PM, APC after ESC
_STRING_OPENERS_8BIT = frozenset("\x90\x98\x9d\x9e\x9f")
_CSI, _ST, _ESC, _BEL = "\x9b", "\x9c", "\x1b", "\x07"

MAX_STRING_CHARS = 4096
"""A control string that never ends must not swallow the rest of a reply."""


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()
    CSI = auto()
    STRING = auto()


class Sanitizer:
    """Feed a reply piece by piece: an escape sequence may be cut anywhere, and the result is the same for every cut."""

    __slots__ = ("_num_string_chars", "_state")

    def __init__(self) -> None:
        self._state = _State.TEXT
        self._num_string_chars = 0

    def feed(self, text: str) -> str:
        """The part of `text` that may be printed."""
        return "".join(map(self._next, text))

    def _next(self, char: str) -> str:
        if self._state is _State.TEXT:
            return self._in_text(char)
        if char in _KEPT_CONTROLS:  # no sequence goes on across a line: what follows is text again
            self._state = _State.TEXT
            return char
        if self._state is _State.STRING:
            self._in_string(char)
        elif _is_control(char):
            self._in_text(char)  # ends the sequence, or starts another one
        elif self._state is _State.ESCAPE:
            self._in_escape(char)
        elif "@" <= char <= "~":  # the final byte of a CSI sequence
            self._state = _State.TEXT
        elif not " " <= char <= "?":  # no parameter byte: not a sequence after all
            self._state = _State.TEXT
            return self._in_text(char)
        return ""

    def _in_text(self, char: str) -> str:
        self._state = _State.TEXT
        if char == _ESC:
            self._state = _State.ESCAPE
        elif char == _CSI:
            self._state = _State.CSI
        elif char in _STRING_OPENERS_8BIT:
            self._open_string()
        elif "\ud800" <= char <= "\udfff":
            return "\ufffd"
        elif _is_text(char):
            return char
        return ""

    def _in_escape(self, char: str) -> None:
        if char == "[":
            self._state = _State.CSI
        elif char in _STRING_OPENERS_7BIT:
            self._open_string()
        elif not " " <= char <= "/":  # anything but an intermediate byte is the last one
            self._state = _State.TEXT

    def _open_string(self) -> None:
        self._state = _State.STRING
        self._num_string_chars = 0

    def _in_string(self, char: str) -> None:
        self._num_string_chars += 1
        if char == _ESC:
            self._state = _State.ESCAPE  # of the terminator ESC \, or of the next sequence
        elif char in (_BEL, _ST) or self._num_string_chars >= MAX_STRING_CHARS:
            self._state = _State.TEXT


def one_line(text: str) -> str:
    """`text` on one safe line, for errors that came from somewhere else."""
    return " ".join(Sanitizer().feed(text).split())


def _is_text(char: str) -> bool:
    if " " <= char <= "~" or char in _KEPT_CONTROLS or char in _JOINERS:
        return True
    return unicodedata.category(char) not in _DROPPED_CATEGORIES and not _FIRST_TAG <= char <= _LAST_TAG


def _is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f"
