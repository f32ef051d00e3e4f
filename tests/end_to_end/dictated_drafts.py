"""Drafts that a test dictates, for models of random weights, whose own drafter is hardly ever right; what a drafter
said; and what recurrent state was after each row that stood.

With a prophet the drafter runs as it is; only the token that its head would have chosen is replaced. Where the token
stands is read from the drafter's own header, so a drafter that is one position off drafts nonsense here too.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from strata.core.programs import (
    COMMIT,
    DRAFT_HEAD,
    DRAFT_INPUT,
    RECURRENT,
    CommitArgs,
    DraftHeadArgs,
    DraftInputArgs,
    LayerArgs,
)
from strata.device import Memory, Program

TOKENS_BEHIND = 2
"""The pair (hidden row p, token p + 1) drafts token p + 2."""


@dataclass
class Prophet:
    """Drafts `ids` where `is_right(index)`, else another token, and finds it likely where `is_sure(index)`. `num_right`
    are the drafts that were right."""

    is_right: Callable[[int], bool]
    vocab_size: int
    ids: tuple[int, ...] = ()
    num_right: int = 0
    is_sure: Callable[[int], bool] = lambda index: True

    def change(self, programs: dict[str, Program]) -> dict[str, Program]:
        position = 0

        def draft_input(memory: Memory, args: DraftInputArgs) -> None:
            nonlocal position
            programs[DRAFT_INPUT](memory, args)
            if args.source_header is not None:
                position = int(memory.write(args.buffers.header).view(torch.int64)[0])

        def draft_head(memory: Memory, args: DraftHeadArgs) -> None:
            programs[DRAFT_HEAD](memory, args)
            index = position + args.rows - 1 + TOKENS_BEHIND
            token = self.ids[index] if index < len(self.ids) else 0
            is_right = self.is_right(index)
            self.num_right += is_right
            memory.write(args.token).view(torch.int32)[0] = token if is_right else (token + 1) % self.vocab_size
            memory.write(args.probability).view(torch.float64)[0] = 0.5 if self.is_sure(index) else 0.49

        return {**programs, DRAFT_INPUT: draft_input, DRAFT_HEAD: draft_head}


@dataclass
class Drafted:
    """What the drafter's head said: the logits, and the token; and how likely it found that."""

    said: list[tuple[bytes, int]] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)

    def change(self, programs: dict[str, Program]) -> dict[str, Program]:
        def draft_head(memory: Memory, args: DraftHeadArgs) -> None:
            programs[DRAFT_HEAD](memory, args)
            token = int(memory.write(args.token).view(torch.int32)[0])
            self.said.append((bytes(memory.write(args.draft.logits).numpy()), token))
            self.probabilities.append(float(memory.write(args.probability).view(torch.float64)[0]))

        return {**programs, DRAFT_HEAD: draft_head}


@dataclass
class StateLog:
    """`digests[layer][n]`: of the layer's state when windows had moved it on by n rows since the log was cleared."""

    digests: dict[int, dict[int, str]] = field(default_factory=dict)
    num_rows: dict[int, int] = field(default_factory=dict)
    num_commits: int = 0

    def clear(self) -> None:
        self.digests.clear()
        self.num_rows.clear()

    def change(self, programs: dict[str, Program]) -> dict[str, Program]:
        if COMMIT not in programs:
            return programs

        def recurrent(memory: Memory, args: LayerArgs) -> None:
            programs[RECURRENT](memory, args)
            if args.rows == 1 and args.journal is None:
                assert args.state is not None
                self._note(args.layer, 1, bytes(memory.read(args.state).numpy()))

        def commit(memory: Memory, args: CommitArgs) -> None:
            programs[COMMIT](memory, args)
            self.num_commits += 1
            self._note(args.layer, args.rows, bytes(memory.read(args.state).numpy()))

        return {**programs, RECURRENT: recurrent, COMMIT: commit}

    def _note(self, layer: int, rows: int, state: bytes) -> None:
        self.num_rows[layer] = self.num_rows.get(layer, 0) + rows
        self.digests.setdefault(layer, {})[self.num_rows[layer]] = hashlib.sha256(state).hexdigest()
