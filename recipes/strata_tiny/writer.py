"""Writes the corpus: thousands of conversations at once, each following its own script of user turns.

All rows stand at the same position. A row reads a user turn token by token, then its next tokens are sampled until it
ends its turn, then it reads the next user turn, until its script or the row is at an end:

    position      0 .............................................. row_tokens
    row           | system, user turn | written ....... | user turn | written .. | end
    `told`          tokens of script    sampled           script      sampled

No step waits for the host. On a card a step is captured as a graph where attention can read its position there.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor

from recipes.strata_tiny.decode_attention import WAYS, fastest
from recipes.strata_tiny.seeds import Script, scripts_of
from recipes.strata_tiny.smollm2 import SmolLM2
from strata.model.tokenizer.tokenizer import Tokenizer

END_OF_TEXT, IM_START, IM_END = 0, 1, 2
"""Of SmolLM2's vocabulary; the three that end or begin a turn."""
MIN_CHANCE = 0.05
"""Tokens less likely than this part of the likeliest one are never sampled (min-p)."""
TEMPERATURES = (0.6, 0.95)
"""Of a row: evenly drawn between the two."""


@dataclass(frozen=True, slots=True)
class Told:
    """Scripts as ids. `ids`: int64 [rows, most ids]; `ends`: int64 [rows, most turns + 1], where each row's turns end
    in it, the last one repeated; `turns`: int64 [rows]."""

    ids: Tensor
    ends: Tensor
    turns: Tensor

    @staticmethod
    def of(scripts: Sequence[Script], tokenizer: Tokenizer, device: str) -> "Told":
        rows = [[tokenizer.encode(text, parse_special=True) for text in turn_texts(script)] for script in scripts]
        most = max(sum(map(len, turns)) for turns in rows)
        widest = max(map(len, rows))
        ids = torch.zeros(len(rows), most, dtype=torch.int64)
        ends = torch.zeros(len(rows), widest + 1, dtype=torch.int64)
        for row, turns in enumerate(rows):
            flat = [token for turn in turns for token in turn]
            ids[row, : len(flat)] = torch.tensor(flat)
            bounds = np.cumsum([len(turn) for turn in turns])
            ends[row] = torch.tensor([*bounds, *[bounds[-1]] * (widest + 1 - len(turns))])
        counts = torch.tensor([len(turns) for turns in rows])
        return Told(ids.to(device), ends.to(device), counts.to(device))


def turn_texts(script: Script) -> list[str]:
    """What is told before each written turn, in SmolLM2's chat form."""
    system = f"<|im_start|>system\n{script.system}<|im_end|>\n"
    asked = [f"<|im_start|>user\n{turn}<|im_end|>\n<|im_start|>assistant\n" for turn in script.turns]
    return [system + asked[0], *("\n" + turn for turn in asked[1:])]


class Rows:
    """State of all rows on the card: everything that a step changes is changed in place."""

    def __init__(self, told: Told, row_tokens: int, temperatures: Tensor) -> None:
        rows, device = told.ids.shape[0], told.ids.device

        def filled(value: int) -> Tensor:
            return torch.full((rows,), value, dtype=torch.int64, device=device)

        self.told, self.temperatures = told, temperatures
        self.token, self.read, self.turn = told.ids[:, 0].clone(), filled(1), filled(0)
        self.is_done = torch.zeros(rows, dtype=torch.bool, device=device)
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.written = torch.zeros(rows, row_tokens, dtype=torch.int32, device=device)

    def restart(self, told: Told, temperatures: Tensor) -> None:
        """In the same memory; `told` has the shapes of before."""
        for mine, theirs in ((self.told.ids, told.ids), (self.told.ends, told.ends), (self.told.turns, told.turns)):
            mine.copy_(theirs)
        self.temperatures.copy_(temperatures)
        self.token.copy_(told.ids[:, 0])
        self.read.fill_(1)
        for each in (self.turn, self.is_done, self.position, self.written):
            each.zero_()

    def advance(self, logits: Tensor) -> None:
        """The tokens just read are noted, the next ones chosen. logits: [rows, V]."""
        self.written.index_copy_(1, self.position, self.token.int().unsqueeze(1))
        told = self.told
        sampled = sample(logits, self.temperatures).clamp(min=IM_END)  # the control tokens below end a turn as well
        is_told = self.read < told.ends.gather(1, self.turn.unsqueeze(1)).squeeze(1)
        from_script = told.ids.gather(1, self.read.clamp(max=told.ids.shape[1] - 1).unsqueeze(1)).squeeze(1)
        ends_turn = ~is_told & ~self.is_done & (sampled == IM_END)
        free = sampled.masked_fill(self.is_done, END_OF_TEXT)
        self.token.copy_(torch.where(is_told & ~self.is_done, from_script, free))
        self.read.add_((is_told & ~self.is_done).long())
        self.turn.add_(ends_turn.long()).clamp_(max=told.ends.shape[1] - 1)
        self.is_done.logical_or_(ends_turn & (self.turn >= told.turns))
        self.position.add_(1)


