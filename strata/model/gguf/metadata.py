"""The keys of a GGUF file, with typed access.

Decides how values look to the rest of the program: numbers, flags and text as Python values; arrays as sequences that
lie in the header's bytes and decode an element when it is asked for, so a vocabulary costs no list of strings. Knows
nothing of what a key means.
"""

import math
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import overload

from strata.core.errors import ModelError
from strata.model.file_identity import shown
from strata.model.gguf.limits import quoted


class ValueType(IntEnum):
    """GGUF value types, as they are numbered in a file."""

    U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


INTEGER_TYPES = frozenset({ValueType.U8, ValueType.I8, ValueType.U16, ValueType.I16, ValueType.U32, ValueType.I32})
INTEGER_TYPES |= {ValueType.U64, ValueType.I64}
FLOAT_TYPES = frozenset({ValueType.F32, ValueType.F64})
FORMATS = dict(zip(ValueType, "BbHhIif??sQqd", strict=True))  # of struct; STRING and ARRAY have none
_LENGTH = struct.Struct("<Q")


class TextArray(Sequence[str]):
    """Strings of a GGUF array. `starts[i]` is where the length word of element i lies in `buffer`. All were checked to
    be UTF-8 inside the buffer when the header was read."""

    def __init__(self, buffer: bytearray, starts: "array[int]") -> None:
        self._buffer, self._starts = buffer, starts

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._text(start) for start in self._starts[index]]
        return self._text(self._starts[index])

    def __iter__(self) -> Iterator[str]:
        return map(self._text, self._starts)

    def _text(self, start: int) -> str:
        (length,) = _LENGTH.unpack_from(self._buffer, start)
        return self._buffer[start + 8 : start + 8 + length].decode("utf-8")


class NumberArray(Sequence[int | float]):
    """`count` numbers or flags of one type, from `start` in `buffer`."""

    def __init__(self, buffer: bytearray, start: int, count: int, element_type: ValueType) -> None:
        self.element_type = element_type
        self._buffer, self._start, self._count = buffer, start, count
        self._element = struct.Struct("<" + FORMATS[element_type])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> int | float: ...
    @overload
    def __getitem__(self, index: slice) -> list[int | float]: ...
    def __getitem__(self, index: int | slice) -> int | float | list[int | float]:
        if isinstance(index, slice):
            return [self._number(position) for position in range(self._count)[index]]
        return self._number(range(self._count)[index])

    def __iter__(self) -> Iterator[int | float]:
        end = self._start + self._count * self._element.size
        # A copy, since a view of the buffer that outlives this call would forbid the buffer to be resized.
        return (value for (value,) in self._element.iter_unpack(bytes(self._buffer[self._start : end])))

    def _number(self, position: int) -> int | float:
        (value,) = self._element.unpack_from(self._buffer, self._start + position * self._element.size)
        assert isinstance(value, int | float)
        return value


Value = int | float | bool | str | TextArray | NumberArray


class Metadata(Mapping[str, Value]):
    """Key -> value, in the file's order. The typed methods raise ModelError naming file, key and what was wrong; with a
    `default` an absent key gives it, without one the key is required."""

    def __init__(self, path: Path, values: dict[str, Value], types: dict[str, ValueType]) -> None:
        self.path = path
        self._values, self._types = values, types

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def type_of(self, key: str) -> ValueType:
        return self._types[key]

    def error(self, key: str, message: str) -> ModelError:
        return ModelError(f"{shown(self.path)}: key {quoted(key)} {message}")

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
        """A whole number of any width; flags and floats are not numbers here."""
        value = self._typed(key, default, INTEGER_TYPES, "an integer")
        assert isinstance(value, int)
        if key in self and not minimum <= value <= maximum:
            raise self.error(key, f"= {value:,} is outside {minimum:,} .. {maximum:,}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite float, or an integer where a writer chose one."""
        value = self._typed(key, default, FLOAT_TYPES | INTEGER_TYPES, "a number")
        assert isinstance(value, int | float)
        if not math.isfinite(value):
            raise self.error(key, f"= {value} is not finite")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._typed(key, default, {ValueType.BOOL}, "a bool")
        assert isinstance(value, bool)
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._typed(key, default, {ValueType.STRING}, "a string")
        assert isinstance(value, str)
        return value

    def texts(self, key: str) -> TextArray:
        """An array of strings; required."""
        value = self._required(key)
        if not isinstance(value, TextArray):
            raise self.error(key, f"is {self._described(key)}, not an array of strings")
        return value

    def integers(self, key: str) -> NumberArray:
        """An array of integers of any width; required."""
        return self._numbers(key, INTEGER_TYPES, "integers")

    def floats(self, key: str) -> NumberArray:
        """An array of floats; required."""
        return self._numbers(key, FLOAT_TYPES, "floats")

    def flags(self, key: str) -> list[bool]:
        """An array of bools; required."""
        return [bool(value) for value in self._numbers(key, frozenset({ValueType.BOOL}), "bools")]

    def per_layer_integer(
        self, key: str, default: int | None = None, *, num_layers: int, ignored: Sequence[bool] = ()
    ) -> int:
        """One number for all layers, or an array that gives every layer (`num_layers` of them, NextN included) the
        same one. Layers that differ are refused, but for those that are `ignored`."""
        if not isinstance(self.get(key), NumberArray):
            return self.integer(key, default)
        values = self.integers(key)
        if len(values) != num_layers:
            raise self.error(key, f"has {len(values):,} elements, block_count={num_layers:,} asks for as many")
        counted = [value for index, value in enumerate(values) if not (ignored and ignored[index])]
        if len(different := set(counted)) != 1 or min(different) < 0:
            raise self.error(
                key, f"gives layers different or negative values {sorted(different)[:4]}; one is supported"
            )
        return int(counted[0])

    def _numbers(self, key: str, allowed: frozenset[ValueType], name: str) -> NumberArray:
        value = self._required(key)
        if not isinstance(value, NumberArray) or value.element_type not in allowed:
            raise self.error(key, f"is {self._described(key)}, not an array of {name}")
        return value

    def _typed(
        self, key: str, default: Value | None, allowed: frozenset[ValueType] | set[ValueType], name: str
    ) -> Value:
        if key not in self and default is not None:
            return default
        value = self._required(key)
        if self._types[key] not in allowed:
            raise self.error(key, f"is {self._described(key)}, not {name}")
        return value

    def _required(self, key: str) -> Value:
        if key not in self:
            raise self.error(key, "is missing")
        return self._values[key]

    def _described(self, key: str) -> str:
        value = self._values[key]
        if isinstance(value, NumberArray):
            return f"an array of {value.element_type.name.lower()}"
        return "an array of string" if isinstance(value, TextArray) else f"of type {self._types[key].name.lower()}"
