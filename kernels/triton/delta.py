# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
"""A recurrent layer between its projections: causal convolution, gated delta net token by token, output gate; and the
journal of a window whose rows may be taken back. Formulas: `kernels/reference/delta_net.py`, `causal_conv.py`.

    state    f32 [HEADS, WIDTH, WIDTH], then f32 [TAPS - 1, CHANNELS]
    channels query heads, key heads, value heads, of WIDTH each, one behind the other
    journal  a row: the convolution's input | normalized keys | what is added for them | decay

One program of the delta net = some columns of one value head's matrix, which stay in its registers from the first row
to the last. A column needs no other, a row is the same instructions whatever came before it, and `commit` adds and
multiplies what the row itself did: no bit depends on cuts. `fma` is written out where it is meant, and the compiler
fuses nothing: in a sum of squares over lanes it would leave each lane's own product exact and the others' rounded, so
every lane would have another key, and the one that is noted would not be the one that was used.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows"])
def conv_kernel(qkv, history, taps, mixed, num_rows, CHANNELS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """mixed[t, c] = silu( sum over i of taps[c, i] * x[t + i - TAPS + 1, c] ), x = history before row 0, qkv behind.

    qkv, mixed: f32 [num_rows, CHANNELS]; history: f32 [TAPS - 1, CHANNELS]; taps: f32 [CHANNELS, TAPS]. grid (rows,
    channel blocks)."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    total = tl.zeros([BLOCK], tl.float32)
    for tap in tl.static_range(TAPS):
        at = row + tap - (TAPS - 1)
        before = tl.load(history + (at + TAPS - 1) * CHANNELS + channel, mask=inside & (at < 0), other=0.0)
        value = before + tl.load(qkv + at * CHANNELS + channel, mask=inside & (at >= 0), other=0.0)
        total = tl.fma(value, tl.load(taps + channel * TAPS + tap, mask=inside, other=0.0), total)
    tl.store(mixed + row * CHANNELS + channel, total / (1.0 + tl.exp(-total)), mask=inside)


