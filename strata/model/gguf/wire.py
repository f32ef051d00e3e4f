"""The bytes of a GGUF header, read in order and never past their end.

Decides how much of the file is in memory: the header alone, fetched by `pread` in blocks as it is parsed, so neither a
mapping that a truncation could turn into a signal nor a page of tensor data. Every length is compared with what the
file still holds before anything is allocated. Knows nothing of keys and tensors.
"""

import os
import struct
from array import array
from pathlib import Path

from strata.core.errors import ModelError
from strata.model.file_identity import shown
from strata.model.gguf.limits import MAX_ELEMENT_BYTES, MAX_HEADER_BYTES, MAX_TEXT_BYTES

_BLOCK_BYTES = 1024 * 1024
_BATCH_STRINGS = 1_024
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class HeaderCursor:
    """Reads little-endian values from the start of a file. `what` in each call names the value for the message of the
    ModelError that a short file gives."""

    def __init__(self, path: Path, descriptor: int, file_bytes: int) -> None:
        self.path = path
        self.file_bytes = file_bytes
        self.buffer = bytearray()
        self.position = 0
        self._descriptor = descriptor
        self._text_bytes = 0

    def error(self, message: str) -> ModelError:
        return ModelError(f"{shown(self.path)}: {message}")

    def require(self, num_bytes: int, what: str) -> None:
        """The next `num_bytes` are in `buffer` when this returns."""
        end = self.position + num_bytes
        if end <= len(self.buffer):
            return
        if end > self.file_bytes:
            left = self.file_bytes - self.position
            raise self.error(f"{what} needs {num_bytes:,} B at offset {self.position:,}, the file has {left:,} B left")
        if end > MAX_HEADER_BYTES:
            raise self.error(
                f"{what} of {num_bytes:,} B at offset {self.position:,} ends beyond the limit of "
                f"{MAX_HEADER_BYTES:,} B for a header"
            )
        self._fetch(end, what)

    def u32(self, what: str) -> int:
        self.require(4, what)
        (value,) = _U32.unpack_from(self.buffer, self.position)
        self.position += 4
        return int(value)

    def u64(self, what: str) -> int:
        self.require(8, what)
        (value,) = _U64.unpack_from(self.buffer, self.position)
        self.position += 8
        return int(value)

    def take(self, num_bytes: int, what: str) -> bytes:
        self.require(num_bytes, what)
        start = self.position
        self.position += num_bytes
        return bytes(self.buffer[start : self.position])

    def string(self, what: str, *, max_bytes: int) -> str:
        """A string that becomes a Python value. All of them together have at most MAX_TEXT_BYTES, since one wide
        character makes Python keep the whole string at four bytes a character."""
        length = self.u64(f"the length of {what}")
        max_bytes = min(max_bytes, MAX_TEXT_BYTES - self._text_bytes)
        if length > self.file_bytes - self.position:
            left = self.file_bytes - self.position
            raise self.error(f"{what} has length {length:,} B, the file has {left:,} B left")
        if length > max_bytes:
            raise self.error(f"{what} has length {length:,} B, the limit here is {max_bytes:,} B")
        self._text_bytes += length
        raw = self.take(length, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from None

    def walk_strings(self, count: int, what: str) -> "array[int]":
        """Passes over `count` strings, checks each, and returns the buffer position of each one's length word."""
        starts = array("I")
        for first in range(0, count, _BATCH_STRINGS):
            lengths = self._walk_lengths(min(_BATCH_STRINGS, count - first), starts, what)
            self._check_utf8(starts, first, what, all_are_short=lengths < 0x80)
        return starts

    def _walk_lengths(self, count: int, starts: "array[int]", what: str) -> int:
        """The bits that occur in the lengths, so below 0x80 iff all of them are. This is the hot loop of opening a
        model: 300,000 strings."""
        buffer, unpack, append = self.buffer, _U64.unpack_from, starts.append
        position, limit, bits = self.position, len(self.buffer), 0
        for _ in range(count):
            if position + 8 > limit:
                self.position = position
                self.require(8, f"{what}: the length of element {len(starts)}")
                limit = len(buffer)
            (length,) = unpack(buffer, position)
            if length > MAX_ELEMENT_BYTES:
                raise self.error(
                    f"{what}: element {len(starts)} has {length:,} B, the limit is {MAX_ELEMENT_BYTES:,} B"
                )
            append(position)
            bits |= length
            position += 8 + length
            if position > limit:
                self.position = position - length
                self.require(length, f"{what}: element {len(starts) - 1}")
                limit = len(buffer)
        self.position = position
        return bits

    def _check_utf8(self, starts: "array[int]", first: int, what: str, *, all_are_short: bool) -> None:
        """Checks the strings from `first` on, which end at `position`. The length words of short strings are ASCII, and
        no UTF-8 sequence spans an ASCII byte: so if all of it decodes, every string does. Otherwise one by one."""
        if all_are_short:
            try:
                self.buffer[starts[first] : self.position].decode("utf-8")
                return
            except UnicodeDecodeError:
                pass
        for index in range(first, len(starts)):
            end = starts[index + 1] if index + 1 < len(starts) else self.position
            try:
                self.buffer[starts[index] + 8 : end].decode("utf-8")
            except UnicodeDecodeError as error:
                raise self.error(f"{what}: element {index} is not UTF-8: {error.reason}") from None

    def _fetch(self, end: int, what: str) -> None:
        goal = min(max(end, len(self.buffer) + _BLOCK_BYTES), self.file_bytes, MAX_HEADER_BYTES)
        while len(self.buffer) < goal:
            try:
                block = os.pread(self._descriptor, min(_BLOCK_BYTES, goal - len(self.buffer)), len(self.buffer))
            except OSError as error:
                raise self.error(f"cannot read {what}: {error.strerror}") from None
            if not block:
                raise self.error(f"the file became shorter while {what} was read")
            self.buffer += block
