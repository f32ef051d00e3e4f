"""A model whose tokens tell what was read: every program of the pass, in integers, over real bytes.

    embed      hidden = the tokens, and a mark that every later program changes; each row of a window has its own
    attention  K and V cell p of a layer = a hash of (layer, ids 0..p); the mark takes in every cell up to p
    recurrent  the state stands at the launch's first position and is a hash of (layer, ids before it); the mark takes
               in what it becomes, in place or in the journal
    commit     the state is what the journal says of the last row that stood
    router     chooses experts by the mark
    experts    every blob, at the address that its row or table gives, must be byte for byte the one of this layer and
               expert; the experts done are noted
    combine    every chosen expert was done
    work       what a program of a chunk left in its scratch is there when it is done; what the router left, when the
               experts come
    head       its own weights, where it has some, are byte for byte the model's
    draft      so are the drafter's experts and heads: what a drafter would read, launched at rest
    sample     token = hash of the mark, and of every sampler input; a row stands behind a draft that is that token

So the next token is a function of the token ids and the request alone (`expected.py`), whatever was cut into chunks,
kept, lent or streamed; and a byte that is not what it should be changes the reply, or is found on the spot. The
programs know pack and model, and nothing of plans, slots or rings.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any
from zlib import crc32

from sim.errors import TwinError
from sim.world.geometry import FEW_TOKENS, STATE_BYTES
from sim.world.hashing import FIRST_CELL, chain, last_cell, mix
from strata.core import programs
from strata.core.commands import Access
from strata.core.extent import Extent
from strata.core.programs import (
    MAX_WINDOW_ROWS,
    SAMPLED_WORD,
    CommitArgs,
    EmbedArgs,
    ExpertsArgs,
    HeadArgs,
    LayerArgs,
    PassBuffers,
    SampleArgs,
)
from strata.device import Memory, Program, Programs

_PAIR = struct.Struct("<II")
_MARK = struct.Struct("<I")
_DONE = struct.Struct("<III")
_HEADER = struct.Struct("<q")
_STATE = struct.Struct("<qI")
CELL_BYTES = 4
DRAFT = "draft"


class WrongBytes(TwinError):
    """A program found other bytes than the model has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A weight outside the cache: where it is read, and its bytes in the model."""

    access: Access
    data: bytes


def world_programs(
    blobs: Mapping[tuple[int, int], bytes], *, num_experts: int, head: Sequence[Part] = (), drafter: Sequence[Part] = ()
) -> Programs:
    """`blobs`: (layer, expert) -> its bytes, from the model and not from any table of the engine. `head` and `drafter`:
    what those read."""
    model = _Model(blobs, num_experts, head, drafter)
    return {
        programs.EMBED: embed,
        programs.ATTENTION: attention,
        programs.RECURRENT: recurrent,
        programs.ROUTER: model.router,
        programs.EXPERTS: model.experts,
        programs.COMBINE: combine,
        programs.FFN: ffn,
        programs.HEAD: model.head,
        programs.SAMPLE: sample,
        programs.COMMIT: commit,
        DRAFT: model.draft,
    }


def numbered_from(first_layer: int, model: Programs) -> Programs:
    """The same programs for a part of the model, whose layers count from 0."""

    def shifted(program: Program) -> Program:
        def run(memory: Memory, args: Any) -> None:
            program(memory, replace(args, layer=args.layer + first_layer) if hasattr(args, "layer") else args)

        return run

    return {name: shifted(program) for name, program in model.items()} if first_layer else model


def _rows(buffers: PassBuffers, extent: Extent, rows: int) -> Extent:
    return _extent(extent.offset_bytes, rows * (extent.size_bytes // buffers.max_rows))


_extent = lru_cache(maxsize=1024)(Extent)
"""The same few extents are asked for in every launch."""


def _num_marks(buffers: PassBuffers, rows: int) -> int:
    """A chunk is as wide as no window is, and nothing is sampled from its rows."""
    return rows if buffers.max_rows <= MAX_WINDOW_ROWS else 1


def _marks_of(hidden: memoryview, buffers: PassBuffers, rows: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{_num_marks(buffers, rows)}I", hidden, rows * CELL_BYTES)


def _set_marks(hidden: memoryview, rows: int, marks: Sequence[int]) -> None:
    struct.pack_into(f"<{len(marks)}I", hidden, rows * CELL_BYTES, *marks)


def _ends(position: int, rows: int, num_marks: int) -> range:
    """Behind which position each mark stands: of each row, or of the last alone."""
    return range(position + rows - num_marks + 1, position + rows + 1)


def embed(memory: Memory, args: EmbedArgs) -> None:
    tokens = memory.read(_rows(args.buffers, args.buffers.tokens, args.rows))
    hidden = memory.write(_rows(args.buffers, args.buffers.hidden, args.rows))
    hidden[: args.rows * CELL_BYTES] = tokens
    _set_marks(hidden, args.rows, [0] * _num_marks(args.buffers, args.rows))


def _mark_work(memory: Memory, buffers: PassBuffers, number: int) -> None:
    """`number` at both ends of what the program works in, if it needs anything."""
    if buffers.scratch.size_bytes:
        work = memory.write(buffers.scratch)
        for at in (0, buffers.scratch.size_bytes - CELL_BYTES):
            _MARK.pack_into(work, at, number)


def _check_work(memory: Memory, buffers: PassBuffers, number: int, program: str) -> None:
    if not buffers.scratch.size_bytes:
        return
    work = memory.write(buffers.scratch)
    found = [_MARK.unpack_from(work, at)[0] for at in (0, buffers.scratch.size_bytes - CELL_BYTES)]
    if found != [number, number]:
        raise WrongBytes(f"{program} works in {buffers.scratch}: {number} was written there, now it has {found}")


def attention(memory: Memory, args: LayerArgs) -> None:
    _mark_work(memory, args.buffers, args.layer)
    _attend(memory, args)
    _check_work(memory, args.buffers, args.layer, programs.ATTENTION)


def _attend(memory: Memory, args: LayerArgs) -> None:
    assert args.kv is not None
    rows, half = args.rows, args.kv.size_bytes // 2
    (position,) = _HEADER.unpack_from(memory.read(args.buffers.header), 0)
    hidden = memory.write(_rows(args.buffers, args.buffers.hidden, rows))
    kv = memory.write(args.kv)
    end = (position + rows) * CELL_BYTES
    if not 0 <= position * CELL_BYTES <= end <= half:
        raise WrongBytes(f"attention of layer {args.layer}: position={position} is no cell of the context")
    before = _MARK.unpack_from(kv, (position - 1) * CELL_BYTES)[0] if position else FIRST_CELL + args.layer
    cells = chain(before, bytes(hidden[: rows * CELL_BYTES]))
    kv[position * CELL_BYTES : end] = cells
    kv[half + position * CELL_BYTES : half + end] = cells
    memory.write(_rows(args.buffers, args.buffers.attention, rows))
    marks = _marks_of(hidden, args.buffers, rows)
    ends = (CELL_BYTES * end for end in _ends(position, rows, len(marks)))
    seen = [crc32(kv[half : half + end], crc32(kv[:end], mark)) for end, mark in zip(ends, marks, strict=True)]
    _set_marks(hidden, rows, seen)


def recurrent(memory: Memory, args: LayerArgs) -> None:
    _mark_work(memory, args.buffers, args.layer)
    _move_on(memory, args)
    _check_work(memory, args.buffers, args.layer, programs.RECURRENT)


def _move_on(memory: Memory, args: LayerArgs) -> None:
    assert args.state is not None
    rows = args.rows
    (position,) = _HEADER.unpack_from(memory.read(args.buffers.header), 0)
    hidden = memory.write(_rows(args.buffers, args.buffers.hidden, rows))
    state = memory.write(args.state) if args.journal is None else memory.read(args.state)
    stands_at, before = _STATE.unpack_from(state, 0)
    if stands_at != position or (position == 0 and before):
        raise WrongBytes(
            f"recurrent of layer {args.layer}: position={position}, the state is {before:#x} at {stands_at}"
        )
    cells = chain(before if position else FIRST_CELL + args.layer, bytes(hidden[: rows * CELL_BYTES]))
    memory.write(_rows(args.buffers, args.buffers.attention, rows))
    marks = _marks_of(hidden, args.buffers, rows)
    states = []
    for end in _ends(position, rows, len(marks)):
        cell = cells[: CELL_BYTES * (end - position)]
        states.append(_STATE.pack(end, last_cell(cell)))
    if args.journal is None:
        state[: _STATE.size] = states[-1]
    else:
        journal = memory.write(args.journal)
        for row, behind in enumerate(states):
            journal[row * STATE_BYTES : row * STATE_BYTES + _STATE.size] = behind
    _set_marks(hidden, rows, [crc32(behind, mark) for behind, mark in zip(states, marks, strict=True)])


def commit(memory: Memory, args: CommitArgs) -> None:
    journal, state = memory.read(args.journal), memory.write(args.state)
    (stands_at, _), (first_end, _) = _STATE.unpack_from(state, 0), _STATE.unpack_from(journal, 0)
    if first_end != stands_at + 1:
        raise WrongBytes(f"commit of layer {args.layer}: the journal begins behind {first_end - 1}, not {stands_at}")
    start = (args.rows - 1) * STATE_BYTES
    state[: _STATE.size] = journal[start : start + _STATE.size]


def ffn(memory: Memory, args: LayerArgs) -> None:
    _mark_work(memory, args.buffers, args.layer)
    hidden = memory.write(_rows(args.buffers, args.buffers.hidden, args.rows))
    memory.write(_rows(args.buffers, args.buffers.normed, args.rows))
    _mix_marks(hidden, args.buffers, args.rows, programs.FFN, args.layer)
    _check_work(memory, args.buffers, args.layer, programs.FFN)


def _mix_marks(hidden: memoryview, buffers: PassBuffers, rows: int, program: str, layer: int) -> None:
    _set_marks(hidden, rows, [mix(mark, program, layer) for mark in _marks_of(hidden, buffers, rows)])


def combine(memory: Memory, args: LayerArgs) -> None:
    buffers, rows = args.buffers, args.rows
    done_number, done, layer = _DONE.unpack_from(memory.read(_rows(buffers, buffers.expert_rows, rows)), 0)
    number, chosen = _PAIR.unpack_from(memory.read(_rows(buffers, buffers.router_weights, rows)), 0)
    hidden = memory.write(_rows(buffers, buffers.hidden, rows))
    if (done_number, layer, done & chosen) != (number, args.layer, chosen):
        raise WrongBytes(f"combine of layer {args.layer}: experts {chosen:#x} were chosen, {done:#x} of {layer} done")
    _mix_marks(hidden, buffers, rows, programs.COMBINE, args.layer)


def _compare(memory: Memory, parts: Sequence[Part], program: str) -> None:
    for part in parts:
        if bytes(memory.read(part.access.extent)) != part.data:
            raise WrongBytes(f"{program}: {part.access.content} at {part.access.extent} has other bytes than the model")


def sample(memory: Memory, args: SampleArgs) -> None:
    window, buffers = args.window, args.buffers
    logits = memory.read(_rows(buffers, window.logits, args.rows))
    inputs = [memory.read(extent) for extent in (window.params, window.bias, window.seen, window.terminators)]
    counts, header, result = (memory.write(extent) for extent in (window.counts, buffers.header, window.result))
    drafts = _drafts(memory, args)
    for row in range(args.rows):
        (mark,) = _MARK.unpack_from(logits, row * (len(logits) // args.rows))
        for data in (*inputs, counts):
            mark = crc32(data, mark)
        token = FEW_TOKENS[mark % len(FEW_TOKENS)] if buffers.max_rows > 1 else mark % window.seen.size_bytes
        _HEADER.pack_into(result, row * _HEADER.size, token)
        _MARK.pack_into(counts, CELL_BYTES * token, _MARK.unpack_from(counts, CELL_BYTES * token)[0] + 1)
        if row + 1 == args.rows or token != drafts[row] or inputs[3][token]:
            break
    _HEADER.pack_into(result, SAMPLED_WORD * _HEADER.size, row + 1)
    _MARK.pack_into(memory.write(_extent(buffers.tokens.offset_bytes, CELL_BYTES)), 0, token)
    _HEADER.pack_into(header, 0, _HEADER.unpack_from(header, 0)[0] + row + 1)


def _drafts(memory: Memory, args: SampleArgs) -> Sequence[int]:
    if args.rows == 1:
        return ()
    behind = _extent(args.buffers.tokens.offset_bytes + CELL_BYTES, (args.rows - 1) * CELL_BYTES)
    return struct.unpack(f"<{args.rows - 1}i", memory.read(behind))


class _Model:
    """`num_routed` numbers the router's launches, so that outputs of an earlier one are never taken for its own."""

    def __init__(
        self,
        blobs: Mapping[tuple[int, int], bytes],
        num_experts: int,
        head: Sequence[Part],
        drafter: Sequence[Part],
    ) -> None:
        self._blobs, self._num_experts, self._head, self._drafter = blobs, num_experts, head, drafter
        self._num_routed = 0

    def router(self, memory: Memory, args: LayerArgs) -> None:
        """About half of the experts, now and then all of them or a single one; for a window what each row chooses."""
        buffers, rows = args.buffers, args.rows
        everyone, chosen = (1 << self._num_experts) - 1, 0
        for mark in _marks_of(memory.read(_rows(buffers, buffers.hidden, rows)), buffers, rows):
            drawn = mix(mark, programs.ROUTER, args.layer)
            wanted = everyone if drawn % 7 == 0 else (drawn >> 3) & everyone
            chosen |= wanted or 1 << drawn % self._num_experts
        self._num_routed = number = self._num_routed + 1
        _PAIR.pack_into(memory.write(_rows(buffers, buffers.router_ids, rows)), 0, number, chosen)
        _PAIR.pack_into(memory.write(_rows(buffers, buffers.router_weights, rows)), 0, number, chosen)
        _MARK.pack_into(memory.write(_rows(buffers, buffers.normed, rows)), 0, number)
        counts = [chosen >> expert & 1 for expert in range(self._num_experts)]
        memory.write(buffers.router_counts)[:] = struct.pack(f"<{self._num_experts}i", *counts)
        _mark_work(memory, buffers, number)

    def experts(self, memory: Memory, args: ExpertsArgs) -> None:
        buffers, rows, layer = args.buffers, args.rows, args.layer
        number, chosen = _PAIR.unpack_from(memory.read(_rows(buffers, buffers.router_ids, rows)), 0)
        if _MARK.unpack_from(memory.read(_rows(buffers, buffers.normed, rows)), 0)[0] != number:
            raise WrongBytes(f"experts of layer {layer}: the rows are not those that the router saw")
        _check_work(memory, buffers, number, programs.EXPERTS)
        outputs = memory.write(_rows(buffers, buffers.expert_rows, rows))
        done_number, done, done_layer = _DONE.unpack_from(outputs, 0)
        if (done_number, done_layer) != (number, layer):
            done = 0
        addresses = memory.read(args.addresses).cast("q")
        wanted = args.experts
        if wanted is None:
            wanted = tuple(expert for expert in range(self._num_experts) if chosen >> expert & 1)
        for expert in wanted:
            blob = self._blobs[layer, expert]
            if done >> expert & 1:
                raise WrongBytes(f"experts of layer {layer}: expert {expert} is computed twice")
            if bytes(memory.view(addresses[expert], len(blob))) != blob:
                raise WrongBytes(
                    f"experts of layer {layer}: expert {expert} at address={addresses[expert]:#x} is another blob"
                )
            done |= 1 << expert
        _DONE.pack_into(outputs, 0, number, done, layer)
        if args.result is not None:
            memory.write(args.result)
        if args.usage.size_bytes:
            reads = memory.write(args.usage).cast("i")
            for expert in wanted:
                reads[layer * self._num_experts + expert] += 1

    def head(self, memory: Memory, args: HeadArgs) -> None:
        _compare(memory, self._head, programs.HEAD)
        hidden = memory.read(_rows(args.buffers, args.buffers.hidden, args.rows))
        memory.write(_rows(args.buffers, args.buffers.normed, args.rows))
        logits = memory.write(_rows(args.buffers, args.window.logits, args.rows))
        for row, mark in enumerate(_marks_of(hidden, args.buffers, args.rows)):
            _MARK.pack_into(logits, row * (len(logits) // args.rows), mix(mark, programs.HEAD, 0))

    def draft(self, memory: Memory, args: LayerArgs) -> None:
        _compare(memory, self._drafter, DRAFT)