@triton.jit(do_not_specialize=["num_rows", "stride"])
def remember_kernel(rows, history, num_rows, stride, CHANNELS: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """history moves on by num_rows rows: it keeps the last TAPS - 1 of its own and theirs. rows: f32, CHANNELS every
    `stride` numbers. grid (channel blocks,). A place is filled from a later one than itself, so this works in place."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < CHANNELS
    for place in tl.static_range(TAPS - 1):
        at = place + num_rows
        is_old = at < TAPS - 1
        old = tl.load(history + at * CHANNELS + channel, mask=inside & is_old, other=0.0)
        new = tl.load(
            rows + (at - (TAPS - 1)).to(tl.int64) * stride + channel, mask=inside & (at >= TAPS - 1), other=0.0
        )
        tl.store(history + place * CHANNELS + channel, old + new, mask=inside)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def softplus(x):
    """log(1 + exp(x)), which is x far out, where exp(x) overflows."""
    return tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(tl.minimum(x, 20.0))))


@triton.jit
def _unit(pointer, line, inside, epsilon, scale):
    """scale * x / sqrt(sum of x^2 + epsilon)."""
    values = tl.load(pointer + line, mask=inside, other=0.0)
    return values * (scale / tl.sqrt(tl.sum(values * values, axis=0) + epsilon))


@triton.jit(do_not_specialize=["num_rows", "is_journaled"])
def delta_rows_kernel(
    mixed,
    beta,
    alpha,
    rate,
    bias,
    state,
    out,
    journal,
    num_rows,
    is_journaled,
    epsilon,
    scale,
    KEY_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    IS_TILED: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out[t, h] = M q after M = decay M + k (beta (v - decay M k)), M the head's matrix; it moves on by the rows, or
    with is_journaled = 1 stays as it is and the journal says how: a number and not a variant, so that both are the
    same instructions. grid (HEADS, column blocks).

    mixed: f32 [num_rows, channels]; beta, alpha: f32 [num_rows, HEADS] as projected; rate, bias: f32 [HEADS]; state:
    f32 [HEADS, WIDTH, WIDTH]; out: f32 [num_rows, HEADS, WIDTH]; journal: f32 [num_rows, as in the head of the file].
    BLOCK >= WIDTH is a power of two."""
    head, first = tl.program_id(0), tl.program_id(1) * COLUMNS
    CHANNELS: tl.constexpr = (2 * KEY_HEADS + HEADS) * WIDTH
    NOTED: tl.constexpr = CHANNELS + (KEY_HEADS + HEADS) * WIDTH + HEADS
    key_head = head % KEY_HEADS if IS_TILED else head // (HEADS // KEY_HEADS)
    line, column = tl.arange(0, BLOCK), first + tl.arange(0, COLUMNS)
    has_line, has_column = line < WIDTH, column < WIDTH
    both = has_line[:, None] & has_column[None, :]
    place = state + head * (WIDTH * WIDTH) + line[:, None] * WIDTH + column[None, :]
    matrix = tl.load(place, mask=both, other=0.0)
    head_rate, head_bias = tl.load(rate + head), tl.load(bias + head)
    for row in range(num_rows):
        at = mixed + row * CHANNELS
        query = _unit(at + key_head * WIDTH, line, has_line, epsilon, scale)
        key = _unit(at + (KEY_HEADS + key_head) * WIDTH, line, has_line, epsilon, 1.0)
        value = tl.load(at + (2 * KEY_HEADS + head) * WIDTH + column, mask=has_column, other=0.0)
        trust = sigmoid(tl.load(beta + row * HEADS + head))
        decay = tl.exp(head_rate * softplus(tl.load(alpha + row * HEADS + head) + head_bias))
        matrix = matrix * decay
        added = trust * (value - tl.sum(matrix * key[:, None], axis=0))
        matrix = tl.fma(key[:, None], added[None, :], matrix)
        answer = tl.sum(matrix * query[:, None], axis=0)
        tl.store(out + (row * HEADS + head) * WIDTH + column, answer, mask=has_column)
        if is_journaled != 0:
            note = journal + row * NOTED + CHANNELS
            # Every value head of a key head notes the same key, every block of columns the same decay.
            tl.store(note + key_head * WIDTH + line, key, mask=has_line)
            tl.store(note + (KEY_HEADS + head) * WIDTH + column, added, mask=has_column)
            tl.store(note + (KEY_HEADS + HEADS) * WIDTH + head, decay)
    if is_journaled == 0:
        tl.store(place, matrix, mask=both)


@triton.jit(do_not_specialize=["num_rows"])
def commit_kernel(
    journal,
    state,
    num_rows,
    KEY_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    IS_TILED: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The state moves on by the first num_rows rows of the journal. grid as above."""
    head, first = tl.program_id(0), tl.program_id(1) * COLUMNS
    CHANNELS: tl.constexpr = (2 * KEY_HEADS + HEADS) * WIDTH
    NOTED: tl.constexpr = CHANNELS + (KEY_HEADS + HEADS) * WIDTH + HEADS
    key_head = head % KEY_HEADS if IS_TILED else head // (HEADS // KEY_HEADS)
    line, column = tl.arange(0, BLOCK), first + tl.arange(0, COLUMNS)
    has_line, has_column = line < WIDTH, column < WIDTH
    both = has_line[:, None] & has_column[None, :]
    place = state + head * (WIDTH * WIDTH) + line[:, None] * WIDTH + column[None, :]
    matrix = tl.load(place, mask=both, other=0.0)
    for row in range(num_rows):
        note = journal + row * NOTED + CHANNELS
        key = tl.load(note + key_head * WIDTH + line, mask=has_line, other=0.0)
        added = tl.load(note + (KEY_HEADS + head) * WIDTH + column, mask=has_column, other=0.0)
        decay = tl.load(note + (KEY_HEADS + HEADS) * WIDTH + head)
        matrix = matrix * decay
        matrix = tl.fma(key[:, None], added[None, :], matrix)
    tl.store(place, matrix, mask=both)


@triton.jit
def gated_norm_kernel(x, gate, weight, out, epsilon, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """out = weight * x / sqrt(mean(x^2) + epsilon) * silu(gate), rounded to out's type. x, gate: f32 [heads of all
    rows, WIDTH]; grid (heads of all rows,)."""
    at = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, BLOCK)
    line = tl.arange(0, BLOCK)
    inside = line < WIDTH
    values = tl.load(x + at, mask=inside, other=0.0)
    root = tl.sqrt(tl.sum(values * values, axis=0) / WIDTH + epsilon)
    opened = tl.load(gate + at, mask=inside, other=0.0)
    normed = values / root * tl.load(weight + line, mask=inside, other=0.0)
    product = normed * (opened / (1.0 + tl.exp(-opened)))
    tl.store(out + at, product.to(out.dtype.element_ty), mask=inside)
