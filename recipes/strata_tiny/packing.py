"""Documents as one stream of ids, and where each begins.

    stream   | document 0 | <|endoftext|> | document 1 | <|endoftext|> | ...
    starts   0                            ^

A training row begins where a document begins and reads on into those behind it. Epochs draw the starts in new orders,
so every document is the first of a row as often as any other, and all are read equally often.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from recipes.strata_tiny.vocabulary import END_OF_TEXT

BATCH_DOCUMENTS = 4096


@dataclass(frozen=True, slots=True)
class Packed:
    """`ids`: uint16 [tokens]; `starts`: int64 [documents]."""

    ids: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.int64]

    def save(self, path: Path) -> None:
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, ids=self.ids, starts=self.starts)
        part.replace(path)

    @staticmethod
    def load(path: Path) -> "Packed":
        with np.load(path) as stored:
            return Packed(stored["ids"], stored["starts"])


def pack(library: Tokenizer, texts: Sequence[str]) -> Packed:
    """In the order given. Control tokens are seen in the texts."""
    parts: list[npt.NDArray[np.uint16]] = []
    lengths: list[int] = []
    for begin in range(0, len(texts), BATCH_DOCUMENTS):
        for done in library.encode_batch_fast(list(texts[begin : begin + BATCH_DOCUMENTS]), add_special_tokens=False):
            parts.append(np.array([*done.ids, END_OF_TEXT], np.uint16))
            lengths.append(len(parts[-1]))
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return Packed(np.concatenate(parts), starts)


def epochs(num_starts: int, rows: int, seed: int, first_step: int = 0) -> Iterator[npt.NDArray[np.int64]]:
    """Which documents the rows of each step begin with, for ever; the same for the same seed, from any step on."""
    per_epoch = num_starts // rows
    assert per_epoch, f"{num_starts} documents are fewer than {rows} rows"
    step = first_step
    while True:
        epoch = step // per_epoch
        order = np.random.default_rng((seed, epoch)).permutation(num_starts)
        for index in range(step % per_epoch, per_epoch):
            yield order[index * rows : (index + 1) * rows]
        step = (epoch + 1) * per_epoch
