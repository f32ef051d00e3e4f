"""The whole model: trunk, head and drafter over rows of token ids, each kind of block compiled once where asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.strata_tiny.drafter import DraftCells, first_drafts, next_drafts
from recipes.strata_tiny.model import (
    Weights,
    attention_block,
    block_weights,
    linear,
    recurrent_block,
    rms,
    rotary,
)
from recipes.strata_tiny.shape import TinyShape

DEPTHS = 3
"""Drafts behind each token that are trained and judged: what `--spec 4` uses."""


@dataclass(frozen=True, slots=True)
class Read:
    """`hidden`: f32 [B, T, E], behind the output norm; `balance`: mean of the trunk's blocks."""

    hidden: Tensor
    balance: Tensor


class Network:
    """`weights`: see `model`. They are read at every call, so they may be parameters that an optimizer moves."""

    def __init__(self, shape: TinyShape, weights: Weights, *, dtype: torch.dtype, compiles: bool, tokens: int) -> None:
        """`tokens`: the longest row."""
        self.shape, self.weights, self.dtype = shape, weights, dtype
        self.blocks = [block_weights(weights, block) for block in range(shape.layers + 1)]
        self.cosine, self.sine = rotary(shape, tokens + DEPTHS, weights["output_norm.weight"].device)

        def kind(function: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(function, dynamic=False) if compiles else function

        self._recurrent = kind(recurrent_block)
        self._attention = kind(attention_block)
        self._first = kind(first_drafts)
        self._next = kind(next_drafts)
        self._entropy = kind(cross_entropy)
        self._draft_entropy = kind(draft_entropy)

    def read(self, ids: Tensor) -> Read:
        """The trunk over ids [B, T]."""
        shape, tokens = self.shape, ids.shape[1]
        x = F.embedding(ids, self.weights["token_embd.weight"])
        cosine, sine = self.cosine[:tokens], self.sine[:tokens]
        balances = []
        for block in range(shape.layers):
            w = self.blocks[block]
            if shape.is_recurrent(block):
                x, balance = self._recurrent(x, w, shape, self.dtype)
            else:
                x, balance = self._attention(x, w, cosine, sine, shape, self.dtype)
            balances.append(balance)
        return Read(rms(x, self.weights["output_norm.weight"], shape.epsilon), torch.stack(balances).mean())

    def logits(self, hidden: Tensor) -> Tensor:
        """[B, T, V] in the type of matrix products."""
        return linear(hidden, self.weights["output.weight"], self.dtype)

    def drafts(self, ids: Tensor, hidden: Tensor, depths: int) -> tuple[list[Tensor], Tensor]:
        """Normed rows [B, T, E] of each depth, and the balance. ids: [B, >= T + depths], token 0 first; hidden:
        [B, T, E] of the trunk. Row t of depth d drafts token t + d + 1."""
        rows, balance, cells = self.first_drafts(ids, hidden)
        out = [rows]
        for depth in range(2, depths + 1):
            rows, cells = self.next_drafts(ids, rows, cells, depth)
            out.append(rows)
        return out, balance

    def first_drafts(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, DraftCells]:
        tokens = hidden.shape[1]
        embedded = F.embedding(ids[:, 1 : tokens + 1], self.weights["token_embd.weight"])
        place = self.cosine[:tokens], self.sine[:tokens]
        drafted: tuple[Tensor, Tensor, DraftCells] = self._first(
            embedded, hidden, self.blocks[-1], *place, self.shape, self.dtype
        )
        return drafted

    def next_drafts(self, ids: Tensor, rows: Tensor, cells: DraftCells, depth: int) -> tuple[Tensor, DraftCells]:
        tokens, back = rows.shape[1], depth - 1
        embedded = F.embedding(ids[:, depth : depth + tokens], self.weights["token_embd.weight"])
        place = self.cosine[back : back + tokens], self.sine[back : back + tokens]
        drafted: tuple[Tensor, DraftCells] = self._next(
            embedded, rows, cells, self.blocks[-1], *place, self.shape, self.dtype
        )
        return drafted

    def losses(self, ids: Tensor, tokens: int, *, chain_rows: int) -> "Losses":
        """ids: [B, tokens + DEPTHS + 1]; depths above 1 are taken over the first `chain_rows` rows."""
        read = self.read(ids[:, :tokens])
        logits = self.logits(read.hidden)
        text = self._entropy(logits, ids[:, 1 : tokens + 1])
        rows, balance, cells = self.first_drafts(ids, read.hidden)
        drafts = [self._draft_entropy(self.logits(rows), logits.detach(), ids[:, 2 : tokens + 2], 1)]
        if chain_rows:
            few, rows = ids[:chain_rows], rows[:chain_rows]
            cells = DraftCells((cells.keys[0][:chain_rows],), (cells.values[0][:chain_rows],))
            teacher = logits.detach()[:chain_rows]
            for depth in range(2, DEPTHS + 1):
                rows, cells = self.next_drafts(few, rows, cells, depth)
                target = few[:, depth + 1 : depth + 1 + tokens]
                drafts.append(self._draft_entropy(self.logits(rows), teacher, target, depth))
        layers = self.shape.layers
        return Losses(text, tuple(drafts), (layers * read.balance + balance) / (layers + 1))


DRAFT_SHARES = (0.3, 0.15, 0.1)
"""Of the loss of each depth in the sum that is minimized."""
BALANCE_SHARE = 0.01
"""As in Fedus et al. 2021."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over tokens in nats: of the trunk, and of each depth of drafts against text and trunk in equal parts."""

    text: Tensor
    drafts: Sequence[Tensor]
    balance: Tensor

    def total(self) -> Tensor:
        shares = zip(DRAFT_SHARES, self.drafts, strict=False)
        return self.text + sum(share * loss for share, loss in shares) + BALANCE_SHARE * self.balance


def cross_entropy(logits: Tensor, ids: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


def draft_entropy(drafted: Tensor, trunk: Tensor, ids: Tensor, depth: int) -> Tensor:
    """Half against the text, half against what the trunk says `depth` rows on: a draft is accepted when it is the
    trunk's token. Rows whose trunk row lies outside count for the text alone."""
    chances = drafted.float().log_softmax(-1)
    text = F.nll_loss(chances.flatten(0, 1), ids.flatten())
    wanted = trunk[:, depth:].float().softmax(-1)
    return 0.5 * text - 0.5 * (wanted * chances[:, :-depth]).sum(-1).mean()
