"""What turns the token ids of a reply into text that may go out, and says when it ends. Decides the protocol only;
engine and model both name it without knowing each other."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Emission:
    """`text` may go out now (possibly ""); `is_stopped`: a stop string was completed, nothing may follow."""

    text: str
    is_stopped: bool


class Terminator(Protocol):
    """Token ids in, text out, for one request. Pure and synchronous. Holds back the bytes of an unfinished UTF-8
    character and any tail that could still grow into a stop string; a stop string itself is never emitted."""

    def push(self, token_id: int) -> Emission: ...

    def flush(self) -> str:
        """The text still held back, when the reply ends for another reason (unfinished bytes become U+FFFD)."""
