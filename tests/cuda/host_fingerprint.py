"""The kernel of a replay without triton: what `kernels/triton/fingerprint.py` does, by its definition, at addresses of
this process. In the interpreter a trace of two hundred launches takes ten seconds."""

import ctypes
from collections.abc import Iterator

import torch

from sim.bytes import fill_pattern, positional_digest
from strata.trace.digest import mix_digests


def host_fingerprint(
    row: torch.Tensor, lane: torch.Tensor, *, arena_address: int, segment_bytes: int, stride_bytes: int
) -> None:
    num_reads, num_writes, *spans = row.tolist()
    assert len(spans) == 2 * (num_reads + num_writes)

    def pieces(offset: int, size: int) -> Iterator[tuple[int, int]]:
        while size:
            inside = offset % segment_bytes
            part = min(size, segment_bytes - inside)
            yield arena_address + offset // segment_bytes * stride_bytes + inside, part
            offset, size = offset + part, size - part

    extents = list(zip(spans[::2], spans[1::2], strict=True))
    found = [b"".join(ctypes.string_at(*piece) for piece in pieces(*extent)) for extent in extents[:num_reads]]
    mark = mix_digests([positional_digest(_tensor(data)) for data in found])
    count, room = lane[:2].tolist()
    if count < room:
        lane[2 + count] = mark - (mark >> 63 << 64)
    lane[0] = count + 1
    for index, extent in enumerate(extents[num_reads:]):
        data = _tensor(bytes(extent[1]))
        if len(data):
            fill_pattern(data, mix_digests((mark, index)))
        done = 0
        for address, size in pieces(*extent):
            ctypes.memmove(address, data.data_ptr() + done, size)
            done += size


def _tensor(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
