"""The one program of a replay on a card: `kernels/triton/fingerprint.py` over what its arguments name.

    row      | number of reads, of writes | offset, size | ...        written by the host before the launch, for good
    lane     | marks so far, room | mark | mark | ...                 written by the card

Both are pinned memory that card and host see, taken before anything runs: whoever allocates while streams are held may
wait for ever. Knows no traces; the arguments have `reads`, `writes` and `lane`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch

from kernels.triton.launch_fingerprint import fingerprint
from strata.core.extent import Extent
from strata.device import Memory, Program, Programs

HEADER_WORDS = 2


class Arguments(Protocol):
    @property
    def reads(self) -> tuple[Extent, ...]: ...

    @property
    def writes(self) -> tuple[Extent, ...]: ...

    @property
    def lane(self) -> str: ...


class Segments(Protocol):
    """How the arena of the arguments lies in the card's."""

    @property
    def segment_bytes(self) -> int: ...

    @property
    def stride_bytes(self) -> int: ...

    def pieces(self, extent: Extent) -> tuple[Extent, ...]: ...


class Fingerprints:
    """`row_words`: of all different rows together, `marks`: the most that each lane will get. `launch` is called as
    `launch_fingerprint.fingerprint` is, and once at the start, so that a kernel is compiled before anything is held."""

    def __init__(
        self,
        segments: Segments,
        *,
        arena_address: int,
        row_words: int,
        marks: Mapping[str, int],
        is_pinned: bool,
        launch: Callable[..., None] = fingerprint,
    ) -> None:
        self._segments, self._arena_address, self._launch_kernel = segments, arena_address, launch
        self._words = torch.zeros(row_words + HEADER_WORDS, dtype=torch.int64, pin_memory=is_pinned)
        self._num_words = HEADER_WORDS  # an empty row comes first
        self._rows: dict[tuple[tuple[Extent, ...], tuple[Extent, ...]], torch.Tensor] = {}
        self._lanes = {
            lane: torch.zeros(HEADER_WORDS + room, dtype=torch.int64, pin_memory=is_pinned)
            for lane, room in marks.items()
        }
        for lane, room in marks.items():
            self._lanes[lane][1] = room
        self._launch(self._words[:HEADER_WORDS], torch.zeros(HEADER_WORDS, dtype=torch.int64, pin_memory=is_pinned))
        if is_pinned:
            torch.cuda.synchronize()

    def programs(self, names: Iterable[str]) -> Programs:
        """The same under each of `names`."""
        program: Program = self._run
        return dict.fromkeys(names, program)

    def found(self) -> dict[str, list[int]]:
        """Marks by lane, once everything is over."""
        marks: dict[str, list[int]] = {}
        for lane, words in self._lanes.items():
            count, room, *rest = words.view(torch.uint64).tolist()
            assert count <= room, f"lane {lane} got {count} marks and has room for {room}"
            marks[lane] = rest[:count]
        return marks

    def _run(self, memory: Memory, args: Arguments) -> None:
        for extent in args.reads:
            for piece in self._segments.pieces(extent):
                memory.read(piece)
        for extent in args.writes:
            for piece in self._segments.pieces(extent):
                memory.write(piece)
        self._launch(self._row(args), self._lanes[args.lane])

    def _launch(self, row: torch.Tensor, lane: torch.Tensor) -> None:
        self._launch_kernel(
            row,
            lane,
            arena_address=self._arena_address,
            segment_bytes=self._segments.segment_bytes,
            stride_bytes=self._segments.stride_bytes,
        )

    def _row(self, args: Arguments) -> torch.Tensor:
        key = args.reads, args.writes
        if key not in self._rows:
            spans = [number for extent in (*key[0], *key[1]) for number in (extent.offset_bytes, extent.size_bytes)]
            words = [len(args.reads), len(args.writes), *spans]
            first, self._num_words = self._num_words, self._num_words + len(words)
            assert self._num_words <= len(self._words), (self._num_words, len(self._words))
            row = self._rows[key] = self._words[first : self._num_words]
            row.copy_(torch.tensor(words, dtype=torch.int64))
        return self._rows[key]
