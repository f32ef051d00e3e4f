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

The drafter is the layer behind the trunk (`lending.md` 2). It reads, for each token, the trunk's hidden row of the
token before: hidden rows and tokens --draft input--> hidden, then its own layer, then --draft head--> one greedy token,
which the next step takes in with the drafter's own hidden row. While a prompt is read only its K/V are filled:
--draft kv-->.

Cells of rows that are taken back are written anew by whoever comes to their positions. State has no cells, so a window
of several rows leaves it where it is and notes in a *journal* what each row would do to it; `commit` does that for the
rows that were accepted, with the bits that a window of just these rows would have left:

    state(p) --recurrent, rows p..p+T-1--> journal        state(p), journal --commit k rows--> state(p+k)

All numbers are little endian. Activations are float32 on the CPU reference.
"""

from dataclasses import dataclass

from strata.core.extent import Extent

EMBED, ATTENTION, RECURRENT, ROUTER, SHARED = "embed", "attention", "recurrent", "router", "shared"
EXPERTS, COMBINE, FFN, HEAD, SAMPLE, COMMIT = "experts", "combine", "ffn", "head", "sample", "commit"
DRAFT_INPUT, DRAFT_KV, DRAFT_HEAD = "draft input", "draft kv", "draft head"

HEADER_BYTES = 256
"""int64[32]. [0] position of the first row; the rest is zero and reserved."""

RESULT_BYTES = 256
"""int64[32]. [0..7] sampled token id of each row (rows <= 8); [8] expert reads served from VRAM since start,
[9] expert reads served from the pack since start; [10] how many rows were sampled: those accepted, 1 or more;
[16..22] float64, how likely the drafter found each of the tokens that it drafted last; the rest is zero."""

HIT_WORD, MISSED_WORD = 8, 9
"""Words of the result extent that count expert reads, from the card and over the link."""
SAMPLED_WORD = 10
"""Word of the result extent that says how many rows of the window stand."""
PROBABILITY_WORD = 16
"""Word of the result extent of the first draft's probability; those of the others follow."""

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
    next_tokens: Extent = NO_SCRATCH  # int32 [max_rows], the token behind each row; 0 bytes without a drafter
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
    sampled: Extent = NO_SCRATCH  # int32 [max_rows], the sampled ids again; 0 bytes without a drafter
    usage: Extent = NO_SCRATCH  # int32 [num_layers, nE], see ExpertsArgs; 0 bytes where nobody asks


@dataclass(frozen=True, slots=True)
class DraftBuffers:
    """What drafting has beside its own pass."""

    logits: Extent  # f32 [V]
    addresses: Extent  # int64 [nE], where each expert of the block lies: always at home


@dataclass(frozen=True, slots=True)
class EmbedArgs:
    rows: int
    buffers: PassBuffers


@dataclass(frozen=True, slots=True)
class LayerArgs:
    """Of every program of a layer but `experts`. `kv` is the layer's K then V (see `KvFormat`), all positions, for
    `attention` and `draft kv`, which writes the rows' cells and nothing else; `state` what the layer remembers of all
    positions before header.position, for `recurrent`, which leaves what it remembers after the rows, or with a
    `journal` leaves it as it is and notes the rows there. None for the programs that do not read it. `block_runs`: rows
    of a chunk from which a recurrent layer is computed in whole blocks, the first of them 0 (`serving/cuts.py`)."""

    layer: int
    rows: int
    buffers: PassBuffers
    kv: Extent | None = None
    state: Extent | None = None
    journal: Extent | None = None
    block_runs: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class ExpertsArgs:
    """`experts`: which expert ids this launch computes (every chosen row of each), a sorted tuple; None means every
    expert that the router chose, found on the device. `addresses`: int64 [nE], where the blob of each expert of this
    layer may be read now: an arena address or a place in the pack. `result`: where the two counters of expert reads
    are kept, None in a prompt chunk. `usage`: int32 [num_layers, nE], in whose row `layer` each expert that the launch
    reads counts one more, however many rows chose it; 0 bytes where nobody asks."""

    layer: int
    rows: int
    buffers: PassBuffers
    experts: tuple[int, ...] | None
    addresses: Extent
    result: Extent | None = None
    usage: Extent = NO_SCRATCH


@dataclass(frozen=True, slots=True)
class HeadArgs:
    rows: int
    buffers: PassBuffers
    window: WindowBuffers


@dataclass(frozen=True, slots=True)
class SampleArgs:
    """Samples row after row for as long as rows stand: row i + 1 stands when the token sampled for row i is
    `buffers.tokens[i + 1]`, which was drafted, and does not end the reply. Writes the ids to `window.result` and
    `window.sampled`, their number to the result's SAMPLED_WORD, the last one to `buffers.tokens[0]`, adds each to
    `window.counts` and moves header.position on by their number: the next window needs no upload."""

    rows: int
    buffers: PassBuffers
    window: WindowBuffers


@dataclass(frozen=True, slots=True)
class CommitArgs:
    """Moves the state of `layer` on by the first `rows` rows of its journal, which has room for `max_rows`."""

    layer: int
    rows: int
    max_rows: int
    state: Extent
    journal: Extent


@dataclass(frozen=True, slots=True)
class DraftInputArgs:
    """buffers.hidden row i = the projection of token i and hidden row i, for `rows` of them; both are given by extents
    of exactly so many rows. `hidden` is the trunk's as its last layer leaves it, or, where `is_own`, the drafter's, as
    `draft head` left it. `source_header` None: buffers.header is right (a prompt chunk); else header.position becomes
    source_header.position - `behind`, the position of the first pair's hidden row. The last row of `hidden` goes to
    `kept` too, as it is."""

    rows: int
    buffers: PassBuffers
    tokens: Extent
    hidden: Extent
    is_own: bool = False
    source_header: Extent | None = None
    behind: int = 0
    kept: Extent | None = None


@dataclass(frozen=True, slots=True)
class DraftHeadArgs:
    """The most likely token behind the last of `rows`, lowest id first, to `token` (int32), its softmax probability to
    `probability` (float64; 0 where no logit is finite); the normed hidden row of it to row 0 of buffers.hidden, for the
    next step."""

    rows: int
    buffers: PassBuffers
    draft: DraftBuffers
    token: Extent
    probability: Extent


ProgramArgs = EmbedArgs | LayerArgs | ExpertsArgs | HeadArgs | SampleArgs | CommitArgs | DraftInputArgs | DraftHeadArgs
