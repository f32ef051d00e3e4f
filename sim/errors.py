"""What the twin refuses: one class for each kind of mistake, so that a fuzzer tells bugs apart by class.

Every message names the operation, the bytes, what was expected and what was found. After one of these the run is
over as evidence: commands before the refused one stand, the refused one changed no byte unless a program had begun.
"""

from strata.core.errors import DeviceError


class TwinError(DeviceError):
    """A command breaks a rule that a card would not have checked."""


class OutOfBounds(TwinError):
    """Bytes beyond the end of the arena or of a host space."""


class MappingError(TwinError):
    """No physical segment under the bytes, or one where none may be, or a grid that does not fit."""


class OutOfMemory(TwinError):
    """More physical segments than the card has."""


class OwnershipError(TwinError):
    """The bytes belong to somebody else, or to nobody."""


class UndefinedRead(TwinError):
    """Bytes read that nobody wrote since they were last mapped or passed on."""


class ContentMismatch(TwinError):
    """Bytes hold something else than the reader expects."""


class UndeclaredAccess(TwinError):
    """A program touches bytes that its launch does not declare."""


class OrderError(TwinError):
    """Two operations on the same bytes with nothing that orders them."""


class EventError(TwinError):
    """Waiting for an event that was never recorded: a card would not wait at all."""


class TableError(TwinError):
    """A version of the address table that is unknown, superseded or published twice."""


class GraphError(TwinError):
    """A graph that is unknown, or stale: its bytes have moved or belong to somebody else now."""


class PackError(TwinError):
    """The pack read by the device before `seal`, or written after it, or written by a command at all."""


class PageableRead(TwinError):
    """A program follows, or could follow, an address into host memory that is not pinned: a card would be lost."""


class UnknownProgram(TwinError):
    """A launch of a program that this device was not given."""
