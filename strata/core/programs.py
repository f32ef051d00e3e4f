"""The programs a device runs, by name, and the layout of what they are given.

The core decides which program runs on which extents; `model` supplies the bodies (`strata.model.programs`), and
boot hands them to a device as a mapping `name -> callable(memory, args)`. A prompt chunk and a decode window run
the same programs over the same kind of buffers, which is why their bits can be equal.

One layer, for `rows` tokens at positions header.position + 0 .. rows-1:

    hidden --attention--> hidden            writes K/V of the rows, reads K/V of all positions up to each row
    hidden --recurrent--> hidden            moves the layer's state on by the rows (layers that do not attend)
    hidden --router-----> normed, router_ids, router_weights, router_counts        (layers with experts)
    normed --shared-----> hidden            the expert that all rows go to (layers that have one)
    normed --experts----> expert_rows       one launch for a group of experts, read through an address row
    expert_rows --combine--> hidden         summed in router order
    hidden --ffn--------> hidden            (dense layers, instead of router, experts, combine)

then, in a window only: hidden --head--> logits --sample--> result.

All numbers are little endian. Activations are float32 on the CPU reference.
"""

from dataclasses import dataclass

from strata.core.extent import Extent

EMBED, ATTENTION, RECURRENT, ROUTER, SHARED, EXPERTS, COMBINE, FFN, HEAD, SAMPLE = (
    "embed",
    "attention",
    "recurrent",
    "router",
    "shared",
    "experts",
    "combine",
    "ffn",
    "head",
    "sample",
)

HEADER_BYTES = 256
"""int64[32]. [0] position of the first row; the rest is zero and reserved."""

RESULT_BYTES = 256
"""int64[32]. [0..7] sampled token id of each row (rows <= 8); [8] expert reads served from VRAM since start,
[9] expert reads served from the pack since start; the rest is zero."""

HIT_WORD, MISSED_WORD = 8, 9
"""Words of the result extent that count expert reads, from the card and over the link."""

MAX_WINDOW_ROWS = 8

NO_SCRATCH = Extent(0, 0)
"""Of programs that need none."""


@dataclass(frozen=True, slots=True)
class PassBuffers:
    """Buffers of one pass over the layers, carved for `max_rows` rows. E hidden size, K experts used, nE experts,
    A floats a row, enough for the widest layer. A layer that attends has query, key, value, then the heads'
    output there, one after the other for all rows of the launch: (H + 2 Hkv) * D + H * D, and H * D more where
    queries come with a gate. A recurrent layer has its conv's input, its output gate, the heads' output and two numbers
    a head."""

    max_rows: int
    header: Extent  # int64 [32], see HEADER_BYTES
    tokens: Extent  # int32 [max_rows]
    hidden: Extent  # f32 [max_rows, E]
    normed: Extent  # f32 [max_rows, E]
    attention: Extent  # f32 [max_rows, A]
    router_ids: Extent  # int32 [max_rows, K]        (0 bytes in a dense model, like the next three)
    router_weights: Extent  # f32 [max_rows, K]
    router_counts: Extent  # int32 [nE], rows that chose each expert in the layer just routed
    expert_rows: Extent  # f32 [max_rows, K, E]
    scratch: Extent = NO_SCRATCH  # workspaces of the programs, see `strata.core.workspace`


@dataclass(frozen=True, slots=True)
class WindowBuffers:
    """What a decode window has beside its pass: logits and the sampler's inputs and outputs. V vocabulary size."""

    logits: Extent  # f32 [max_rows of the pass, V]
    params: Extent  # see strata.core.serving.request.pack_sampling: int64 and float64 words, 256 B
    bias: Extent  # f32 [V], added to the logits
    counts: Extent  # int32 [V], times each token was generated in this request
    seen: Extent  # uint8 [V], 1 where the token occurs in the prompt
    terminators: Extent  # uint8 [V], 1 where the token ends a reply (masked until min_tokens are out)
    result: Extent  # int64 [32], see RESULT_BYTES


@dataclass(frozen=True, slots=True)
class EmbedArgs:
    rows: int
    buffers: PassBuffers


@dataclass(frozen=True, slots=True)
class LayerArgs:
    """Of every program of a layer but `experts`. `kv` is the layer's K then V (see `KvFormat`), all positions, for
    `attention`; `state` what the layer remembers of all positions before header.position, for `recurrent`, which leaves
    what it remembers after the rows. None for the programs that do not read it."""

    layer: int
    rows: int
    buffers: PassBuffers
    kv: Extent | None = None
    state: Extent | None = None


@dataclass(frozen=True, slots=True)
class ExpertsArgs:
    """`experts`: which expert ids this launch computes (every chosen row of each), a sorted tuple; None means every
    expert that the router chose, found on the device. `addresses`: int64 [nE], where the blob of each expert of this
    layer may be read now: an arena address or a place in the pack. `result`: where the two counters of expert reads
    are kept, None in a prompt chunk."""

    layer: int
    rows: int
    buffers: PassBuffers
    experts: tuple[int, ...] | None
    addresses: Extent
    result: Extent | None = None


@dataclass(frozen=True, slots=True)
class HeadArgs:
    rows: int
    buffers: PassBuffers
    window: WindowBuffers


@dataclass(frozen=True, slots=True)
class SampleArgs:
    """Samples every row, writes the ids to `window.result`, the last one to `buffers.tokens[0]` too, adds each to
    `window.counts` and moves header.position on by `rows`: the next window needs no upload."""

    rows: int
    buffers: PassBuffers
    window: WindowBuffers


ProgramArgs = EmbedArgs | LayerArgs | ExpertsArgs | HeadArgs | SampleArgs
