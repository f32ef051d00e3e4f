"""The drafter of a world: what no other layer of it has (`programs.py` has the rest).

    draft input   a row is a hash of a hidden row (its token, or what the drafter made of the row before) and of the
                  token behind it; its own weights are byte for byte the model's; the last hidden row is kept, where
                  there is a place for it
    cell p        of the drafter's K and V: that row, and p
    draft kv      writes the cells of its rows and nothing else
    draft head    byte for byte the model's; token and probability = hashes of the mark, which is the next step's row

So a draft is a function of what the drafter's cells hold (`drafted.py` says what that must be).
"""

import struct
from collections.abc import Sequence

from sim.world.geometry import FEW_TOKENS
from sim.world.hashing import draft_cells, draft_rows, likelihood, mix
from sim.world.rows import (
    CELL_BYTES,
    HEADER,
    MARK,
    Part,
    WrongBytes,
    compare,
    marks_of,
    num_marks,
    rows_of,
    set_marks,
    words_of,
)
from strata.core import programs
from strata.core.programs import DraftHeadArgs, DraftInputArgs, LayerArgs
from strata.device import Memory, Programs

_LIKELIHOOD = struct.Struct("<d")


def draft_programs(weights: Sequence[Part], heads: Sequence[Part]) -> Programs:
    """`weights`: what `draft input` reads, `heads`: what `draft head` does."""

    def draft_input(memory: Memory, args: DraftInputArgs) -> None:
        compare(memory, weights, programs.DRAFT_INPUT)
        rows, buffers = args.rows, args.buffers
        tokens = struct.unpack_from(f"<{rows}i", memory.read(args.tokens), 0)
        found = words_of(memory.read(args.hidden), rows)
        if args.source_header is not None:
            (position,) = HEADER.unpack_from(memory.read(args.source_header), 0)
            HEADER.pack_into(memory.write(buffers.header), 0, position - args.behind)
        if args.kept is not None:
            memory.write(args.kept)[:] = MARK.pack(found[-1]).ljust(args.kept.size_bytes, b"\0")
        hidden = memory.write(rows_of(buffers, buffers.hidden, rows))
        struct.pack_into(f"<{rows}I", hidden, 0, *draft_rows(found, tokens))
        set_marks(hidden, rows, [0] * num_marks(buffers, rows))
        memory.write(rows_of(buffers, buffers.normed, rows))

    def draft_head(memory: Memory, args: DraftHeadArgs) -> None:
        compare(memory, heads, programs.DRAFT_HEAD)
        hidden = memory.write(rows_of(args.buffers, args.buffers.hidden, args.rows))
        memory.write(rows_of(args.buffers, args.buffers.normed, args.rows))
        mark = mix(marks_of(hidden, args.buffers, args.rows)[-1], programs.DRAFT_HEAD, 0)
        MARK.pack_into(hidden, 0, mark)
        MARK.pack_into(memory.write(args.draft.logits), 0, mark)
        MARK.pack_into(memory.write(args.token), 0, FEW_TOKENS[mark % len(FEW_TOKENS)])
        _LIKELIHOOD.pack_into(memory.write(args.probability), 0, likelihood(mark))

    return {programs.DRAFT_INPUT: draft_input, programs.DRAFT_KV: draft_kv, programs.DRAFT_HEAD: draft_head}


def draft_kv(memory: Memory, args: LayerArgs) -> None:
    assert args.kv is not None
    rows, half = args.rows, args.kv.size_bytes // 2
    (position,) = HEADER.unpack_from(memory.read(args.buffers.header), 0)
    hidden, kv = memory.read(rows_of(args.buffers, args.buffers.hidden, rows)), memory.write(args.kv)
    start, end = position * CELL_BYTES, (position + rows) * CELL_BYTES
    if not 0 <= start <= end <= half:
        raise WrongBytes(f"draft kv: position={position} is no cell of the context")
    kv[start:end] = kv[half + start : half + end] = draft_cells(words_of(hidden, rows), position)
    memory.write(rows_of(args.buffers, args.buffers.attention, rows))
