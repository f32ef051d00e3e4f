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
    draft      so are the drafter's experts and heads: what a drafter would read, launched at rest; where it drafts, it
               has programs of its own too (`draft_programs.py`)
    sample     token = hash of the mark, and of every sampler input; a row stands behind a draft that is that token

So the next token is a function of the token ids and the request alone (`expected.py`), whatever was cut into chunks,
kept, lent or streamed; and a byte that is not what it should be changes the reply, or is found on the spot. The
programs know pack and model, and nothing of plans, slots or rings.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from sim.world.draft_programs import draft_programs
from sim.world.geometry import FEW_TOKENS, STATE_BYTES
from sim.world.hashing import FIRST_CELL, chain, draft_cells, last_cell, mix
from sim.world.rows import (
    CELL_BYTES,
    HEADER,
    MARK,
    Part,
    WrongBytes,
    compare,
    ends_of,
    extent_of,
    marks_of,
    num_marks,
    rows_of,
    set_marks,
    words_of,
)
from strata.core import programs
from strata.core.programs import (
    SAMPLED_WORD,
    CommitArgs,
    EmbedArgs,
    ExpertsArgs,
    HeadArgs,
    LayerArgs,
    PassBuffers,
    SampleArgs,
)
from strata.device import Memory, Programs

_PAIR = struct.Struct("<II")
_DONE = struct.Struct("<III")
_STATE = struct.Struct("<qI")
DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class Model:
    """Of one card. `blobs`: (layer, expert) -> its bytes, from the model and not from any table of the engine; layers
    have the model's numbers, of which this card's first is `first_layer`. `head` and `drafter`: what those read, the
    latter at rest; where it drafts, `draft_weights` and `draft_heads` are what it takes a row in with and what its head
    reads. `drafter_layer` is -1 without one."""

    blobs: Mapping[tuple[int, int], bytes]
    num_experts: int
    head: Sequence[Part] = ()
    drafter: Sequence[Part] = ()
    draft_weights: Sequence[Part] = ()
    draft_heads: Sequence[Part] = ()
    first_layer: int = 0
    drafter_layer: int = -1
    drafter_experts: int = 0

    def num_experts_of(self, layer: int) -> int:
        return self.drafter_experts if layer == self.drafter_layer else self.num_experts


def world_programs(model: Model) -> Programs:
    own = _Programs(model)
    return {
        programs.EMBED: embed,
        programs.ATTENTION: own.attention,
        programs.RECURRENT: own.recurrent,
        programs.ROUTER: own.router,
        programs.EXPERTS: own.experts,
        programs.COMBINE: own.combine,
        programs.FFN: own.ffn,
        programs.HEAD: own.head,
        programs.SAMPLE: sample,
        programs.COMMIT: commit,
        DRAFT: own.draft,
        **draft_programs(model.draft_weights, model.draft_heads),
    }


def embed(memory: Memory, args: EmbedArgs) -> None:
    tokens = memory.read(rows_of(args.buffers, args.buffers.tokens, args.rows))
    hidden = memory.write(rows_of(args.buffers, args.buffers.hidden, args.rows))
    hidden[: args.rows * CELL_BYTES] = tokens
    set_marks(hidden, args.rows, [0] * num_marks(args.buffers, args.rows))


def _mark_work(memory: Memory, buffers: PassBuffers, number: int) -> None:
    """`number` at both ends of what the program works in, if it needs anything."""
    if buffers.scratch.size_bytes:
        work = memory.write(buffers.scratch)
        for at in (0, buffers.scratch.size_bytes - CELL_BYTES):
            MARK.pack_into(work, at, number)


def _check_work(memory: Memory, buffers: PassBuffers, number: int, program: str) -> None:
    if not buffers.scratch.size_bytes:
        return
    work = memory.write(buffers.scratch)
    found = [MARK.unpack_from(work, at)[0] for at in (0, buffers.scratch.size_bytes - CELL_BYTES)]
    if found != [number, number]:
        raise WrongBytes(f"{program} works in {buffers.scratch}: {number} was written there, now it has {found}")


def commit(memory: Memory, args: CommitArgs) -> None:
    journal, state = memory.read(args.journal), memory.write(args.state)
    (stands_at, _), (first_end, _) = _STATE.unpack_from(state, 0), _STATE.unpack_from(journal, 0)
    if first_end != stands_at + 1:
        raise WrongBytes(f"commit of layer {args.layer}: the journal begins behind {first_end - 1}, not {stands_at}")
    start = (args.rows - 1) * STATE_BYTES
    state[: _STATE.size] = journal[start : start + _STATE.size]


