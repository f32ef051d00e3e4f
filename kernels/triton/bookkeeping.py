# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""What is noted on the card between programs, so that the host need not look: which experts a launch computes, how many
were read from where, and that a token was accepted. One program each."""

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


@triton.jit(do_not_specialize=["num_pairs", "arena_address", "arena_bytes"])
def count_reads_kernel(
    ids,
    addresses,
    reads,
    num_pairs,
    arena_address,
    arena_bytes,
    NUM_EXPERTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """reads: int64 [2] += (experts among ids whose blob lies in the arena, experts whose blob lies elsewhere), each
    expert once. ids: int32 [num_pairs], PAIRS of them at a time; addresses: int64 [NUM_EXPERTS]."""
    expert = tl.arange(0, EXPERTS)
    times = tl.zeros([EXPERTS], tl.int32)
    for first in range(0, num_pairs, PAIRS):
        pair = first + tl.arange(0, PAIRS)
        chosen = tl.load(ids + pair, mask=pair < num_pairs, other=-1)
        times += tl.sum((expert[:, None] == chosen[None, :]).to(tl.int32), axis=1)
    is_read = times > 0
    offset = tl.load(addresses + expert, mask=is_read & (expert < NUM_EXPERTS), other=-1) - arena_address
    is_hit = is_read & (offset >= 0) & (offset < arena_bytes)
    hits = tl.sum(is_hit.to(tl.int64), axis=0)
    tl.store(reads, tl.load(reads) + hits)
    tl.store(reads + 1, tl.load(reads + 1) + tl.sum(is_read.to(tl.int64), axis=0) - hits)


@triton.jit
def accept_kernel(result, num_sampled, counts, tokens, header):
    """The token in result[0], the only one of its window, is taken: counted, put into tokens[0], and the position in
    header[0] moves on by one. A token below 0 stands for none: it is not counted, and token 0 takes its place."""
    token = tl.load(result)
    safe = tl.maximum(token, 0)
    tl.store(counts + safe, tl.load(counts + safe) + 1, mask=token >= 0)
    tl.store(num_sampled, 1)
    tl.store(tokens, safe.to(tl.int32))
    tl.store(header, tl.load(header) + 1)
