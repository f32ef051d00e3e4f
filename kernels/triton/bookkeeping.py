# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""What is noted on the card between programs, so that the host need not look: which experts a launch computes, how many
were read from where, and which, which tokens of a window were accepted, and where a draft stands. And what the host
asks: which experts a window chose. One program each."""

import triton
import triton.language as tl

WORDS = 16  # of 32 bits in a selection
_WORDS = tl.constexpr(WORDS)


@triton.jit(do_not_specialize=[f"w{index}" for index in range(WORDS)])
def select_kernel(
    selected,
    w0,
    w1,
    w2,
    w3,
    w4,
    w5,
    w6,
    w7,
    w8,
    w9,
    w10,
    w11,
    w12,
    w13,
    w14,
    w15,
    NUM_EXPERTS: tl.constexpr,
    EXPERTS: tl.constexpr,
):
    """selected: uint8 [NUM_EXPERTS]; selected[e] = bit e of the words. They are arguments, since a copy from the host
    would need memory that stays as it is until the card got to it. EXPERTS: NUM_EXPERTS as a power of two."""
    words = (w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15)
    expert = tl.arange(0, EXPERTS)
    word = tl.zeros([EXPERTS], tl.int32)
    for index in tl.static_range(_WORDS):
        word = tl.where(expert // 32 == index, words[index], word)
    tl.store(selected + expert, ((word >> (expert % 32)) & 1).to(tl.uint8), mask=expert < NUM_EXPERTS)


@triton.jit
def chosen_times(ids, num_pairs, EXPERTS: tl.constexpr, PAIRS: tl.constexpr):
    """int32 [EXPERTS], how often each expert is among ids: int32 [num_pairs], PAIRS of them at a time."""
    expert = tl.arange(0, EXPERTS)
    times = tl.zeros([EXPERTS], tl.int32)
    for first in range(0, num_pairs, PAIRS):
        pair = first + tl.arange(0, PAIRS)
        chosen = tl.load(ids + pair, mask=pair < num_pairs, other=-1)
        times += tl.sum((expert[:, None] == chosen[None, :]).to(tl.int32), axis=1)
    return times


@triton.jit(do_not_specialize=["num_pairs", "arena_address", "arena_bytes"])
def count_reads_kernel(
    ids,
    addresses,
    reads,
    usage,
    num_pairs,
    arena_address,
    arena_bytes,
    NUM_EXPERTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    PAIRS: tl.constexpr,
    HAS_USAGE: tl.constexpr,
):
    """reads: int64 [2] += (experts among ids whose blob lies in the arena, experts whose blob lies elsewhere), each
    expert once. With HAS_USAGE, usage: int32 [NUM_EXPERTS] += 1 for each of them. ids: int32 [num_pairs], PAIRS of them
    at a time; addresses: int64 [NUM_EXPERTS]."""
    expert, times = tl.arange(0, EXPERTS), chosen_times(ids, num_pairs, EXPERTS, PAIRS)
    is_read = (times > 0) & (expert < NUM_EXPERTS)
    offset = tl.load(addresses + expert, mask=is_read, other=-1) - arena_address
    is_hit = is_read & (offset >= 0) & (offset < arena_bytes)
    hits = tl.sum(is_hit.to(tl.int64), axis=0)
    tl.store(reads, tl.load(reads) + hits)
    tl.store(reads + 1, tl.load(reads + 1) + tl.sum(is_read.to(tl.int64), axis=0) - hits)
    if HAS_USAGE:
        tl.store(usage + expert, tl.load(usage + expert, mask=is_read, other=0) + 1, mask=is_read)


@triton.jit(do_not_specialize=["num_pairs"])
def count_chosen_kernel(
    ids,
    counts,
    num_pairs,
    NUM_EXPERTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """counts: int32 [NUM_EXPERTS], how often each expert is among ids: int32 [num_pairs], PAIRS of them at a time."""
    expert, times = tl.arange(0, EXPERTS), chosen_times(ids, num_pairs, EXPERTS, PAIRS)
    tl.store(counts + expert, times, mask=expert < NUM_EXPERTS)


@triton.jit(do_not_specialize=["num_rows"])
def accept_kernel(
    result,
    num_sampled,
    counts,
    terminators,
    wishes,
    tokens,
    sampled,
    header,
    num_rows,
    IS_NOTED: tl.constexpr,
    MAX_ROWS: tl.constexpr,
):
    """Which rows of a window stand: row i + 1 does when row i does and gave tokens[i + 1], which was drafted, and that
    does not end the reply. Each that stands is counted and, with IS_NOTED, put into sampled; their number goes to
    num_sampled, the last to tokens[0], and the position in header[0] moves on by the number. A token below 0 stands for
    none: it is not counted, nothing stands behind it, and token 0 takes its place.

    result: int64 [num_rows]; tokens, sampled: int32 [num_rows]; wishes: as in `sampling.py`."""
    lane = tl.arange(0, MAX_ROWS)
    inside = lane < num_rows
    token = tl.load(result + lane, mask=inside, other=-1)
    drafted = tl.load(tokens + lane + 1, mask=lane + 1 < num_rows, other=-1)
    position = tl.load(header)
    is_early = position + lane + 1 - tl.load(wishes + 1) < tl.load(wishes + 2)
    can_end = tl.load(terminators + token, mask=token >= 0, other=0) > 0
    is_last = (token < 0) | (token != drafted) | (can_end & (is_early == 0)) | (lane + 1 == num_rows)
    last = tl.min(tl.where(is_last, lane, MAX_ROWS), axis=0)
    stands = lane <= last
    tl.atomic_add(counts + token, 1, mask=stands & (token >= 0))  # two rows may give one token
    if IS_NOTED:
        tl.store(sampled + lane, token.to(tl.int32), mask=stands)
    tl.store(num_sampled, (last + 1).to(tl.int64))
    taken = tl.sum(tl.where(lane == last, token, 0), axis=0)
    tl.store(tokens, tl.maximum(taken, 0).to(tl.int32))
    tl.store(header, position + last + 1)


@triton.jit(do_not_specialize=["behind"])
def place_behind_kernel(source, header, behind):
    """header[0] = source[0] - behind: int64 positions."""
    tl.store(header, tl.load(source) - behind)
