"""What `strata bench` measured, as figures: rates with their spread, and how near they are to what the machine could do
at best. Pure.

The *floor* of a prompt is the larger of two times: its copies at the link's rate, and its products at the matrix
units' rate. That of a decoded token is the time to read its bytes once: experts that are not resident over the link,
the rest in the card's own memory. `share` is floor / time: 1 cannot be beaten by this way to serve.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from strata.model.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured in the same run: bytes, bytes and operations a second."""

    link_bytes_s: float
    memory_bytes_s: float
    matrix_flops_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """One request. `prompt_s` ends when the first token is there, `decode_s` begins there, and the second token comes
    `second_s` behind the first. Of the prompt: bytes copied to the card, `room_bytes` of them home into the block, and
    how it was read, in chunks or by windows of `read_rows`. Of what was lent for it: segments moved away, bytes copied
    home, and how long the host took to bring all of it home and to know it. Of the windows behind: expert reads from
    the card (`num_hits`) and over the link (`num_misses`)."""

    prompt_tokens: int
    fresh_tokens: int
    generated: int
    prompt_s: float
    decode_s: float
    copied_bytes: int
    room_bytes: int
    chunk_tokens: int
    ring_slots: int
    room_slots: int
    read_rows: int
    num_hits: int
    num_misses: int
    num_windows: int
    num_drafts: int
    num_drafts_accepted: int
    second_s: float = 0.0
    moved_segments: int = 0
    home_bytes: int = 0
    reclaim_s: float = 0.0
    ids: tuple[int, ...] = ()

    @property
    def prompt_tok_s(self) -> float:
        return self.fresh_tokens / self.prompt_s

    @property
    def decode_tok_s(self) -> float:
        return (self.generated - 1) / self.decode_s


@dataclass(frozen=True, slots=True)
class ModelWork:
    """`token_flops` of one token through the trunk, attention over other tokens left out; `window_bytes` that a window
    reads beside routed experts; `blob_bytes` of one expert, the mean."""

    token_flops: float
    window_bytes: int
    blob_bytes: float


def work_of(spec: ModelSpec, *, window_bytes: int) -> ModelWork:
    """Two operations for each weight that a token meets: all but embedding and head, and the experts it is sent to."""
    outside = ("token_embd.weight", spec.output_name)
    dense = sum(rows_by_columns(t.shape) for name, t in spec.dense.items() if name not in outside and len(t.shape) > 1)
    blobs = [blob for blob in spec.blobs if blob is not None]
    experts = sum(part.rows * part.columns for blob in blobs for part in (blob.gate, blob.up, blob.down))
    blob_bytes = statistics.mean(blob.size_bytes for blob in blobs) if blobs else 0.0
    return ModelWork(2.0 * (dense + spec.num_experts_used * experts), window_bytes, blob_bytes)


def rows_by_columns(shape: Sequence[int]) -> int:
    first, second, *_ = shape
    return first * second


def prompt_floor_s(served: Served, work: ModelWork, ceilings: Ceilings) -> float:
    link_s = served.copied_bytes / ceilings.link_bytes_s
    return max(link_s, served.fresh_tokens * work.token_flops / ceilings.matrix_flops_s)


