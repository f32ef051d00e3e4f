"""What a request hands the card: positions, tokens and everything its sampler reads."""

import struct

from strata.core.commands import Access, Command, Copy, CopyPair, Fill, Stream
from strata.core.extent import Extent, HostExtent
from strata.core.memory.layout import FLOAT_BYTES, INT32_BYTES
from strata.core.memory.planner import Plan
from strata.core.programs import HEADER_BYTES
from strata.core.serving.request import GenerationRequest, pack_sampling
from strata.core.serving.steps import Upload


def pack_header(position: int) -> bytes:
    """The header extent of a pass whose first row stands at `position`."""
    return struct.pack("<q", position).ljust(HEADER_BYTES, b"\0")


def token_rows(
    staged: HostExtent, rows: Extent, ids: tuple[int, ...], *, first_row: int = 0
) -> tuple[Upload, tuple[HostExtent, Extent]]:
    """`ids` for the rows of a pass from `first_row` on: their upload, and the way they go from there."""
    offset_bytes, size_bytes = first_row * INT32_BYTES, len(ids) * INT32_BYTES
    source = staged.part(offset_bytes=offset_bytes, size_bytes=size_bytes)
    target = rows.part(offset_bytes=offset_bytes, size_bytes=size_bytes)
    return Upload(source, struct.pack(f"<{len(ids)}i", *ids)), (source, target)


def copy_to_verifier(*pairs: tuple[HostExtent, Extent]) -> Copy:
    return Copy(Stream.VERIFIER, tuple(CopyPair(source, Access(target, "verifier")) for source, target in pairs))


def sampler_inputs(plan: Plan, request: GenerationRequest) -> tuple[tuple[Upload, ...], tuple[Command, ...]]:
    """Everything of a request that the sampler reads, and a clean count of its reply. Uploaded anew for every request:
    nothing of the one before can remain."""
    staging, window, vocab_size = plan.staging, plan.verifier.window, plan.inventory.vocab_size
    bias = bytearray(FLOAT_BYTES * vocab_size)
    for token_id, value in request.sampling.logit_bias:
        struct.pack_into("<f", bias, FLOAT_BYTES * token_id, value)
    seen = bytearray(vocab_size)
    for token_id in request.prompt_ids:
        seen[token_id] = 1
    uploads = (
        Upload(staging.params, pack_sampling(request.sampling, prompt_tokens=len(request.prompt_ids))),
        Upload(staging.bias, bytes(bias)),
        Upload(staging.seen, bytes(seen)),
    )
    copy = copy_to_verifier((staging.params, window.params), (staging.bias, window.bias), (staging.seen, window.seen))
    return uploads, (copy, Fill(Stream.VERIFIER, Access(window.counts, "verifier"), 0))