def sample(memory: Memory, args: SampleArgs) -> None:
    window, buffers = args.window, args.buffers
    logits = memory.read(rows_of(buffers, window.logits, args.rows))
    inputs = [memory.read(extent) for extent in (window.params, window.bias, window.seen, window.terminators)]
    counts, header, result = (memory.write(extent) for extent in (window.counts, buffers.header, window.result))
    drafts = _drafts(memory, args)
    for row in range(args.rows):
        (mark,) = MARK.unpack_from(logits, row * (len(logits) // args.rows))
        for data in (*inputs, counts):
            mark = crc32(data, mark)
        token = FEW_TOKENS[mark % len(FEW_TOKENS)] if buffers.max_rows > 1 else mark % window.seen.size_bytes
        HEADER.pack_into(result, row * HEADER.size, token)
        MARK.pack_into(counts, CELL_BYTES * token, MARK.unpack_from(counts, CELL_BYTES * token)[0] + 1)
        if row + 1 == args.rows or token != drafts[row] or inputs[3][token]:
            break
    HEADER.pack_into(result, SAMPLED_WORD * HEADER.size, row + 1)
    if window.sampled.size_bytes:
        tokens = [HEADER.unpack_from(result, index * HEADER.size)[0] for index in range(row + 1)]
        struct.pack_into(f"<{row + 1}i", memory.write(rows_of(buffers, window.sampled, args.rows)), 0, *tokens)
    MARK.pack_into(memory.write(extent_of(buffers.tokens.offset_bytes, CELL_BYTES)), 0, token)
    HEADER.pack_into(header, 0, HEADER.unpack_from(header, 0)[0] + row + 1)


def _drafts(memory: Memory, args: SampleArgs) -> Sequence[int]:
    if args.rows == 1:
        return ()
    behind = extent_of(args.buffers.tokens.offset_bytes + CELL_BYTES, (args.rows - 1) * CELL_BYTES)
    return struct.unpack(f"<{args.rows - 1}i", memory.read(behind))


def _mix_marks(hidden: memoryview, buffers: PassBuffers, rows: int, program: str, layer: int) -> None:
    set_marks(hidden, rows, [mix(mark, program, layer) for mark in marks_of(hidden, buffers, rows)])


@lru_cache(maxsize=1024)
def _named_by(chosen: int) -> tuple[int, ...]:
    """The experts, one bit each."""
    return tuple(expert for expert in range(chosen.bit_length()) if chosen >> expert & 1)


@lru_cache(maxsize=1024)
def _counts_of(chosen: int, num_experts: int) -> bytes:
    return struct.pack(f"<{num_experts}i", *[chosen >> expert & 1 for expert in range(num_experts)])


class _Programs:
    """`num_routed` numbers the router's launches, so that outputs of an earlier one are never taken for its own."""

    def __init__(self, model: Model) -> None:
        self._model, self._num_routed = model, 0

    def attention(self, memory: Memory, args: LayerArgs) -> None:
        _mark_work(memory, args.buffers, args.layer)
        self._attend(memory, args)
        _check_work(memory, args.buffers, args.layer, programs.ATTENTION)

    def _attend(self, memory: Memory, args: LayerArgs) -> None:
        assert args.kv is not None
        rows, half = args.rows, args.kv.size_bytes // 2
        (position,) = HEADER.unpack_from(memory.read(args.buffers.header), 0)
        hidden = memory.write(rows_of(args.buffers, args.buffers.hidden, rows))
        kv = memory.write(args.kv)
        end = (position + rows) * CELL_BYTES
        if not 0 <= position * CELL_BYTES <= end <= half:
            raise WrongBytes(f"attention of layer {args.layer}: position={position} is no cell of the context")
        layer = self._model.first_layer + args.layer
        if layer == self._model.drafter_layer:
            cells = draft_cells(words_of(hidden, rows), position)
        else:
            before = MARK.unpack_from(kv, (position - 1) * CELL_BYTES)[0] if position else FIRST_CELL + layer
            cells = chain(before, bytes(hidden[: rows * CELL_BYTES]))
        kv[position * CELL_BYTES : end] = cells
        kv[half + position * CELL_BYTES : half + end] = cells
        memory.write(rows_of(args.buffers, args.buffers.attention, rows))
        marks = marks_of(hidden, args.buffers, rows)
        ends = (CELL_BYTES * end for end in ends_of(position, rows, len(marks)))
        seen = [crc32(kv[half : half + end], crc32(kv[:end], mark)) for end, mark in zip(ends, marks, strict=True)]
        set_marks(hidden, rows, seen)

    def recurrent(self, memory: Memory, args: LayerArgs) -> None:
        _mark_work(memory, args.buffers, args.layer)
        self._move_on(memory, args)
        _check_work(memory, args.buffers, args.layer, programs.RECURRENT)

    def _move_on(self, memory: Memory, args: LayerArgs) -> None:
        assert args.state is not None
        rows = args.rows
        (position,) = HEADER.unpack_from(memory.read(args.buffers.header), 0)
        hidden = memory.write(rows_of(args.buffers, args.buffers.hidden, rows))
        state = memory.write(args.state) if args.journal is None else memory.read(args.state)
        stands_at, before = _STATE.unpack_from(state, 0)
        if stands_at != position or (position == 0 and before):
            raise WrongBytes(
                f"recurrent of layer {args.layer}: position={position}, the state is {before:#x} at {stands_at}"
            )
        first = FIRST_CELL + self._model.first_layer + args.layer
        cells = chain(before if position else first, bytes(hidden[: rows * CELL_BYTES]))
        memory.write(rows_of(args.buffers, args.buffers.attention, rows))
        marks = marks_of(hidden, args.buffers, rows)
        states = []
        for end in ends_of(position, rows, len(marks)):
            cell = cells[: CELL_BYTES * (end - position)]
            states.append(_STATE.pack(end, last_cell(cell)))
        if args.journal is None:
            state[: _STATE.size] = states[-1]
        else:
            journal = memory.write(args.journal)
            for row, behind in enumerate(states):
                journal[row * STATE_BYTES : row * STATE_BYTES + _STATE.size] = behind
        set_marks(hidden, rows, [crc32(behind, mark) for behind, mark in zip(states, marks, strict=True)])

    def ffn(self, memory: Memory, args: LayerArgs) -> None:
        _mark_work(memory, args.buffers, args.layer)
        hidden = memory.write(rows_of(args.buffers, args.buffers.hidden, args.rows))
        memory.write(rows_of(args.buffers, args.buffers.normed, args.rows))
        _mix_marks(hidden, args.buffers, args.rows, programs.FFN, self._model.first_layer + args.layer)
        _check_work(memory, args.buffers, args.layer, programs.FFN)

    def combine(self, memory: Memory, args: LayerArgs) -> None:
        buffers, rows, layer = args.buffers, args.rows, self._model.first_layer + args.layer
        done_number, done, done_layer = _DONE.unpack_from(memory.read(rows_of(buffers, buffers.expert_rows, rows)), 0)
        number, chosen = _PAIR.unpack_from(memory.read(rows_of(buffers, buffers.router_weights, rows)), 0)
        hidden = memory.write(rows_of(buffers, buffers.hidden, rows))
        if (done_number, done_layer, done & chosen) != (number, layer, chosen):
            raise WrongBytes(
                f"combine of layer {layer}: experts {chosen:#x} were chosen, {done:#x} of {done_layer} done"
            )
        _mix_marks(hidden, buffers, rows, programs.COMBINE, layer)

    def router(self, memory: Memory, args: LayerArgs) -> None:
        """About half of the experts, now and then all of them or a single one; for a window what each row chooses."""
        buffers, rows, layer = args.buffers, args.rows, self._model.first_layer + args.layer
        num_experts, chosen = self._model.num_experts_of(layer), 0
        everyone = (1 << num_experts) - 1
        for mark in marks_of(memory.read(rows_of(buffers, buffers.hidden, rows)), buffers, rows):
            drawn = mix(mark, programs.ROUTER, layer)
            wanted = everyone if drawn % 7 == 0 else (drawn >> 3) & everyone
            chosen |= wanted or 1 << drawn % num_experts
        self._num_routed = number = self._num_routed + 1
        _PAIR.pack_into(memory.write(rows_of(buffers, buffers.router_ids, rows)), 0, number, chosen)
        _PAIR.pack_into(memory.write(rows_of(buffers, buffers.router_weights, rows)), 0, number, chosen)
        MARK.pack_into(memory.write(rows_of(buffers, buffers.normed, rows)), 0, number)
        memory.write(buffers.router_counts)[:] = _counts_of(chosen, num_experts)
        _mark_work(memory, buffers, number)

    def experts(self, memory: Memory, args: ExpertsArgs) -> None:
        buffers, rows, layer = args.buffers, args.rows, self._model.first_layer + args.layer
        number, chosen = _PAIR.unpack_from(memory.read(rows_of(buffers, buffers.router_ids, rows)), 0)
        if MARK.unpack_from(memory.read(rows_of(buffers, buffers.normed, rows)), 0)[0] != number:
            raise WrongBytes(f"experts of layer {layer}: the rows are not those that the router saw")
        _check_work(memory, buffers, number, programs.EXPERTS)
        outputs = memory.write(rows_of(buffers, buffers.expert_rows, rows))
        done_number, done, done_layer = _DONE.unpack_from(outputs, 0)
        if (done_number, done_layer) != (number, layer):
            done = 0
        addresses = memory.read(args.addresses).cast("q")
        wanted = args.experts
        if wanted is None:
            wanted = _named_by(chosen & ((1 << self._model.num_experts_of(layer)) - 1))
        blobs = self._model.blobs
        for expert in wanted:
            blob = blobs[layer, expert]
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
                reads[args.layer * self._model.num_experts + expert] += 1

    def head(self, memory: Memory, args: HeadArgs) -> None:
        compare(memory, self._model.head, programs.HEAD)
        hidden = memory.read(rows_of(args.buffers, args.buffers.hidden, args.rows))
        memory.write(rows_of(args.buffers, args.buffers.normed, args.rows))
        logits = memory.write(rows_of(args.buffers, args.window.logits, args.rows))
        for row, mark in enumerate(marks_of(hidden, args.buffers, args.rows)):
            MARK.pack_into(logits, row * (len(logits) // args.rows), mix(mark, programs.HEAD, 0))

    def draft(self, memory: Memory, args: LayerArgs) -> None:
        compare(memory, self._model.drafter, DRAFT)