def sample(logits: Tensor, temperatures: Tensor) -> Tensor:
    """int64 [rows]: min-p, then by exponential noise, which needs no sum (Gumbel's trick)."""
    chances = logits.float() / temperatures.unsqueeze(1)
    chances = chances.sub_(chances.amax(1, keepdim=True)).exp_()
    chances.masked_fill_(chances < MIN_CHANCE, 0.0)
    return chances.div_(torch.empty_like(chances).exponential_()).argmax(1)


Say = Callable[[str], None]


class Writer:
    def __init__(self, model: SmolLM2, tokenizer: Tokenizer, *, rows: int, row_tokens: int, say: Say) -> None:
        self.model, self.tokenizer, self.rows, self.row_tokens, self.say = model, tokenizer, rows, row_tokens, say
        self.cells, self.rotary = model.new_cells(rows, row_tokens), model.rotary(row_tokens)
        is_card = model.device.startswith("cuda")
        sizes = model.sizes
        way = (
            fastest(rows * sizes.kv_heads, row_tokens, sizes.group, model.head_dim, model.device, say)
            if is_card
            else "products"
        )
        self.attention, self.wants_graph = WAYS[way], is_card and way == "kernel"
        self.state: Rows | None = None
        self.graph: torch.cuda.CUDAGraph | None = None

    def told(self, seed: int) -> Told:
        """What a batch is asked, on the CPU: work for another thread while the card writes the batch before."""
        return _of_fixed_shape(Told.of(scripts_of(seed, self.rows), self.tokenizer, "cpu"), self.row_tokens)

    @torch.no_grad()
    def write(self, told: Told, draw: Random) -> np.ndarray:
        """int32 [rows, row_tokens]: every row's ids; END_OF_TEXT behind its end."""
        device = self.model.device
        told = Told(told.ids.to(device), told.ends.to(device), told.turns.to(device))
        temperatures = torch.tensor([draw.uniform(*TEMPERATURES) for _ in range(self.rows)], device=device)
        if self.state is None:
            self.state = Rows(told, self.row_tokens, temperatures)
            if self.wants_graph:
                self._capture(self.state)
        self.state.restart(told, temperatures)
        for tokens in range(1, self.row_tokens + 1):
            if self.graph is not None:
                self.graph.replay()
            else:
                self._step(self.state, tokens)
        written: np.ndarray = self.state.written.cpu().numpy()
        return written

    def _step(self, state: Rows, tokens: int) -> None:
        logits = self.model.step(state.token, state.position, tokens, self.cells, self.rotary, self.attention)
        state.advance(logits)

    def _capture(self, state: Rows) -> None:
        """A step as a graph; without one every step is launched from the host, which is slower, and is said."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for tokens in (1, 2):
                self._step(state, tokens)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._step(state, 1)
        except RuntimeError as failure:
            self.say(f"no graph of a step, steps are launched one by one: {failure}")
            return
        self.graph = graph
        self.say("a step is one graph")


def _of_fixed_shape(told: Told, row_tokens: int) -> Told:
    """Scripts of any batch in tensors of one shape: what lies behind a row's end is never read."""
    turns = 12
    assert told.ends.shape[1] <= turns, told.ends.shape
    ids = told.ids[:, :row_tokens]
    ids = torch.nn.functional.pad(ids, (0, row_tokens - ids.shape[1]))
    ends = torch.cat([told.ends, told.ends[:, -1:].expand(-1, turns - told.ends.shape[1])], 1)
    return Told(ids, ends, told.turns)


def write_shard(writer: Writer, folder: Path, *, shard: int, until_s: float, most_batches: int, say: Say) -> None:
    """Batches until `until_s` of the monotonic clock, at least one, each under a name of its own; a batch that is there
    is not written again."""
    paths = {(shard << 16) + batch: folder / f"written-{shard}-{batch:03d}.npz" for batch in range(most_batches)}
    seeds = [seed for seed, path in paths.items() if not path.exists()]
    longest_s = 0.0
    with ThreadPoolExecutor(1) as aside:
        ahead = [aside.submit(writer.told, seed) for seed in seeds[:1]]
        for index, seed in enumerate(seeds):
            started_s = time.monotonic()
            if index and started_s + longest_s > until_s:
                break
            told = ahead.pop().result()
            ahead += [aside.submit(writer.told, later) for later in seeds[index + 1 : index + 2]]
            torch.manual_seed(seed)
            written = writer.write(told, Random(seed))
            _save(paths[seed], written, seed)
            took_s = time.monotonic() - started_s
            longest_s = max(longest_s, took_s)
            used = int((written != END_OF_TEXT).sum())
            say(f"{paths[seed].name}: {used:,} tokens in {took_s:.1f} s, {used / took_s:,.0f} tok/s")


def _save(path: Path, written: np.ndarray, seed: int) -> None:
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, ids=written.astype(np.uint16), seed=seed)
    part.replace(path)