def decode_floor_s(served: Served, work: ModelWork, ceilings: Ceilings) -> float:
    """Of all windows behind the first: their reads of one look at the card's counters each."""
    link_s = served.num_misses * work.blob_bytes / ceilings.link_bytes_s
    card_bytes = served.num_hits * work.blob_bytes + served.num_windows * work.window_bytes
    return link_s + card_bytes / ceilings.memory_bytes_s


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one figure over the rounds."""

    minimum: float
    median: float
    maximum: float

    def __str__(self) -> str:
        return " / ".join(_short(value) for value in (self.minimum, self.median, self.maximum))


def spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), statistics.median(values), max(values))


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def prompt_figures(rounds: Sequence[Served], work: ModelWork, ceilings: Ceilings | None) -> dict[str, Any]:
    """Of rounds of one prompt length in one arm."""
    first = rounds[0]
    figures: dict[str, Any] = {
        "prompt_tokens": first.prompt_tokens,
        "generated": first.generated,
        "rounds": len(rounds),
        "chunk_tokens": first.chunk_tokens,
        "ring_slots": first.ring_slots,
        "room_slots": first.room_slots,
        "prompt_tok_s": spread([served.prompt_tok_s for served in rounds]),
        "ttft_ms": spread([served.prompt_s * 1e3 for served in rounds]),
        "decode_tok_s": spread([served.decode_tok_s for served in rounds]),
        "copied_gb": spread([served.copied_bytes / 1e9 for served in rounds]),
        "residency": spread([residency(served) for served in rounds]),
        "drafts": sum(served.num_drafts for served in rounds),
        "drafts_accepted": sum(served.num_drafts_accepted for served in rounds),
        **_home_figures(rounds, ceilings),
    }
    if ceilings is not None:
        figures |= {
            "prompt_share": spread([prompt_floor_s(served, work, ceilings) / served.prompt_s for served in rounds]),
            "decode_share": spread([decode_floor_s(served, work, ceilings) / served.decode_s for served in rounds]),
        }
    return figures


def residency(served: Served) -> float:
    """Share of the windows' expert reads that the card itself could serve; 1 without experts."""
    reads = served.num_hits + served.num_misses
    return served.num_hits / reads if reads else 1.0


def _home_figures(rounds: Sequence[Served], ceilings: Ceilings | None) -> dict[str, Any]:
    """The way home of what was lent, and with ceilings what it took beyond its bytes at the link's rate. It may run
    beside the first window, so that `beyond` counts what of it a client could see at most."""
    if not any(served.home_bytes for served in rounds):
        return {}
    figures: dict[str, Any] = {
        "moved_segments": rounds[0].moved_segments,
        "home_gb": spread([served.home_bytes / 1e9 for served in rounds]),
        "reclaim_ms": spread([served.reclaim_s * 1e3 for served in rounds]),
    }
    if ceilings is not None:
        beyond_s = [served.reclaim_s - served.home_bytes / ceilings.link_bytes_s for served in rounds]
        figures["beyond_ms"] = spread([seconds * 1e3 for seconds in beyond_s])
    return figures


def against_figures(rounds: Sequence[Served], others: Sequence[Served]) -> dict[str, Any]:
    """How much later than in another arm a client has its first and its second token: of each round the difference of
    the two, which were served one after the other."""
    pairs = list(zip(rounds, others, strict=True))
    return {
        "rounds": len(pairs),
        "first_token_ms": spread([1e3 * (a.prompt_s - b.prompt_s) for a, b in pairs]),
        "second_token_ms": spread([1e3 * (a.prompt_s + a.second_s - b.prompt_s - b.second_s) for a, b in pairs]),
        "decode_share": spread([a.decode_tok_s / b.decode_tok_s - 1 for a, b in pairs]),
    }


def turn_figures(rounds: Sequence[Served], ceilings: Ceilings | None = None) -> dict[str, Any]:
    """Of rounds of one turn of a chat in one arm."""
    first = rounds[0]
    return {
        "prompt_tokens": first.prompt_tokens,
        "fresh_tokens": first.fresh_tokens,
        "rounds": len(rounds),
        "chunk_tokens": first.chunk_tokens,
        "read_rows": first.read_rows,
        "ring_slots": first.ring_slots,
        "room_slots": first.room_slots,
        "ttft_ms": spread([served.prompt_s * 1e3 for served in rounds]),
        "copied_mib": spread([served.copied_bytes / 2**20 for served in rounds]),
        "room_mib": spread([served.room_bytes / 2**20 for served in rounds]),
        "decode_tok_s": spread([served.decode_tok_s for served in rounds]),
        "drafts": sum(served.num_drafts for served in rounds),
        "drafts_accepted": sum(served.num_drafts_accepted for served in rounds),
        **_home_figures(rounds, ceilings),
    }


def as_json(figures: dict[str, Any]) -> dict[str, Any]:
    """Spreads as objects of three numbers."""
    return {name: asdict(value) if isinstance(value, Spread) else value for name, value in figures.items()}


def lines_of(rows: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """A block a row: its name, then what it has, spreads as min / median / max."""
    for name, figures in rows:
        yield name
        for key, value in figures.items():
            yield f"  {key:<16} {value if isinstance(value, Spread) else f'{value:,}'}"
