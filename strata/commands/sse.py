"""Server-sent events out of bytes (WHATWG HTML, section 9.2): the client's half, pure.

Decides where an event ends and what its data is; knows nothing of sockets, JSON or the API. Bytes may be cut
anywhere, between the two bytes of a line end and inside a character too: the events are the same for every cut.
"""

from dataclasses import dataclass

MAX_EVENT_BYTES = 4 * 1024 * 1024
"""A server that never ends an event must not fill the client's memory."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """`data` is the event's data lines joined by newlines."""

    data: str
    event: str = "message"


class EventTooLong(ValueError):
    """An event of more than MAX_EVENT_BYTES; the stream cannot be used any more."""


class EventParser:
    """`feed` bytes, get the events that they complete. What the stream leaves unfinished is no event and is dropped."""

    __slots__ = ("_data", "_event", "_event_bytes", "_is_first_line", "_line", "_skip_line_feed")

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[str] = []
        self._event = ""
        self._event_bytes = 0
        self._is_first_line = True
        self._skip_line_feed = False

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Events completed by `data`, oldest first. Raises EventTooLong."""
        events: list[ServerSentEvent] = []
        position = 0
        while position < len(data):
            if self._skip_line_feed:
                self._skip_line_feed = False
                if data[position] == 0x0A:
                    position += 1
                    continue
            end = _line_end(data, position)
            self._take(data[position : len(data) if end is None else end])
            if end is None:
                break
            self._skip_line_feed = data[end] == 0x0D
            position = end + 1
            event = self._finish_line()
            if event is not None:
                events.append(event)
        return events

    def _take(self, piece: bytes) -> None:
        self._event_bytes += len(piece)
        if self._event_bytes > MAX_EVENT_BYTES:
            raise EventTooLong(f"an event of more than {MAX_EVENT_BYTES:,} B")
        self._line += piece

    def _finish_line(self) -> ServerSentEvent | None:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif not name:
            self._event_bytes -= len(line)  # a comment is no part of the event, however many keep it alive
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, event = self._data, self._event
        self._data, self._event, self._event_bytes = [], "", 0
        return ServerSentEvent("\n".join(data), event or "message") if data else None


def _line_end(data: bytes, start: int) -> int | None:
    ends = [end for end in (data.find(b"\n", start), data.find(b"\r", start)) if end >= 0]
    return min(ends, default=None)
