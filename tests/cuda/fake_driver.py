"""A CUDA driver without a card: real bytes, real addresses, every handle counted, any call refused on demand.

`FakeDriver` has the functions of `cuda.bindings.driver` that the body calls, with their results as tuples. Physical
memory is a memfd, and mapping it is mmap, so an alias is an alias and a hole is a hole (asked before it is touched).
Work happens when it is queued, which is one legal order, unless a word of host memory holds its stream, or an event
that a held stream has yet to reach: then it happens at the first call after that. An event is due only after
`event_lag` queries, so nobody gets by with the first one. What the real driver refuses is refused: a copy over a hole,
over memory without access, across the edge of a registration; a call without a context; a handle that is not alive.
"""

import ctypes
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.cuda.fake_memory import GRANULARITY_BYTES, INVALID, OK, CUresult, FakeMemory, Refused, require

__all__ = ["GRANULARITY_BYTES", "CUresult", "FakeDriver"]

Result = tuple[Any, ...]
Work = Callable[[], None]


@dataclass
class Queued:
    """Work that its stream gets to once `is_ready`."""

    is_ready: Callable[[], bool]
    work: Work


@dataclass
class Ticket:
    """What an event stands for since it was recorded last."""

    queries_left: int
    is_done: bool = False


class FakeDriver(FakeMemory):
    """`total_bytes` of memory, `pinnable_bytes` of host memory that may be registered (None: all)."""

    CUresult = CUresult
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16
    )
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstreamWaitValue_flags = SimpleNamespace(CU_STREAM_WAIT_VALUE_GEQ=0)
    CUstreamWriteValue_flags = SimpleNamespace(CU_STREAM_WRITE_VALUE_DEFAULT=0)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CU_MEMHOSTREGISTER_PORTABLE = 1
    CU_MEMHOSTREGISTER_DEVICEMAP = 2

    def __init__(self, *, total_bytes: int = 1 << 30, pinnable_bytes: int | None = None, event_lag: int = 2) -> None:
        super().__init__(total_bytes=total_bytes, pinnable_bytes=pinnable_bytes)
        self._num_holders = 0  # of the primary context
        self.event_lag = event_lag
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._refusals: dict[tuple[str, int], CUresult] = {}
        self._counts: Counter[str] = Counter()
        self._lost: CUresult | None = None

    # What a test asks for, and what it reads.

    def refuse(self, name: str, nth: int = 1, code: CUresult = INVALID) -> None:
        """The `nth` call of `name` from now on is refused with `code`."""
        self._refusals[name, self._counts[name] + nth] = code

    def lose(self, code: CUresult = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS) -> None:
        """From now on every call but questions about errors gives this answer."""
        self._lost = code

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """Arguments of the calls of `name`."""
        return [arguments for called, arguments in self.calls if called == name]

    def leftovers(self) -> dict[str, int]:
        """Handles, ranges, mappings, registrations and contexts that nobody gave back, by kind."""
        kept = {kind: len(live) for kind, live in self._live.items() if live}
        return kept | ({"mapping": len(self._mapped)} if self._mapped else {})

    def __getattr__(self, name: str) -> Callable[..., Result]:
        """Every `cu...` function: counted, recorded, refused when asked for."""
        function = getattr(type(self), f"_{name}", None) if name.startswith("cu") else None
        if function is None:
            raise AttributeError(name)

        def called(*arguments: Any) -> Result:
            self._counts[name] += 1
            self.calls.append((name, arguments))
            self._go_on()
            refused = self._refusals.pop((name, self._counts[name]), None)
            if refused is None and not name.startswith("cuGetError"):
                refused = self._lost
            if refused is not None:
                return (refused, *[None] * (name in _RETURNS))
            try:
                value = function(self, *arguments)
            except Refused as refusal:
                return (refusal.code, *[None] * (name in _RETURNS))
            return (OK, value) if name in _RETURNS else (OK,)

        return called

    # Errors and the card.

    def _cuGetErrorName(self, code: CUresult) -> bytes:
        require(code in set(CUresult))
        return CUresult(code).name.encode()

    def _cuGetErrorString(self, code: CUresult) -> bytes:
        require(code in set(CUresult))
        return CUresult(code).name.removeprefix("CUDA_ERROR_").lower().replace("_", " ").encode()

    def _cuInit(self, flags: int) -> None:
        require(flags == 0)

    def _cuDeviceGet(self, ordinal: int) -> int:
        require(ordinal == 0, CUresult.CUDA_ERROR_INVALID_DEVICE)
        return 0

    def _cuDeviceGetName(self, length: int, device: int) -> bytes:
        return b"fake card\0left behind".ljust(length, b"\0")

    def _cuDeviceGetUuid(self, device: int) -> SimpleNamespace:
        return SimpleNamespace(bytes=bytes(range(16)))

    def _cuDeviceGetAttribute(self, attribute: int, device: int) -> int:
        return {97: 99 * 1024, 16: 1}[attribute]

    def _cuDeviceTotalMem(self, device: int) -> int:
        return self.total_bytes

    def _cuDevicePrimaryCtxRetain(self, device: int) -> int:
        """One context for the whole process, for as long as anybody holds it."""
        self._num_holders += 1
        live = self._live.get("context")
        return next(iter(live)) if live else self._make("context", None)

    def _cuDevicePrimaryCtxRelease(self, device: int) -> None:
        require(self._num_holders > 0)
        self._num_holders -= 1
        if not self._num_holders:
            self._live["context"].popitem()

    def _cuCtxSetCurrent(self, context: int) -> None:
        self._get("context", context)
        self._current.context = context

    def _cuCtxSynchronize(self) -> None:
        self._check_context()
        assert not any(state.queue for state in self._streams()), "this call would never return: a stream is held"

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self._free_bytes(), self.total_bytes

    # Streams, events, work and graphs.

    def _cuStreamCreate(self, flags: int) -> int:
        self._check_context()
        return self._make("stream", SimpleNamespace(nodes=None, queue=deque()))

    def _cuStreamDestroy(self, stream: int) -> None:
        self._drop("stream", stream)

    def _cuStreamQuery(self, stream: int | None) -> None:
        self._check_context()
        require(stream is None or not self._get("stream", stream).queue, CUresult.CUDA_ERROR_NOT_READY)

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        ticket = self._get("event", event).ticket
        if ticket is not None:
            self._put(stream, lambda: ticket.is_done, lambda: None)

    def _cuStreamWaitValue32(self, stream: int, address: int, value: int, flags: int) -> None:
        require(flags == 0 and address % 4 == 0 and self._is_registered(address, 4))
        word = ctypes.c_int32.from_address(address)
        self._put(stream, lambda: word.value >= value, lambda: None)

    def _cuStreamWriteValue32(self, stream: int, address: int, value: int, flags: int) -> None:
        require(flags == 0 and address % 4 == 0 and self._is_registered(address, 4))
        self.queue(stream, lambda: setattr(ctypes.c_int32.from_address(address), "value", value))

    def _cuEventCreate(self, flags: int) -> int:
        self._check_context()
        return self._make("event", SimpleNamespace(ticket=None))

    def _cuEventDestroy(self, event: int) -> None:
        self._drop("event", event)

    def _cuEventRecord(self, event: int, stream: int) -> None:
        ticket = Ticket(self.event_lag)
        self._get("event", event).ticket = ticket
        self.queue(stream, lambda: setattr(ticket, "is_done", True))

    def _cuEventQuery(self, event: int) -> None:
        self._check_context()
        ticket = self._get("event", event).ticket
        if ticket is not None:
            require(ticket.is_done, CUresult.CUDA_ERROR_NOT_READY)
            if ticket.queries_left:
                ticket.queries_left -= 1
                raise Refused(CUresult.CUDA_ERROR_NOT_READY)

    def _cuEventSynchronize(self, event: int) -> None:
        self._check_context()
        ticket = self._get("event", event).ticket
        if ticket is not None:
            assert ticket.is_done, "this call would never return: the event's stream is held"
            ticket.queries_left = 0

    def _cuMemcpyHtoDAsync(self, card: int, host: int, size: int, stream: int) -> None:
        self._check_bytes(card, host, size)
        self.queue(stream, lambda: self._move(card, size, card, host))

    def _cuMemcpyDtoHAsync(self, host: int, card: int, size: int, stream: int) -> None:
        self._check_bytes(card, host, size)
        self.queue(stream, lambda: self._move(card, size, host, card))

    def _cuMemsetD8Async(self, card: int, value: int, size: int, stream: int) -> None:
        self._check_card_bytes(card, size)
        self.queue(stream, lambda: self._set(card, value, size))

    def _cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        state = self._get("stream", stream)
        require(state.nodes is None)
        state.nodes = []

    def _cuStreamEndCapture(self, stream: int) -> int:
        state = self._get("stream", stream)
        require(state.nodes is not None)
        nodes, state.nodes = state.nodes, None
        return self._make("graph", nodes)

    def _cuGraphInstantiate(self, graph: int, flags: int) -> int:
        return self._make("executable", list(self._get("graph", graph)))

    def _cuGraphDestroy(self, graph: int) -> None:
        self._drop("graph", graph)

    def _cuGraphExecDestroy(self, executable: int) -> None:
        self._drop("executable", executable)

    def _cuGraphLaunch(self, executable: int, stream: int) -> None:
        for node in self._get("executable", executable):
            self.queue(stream, node)

    def queue(self, stream: int, work: Work) -> None:
        """Work on `stream`: done as soon as the stream gets there, or kept as a node while it is captured."""
        state = self._get("stream", stream)
        if state.nodes is None:
            self._put(stream, lambda: True, work)
        else:
            state.nodes.append(work)

    def _put(self, stream: int, is_ready: Callable[[], bool], work: Work) -> None:
        state = self._get("stream", stream)
        require(state.nodes is None, CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        state.queue.append(Queued(is_ready, work))
        self._go_on()

    def _streams(self) -> list[Any]:
        return list(self._live.get("stream", {}).values())

    def _go_on(self) -> None:
        """Every stream as far as it gets, until none gets any further."""
        while any(self._run(state.queue) for state in self._streams()):
            pass

    def _run(self, queue: "deque[Queued]") -> int:
        """How many of them are done now."""
        number = 0
        while queue and queue[0].is_ready():
            queue.popleft().work()
            number += 1
        return number

    def _is_registered(self, address: int, size: int) -> bool:
        live = self._live.get("registration", {})
        return any(at <= address and address + size <= at + other for at, other in live.items())

    def _move(self, card: int, size: int, target: int, source: int) -> None:
        if self._is_there(card, size):
            ctypes.memmove(target, source, size)

    def _set(self, card: int, value: int, size: int) -> None:
        if self._is_there(card, size):
            ctypes.memset(card, value, size)

    def _is_there(self, card: int, size: int) -> bool:
        """Bytes that were unmapped under work which was on its way cost the context."""
        try:
            self._check_card_bytes(card, size)
        except Refused:
            self.lose()
            return False
        return True


_RETURNS = frozenset(
    (
        "cuGetErrorName",
        "cuGetErrorString",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetUuid",
        "cuDeviceGetAttribute",
        "cuDeviceTotalMem",
        "cuDevicePrimaryCtxRetain",
        "cuMemGetInfo",
        "cuMemGetAllocationGranularity",
        "cuMemAddressReserve",
        "cuMemCreate",
        "cuMemHostGetDevicePointer",
        "cuStreamCreate",
        "cuStreamEndCapture",
        "cuEventCreate",
        "cuGraphInstantiate",
    )
)


def _record() -> SimpleNamespace:
    return SimpleNamespace(type=None, flags=None, location=SimpleNamespace(type=None, id=None))


FakeDriver.CUmemAllocationProp = staticmethod(_record)  # type: ignore[attr-defined]
FakeDriver.CUmemAccessDesc = staticmethod(_record)  # type: ignore[attr-defined]
