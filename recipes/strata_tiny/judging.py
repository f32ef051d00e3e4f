"""What is measured of a trained model in torch: held-out bits per byte, accepted drafts, and the samples they are of.

Replies are written by reading the whole row anew for each token: rows are short, and there is no second form of the
model to be wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from recipes.strata_tiny.network import DEPTHS, Network
from recipes.strata_tiny.packing import Packed

ROW_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class TextLoss:
    nats: float
    tokens: int
    num_bytes: int

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.num_bytes


@torch.no_grad()
def held_out_loss(network: Network, packed: Packed, spelled_bytes: Tensor, *, most_tokens: int, rows: int) -> TextLoss:
    """Over the stream in rows; the first token of a row is not judged. spelled_bytes: int64 [V], 0 for control tokens,
    so that nats spent on them count and bytes do not."""
    device = spelled_bytes.device
    width = min(ROW_TOKENS, len(packed.ids) - 1)
    count = max(1, min(len(packed.ids), most_tokens) // width)
    ids = torch.from_numpy(packed.ids[: count * width].astype("int64")).view(count, width).to(device)
    nats, tokens, num_bytes = 0.0, 0, 0
    for some in ids.split(rows):
        logits = network.logits(network.read(some).hidden)[:, :-1]
        target = some[:, 1:]
        nats += float(F.cross_entropy(logits.flatten(0, 1).float(), target.flatten(), reduction="sum"))
        tokens += target.numel()
        num_bytes += int(spelled_bytes[target].sum())
    return TextLoss(nats, tokens, num_bytes)


@torch.no_grad()
def write_replies(
    network: Network, prompts: Sequence[Sequence[int]], *, tokens: int, temperature: float, seeds: Sequence[int]
) -> list[list[int]]:
    """Prompt and reply of each; a reply depends on its own seed alone. Ends of turns are ordinary tokens here."""
    device = network.weights["output.weight"].device
    draws = [torch.Generator(device=device).manual_seed(seed) for seed in seeds]
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    longest = int(lengths.max())
    rows = torch.zeros(len(prompts), longest + tokens, dtype=torch.int64, device=device)
    for index, prompt in enumerate(prompts):
        rows[index, : len(prompt)] = torch.tensor(prompt)
    every = torch.arange(len(prompts), device=device)
    for offset in range(tokens):
        hidden = network.read(rows[:, : longest + offset]).hidden
        logits = network.logits(hidden[every, lengths + offset - 1]).float()
        if temperature:
            chances = (logits / temperature).softmax(-1)
            noise = [torch.empty_like(chances[0]).exponential_(generator=draw) for draw in draws]
            chosen = (chances / torch.stack(noise)).argmax(-1)
        else:
            chosen = logits.argmax(-1)
        rows[every, lengths + offset] = chosen
    return [row[: length + tokens].tolist() for row, length in zip(rows, lengths.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """`accepted[d]` of `drafted[d]` drafts of depth d + 1 were the reply's tokens, where all before them were.
    `steps`: windows that it took to write `tokens` tokens with up to DEPTHS drafts each."""

    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    tokens: int
    steps: int

    @property
    def first(self) -> float:
        return self.accepted[0] / max(1, self.drafted[0])

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / max(1, self.steps)


@torch.no_grad()
def acceptance_of(network: Network, rows: Sequence[Sequence[int]], prompt_lengths: Sequence[int]) -> Acceptance:
    """Of replies that stand in `rows` behind their prompts: greedy drafts, held against the reply's tokens."""
    drafted, accepted = [0] * DEPTHS, [0] * DEPTHS
    tokens = steps = 0
    device = network.weights["output.weight"].device
    for row, length in zip(rows, prompt_lengths, strict=True):
        ids = torch.tensor([row], device=device)
        hidden = network.read(ids).hidden[:, : len(row) - DEPTHS]
        drafts, _ = network.drafts(ids, hidden, DEPTHS)
        guesses = [network.logits(each)[0].argmax(-1).tolist() for each in drafts]
        at = length  # the token that stands behind what is read and accepted; drafts are of at + 1 and on
        while at + DEPTHS < len(row):
            run = 0
            for depth in range(DEPTHS):
                drafted[depth] += 1
                if guesses[depth][at - 1] != row[at + 1 + depth]:
                    break
                accepted[depth] += 1
                run += 1
            at += run + 1
            tokens += run + 1
            steps += 1
    return Acceptance(tuple(drafted), tuple(accepted), tokens, steps)


def most_repeats(ids: Sequence[int], width: int = 4) -> int:
    """How often the commonest run of `width` tokens occurs."""
    counts: dict[tuple[int, ...], int] = {}
    for at in range(len(ids) - width + 1):
        run = tuple(ids[at : at + width])
        counts[run] = counts.get(run, 0) + 1
    return max(counts.values(), default=0)
