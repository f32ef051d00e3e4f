"""From what was written to documents: conversations and plain prose without what a small model does badly.

Decides what is thrown away (repetition, code, markup, other scripts than Latin, cut sentences) and which documents are
held out: all that were asked the same first question go to the same side, so nothing held out was trained on in other
words. Knows nothing of ids but how they spell.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from recipes.strata_tiny.seeds import Script, scripts_of
from recipes.strata_tiny.vocabulary import render

Message = dict[str, str]

IM_START, IM_END = 1, 2
HELD_OUT_PERCENT = 1
MIN_ANSWER_CHARS = 12
MOST_REPEATS = 3
"""Of the same four words in one answer."""
UNWANTED = re.compile(r"```|https?:|www\.|<\||\\\(|\\\[|\$\$|SmolLM|Hugging ?Face|\[Your|\[your|\[Name|\{|\}|_{3}|\t")
PLAINER = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "–": "-"})


@dataclass(frozen=True, slots=True)
class Document:
    """`messages` of a conversation, or none and plain `text`. `key`: what it was asked first."""

    kind: str
    key: str
    messages: tuple[Message, ...]
    text: str

    def rendered(self) -> str:
        return render(self.messages) if self.messages else self.text

    @property
    def is_held_out(self) -> bool:
        digest = blake2b(self.key.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % 100 < HELD_OUT_PERCENT


def documents_of_batch(path: Path, spelling: Sequence[bytes]) -> list[Document]:
    """Of a file of the writer. `spelling`: the bytes of each id of SmolLM2."""
    with np.load(path) as batch:
        ids, seed = batch["ids"], int(batch["seed"])
    scripts = scripts_of(seed, len(ids))
    made = (document_of(messages_of(row, spelling), script) for row, script in zip(ids, scripts, strict=True))
    return [document for document in made if document is not None]


def messages_of(row: np.ndarray, spelling: Sequence[bytes]) -> list[tuple[Message, bool]]:
    """Every message of a row, and whether it came to its end."""
    starts = np.flatnonzero(row == IM_START)
    ends = np.flatnonzero(row == IM_END)
    found = []
    for start in starts:
        behind = ends[ends > start]
        is_whole = bool(len(behind))
        stop = behind[0] if is_whole else len(row)
        text = b"".join([spelling[each] for each in row[start + 1 : stop]]).decode("utf-8", "replace")
        role, _, content = text.partition("\n")
        found.append(({"role": role, "content": content.translate(PLAINER).strip()}, is_whole))
    return found


def document_of(messages: Sequence[tuple[Message, bool]], script: Script) -> Document | None:
    """The turns up to the first bad answer; None where that is the first."""
    key = script.turns[0]
    if script.is_prose:
        answer, is_whole = messages[2] if len(messages) > 2 else ({"content": ""}, False)
        text = answer["content"] if is_whole else to_last_sentence(answer["content"])
        return Document(script.kind, key, (), text) if is_good(text) else None
    kept = [messages[0][0]] if script.keeps_system else []
    num_answers = 0
    for (asked, _), (answer, is_whole) in zip(messages[1::2], messages[2::2], strict=False):
        if not is_whole or not is_good(answer["content"], at_least=1):
            break
        kept += [asked, answer]
        num_answers += 1
    return Document(script.kind, key, tuple(kept), "") if num_answers else None


def to_last_sentence(text: str) -> str:
    """Without the sentence that was cut off."""
    end = max(text.rfind(mark) for mark in (". ", "! ", "? ", '." ', ".\n"))
    return text[: end + 1] if end > 0 else ""


def is_good(text: str, *, at_least: int = MIN_ANSWER_CHARS) -> bool:
    if len(text) < at_least or UNWANTED.search(text) or "\ufffd" in text:
        return False
    if sum(character > "\u024f" for character in text) > 0.01 * len(text):
        return False
    words = text.lower().split()
    fours = Counter(zip(words, words[1:], words[2:], words[3:], strict=False))
    if not fours:
        return True
    return max(fours.values()) <= MOST_REPEATS and len(fours) >= 0.8 * sum(fours.values())


def statistics_of(documents: Sequence[Document]) -> Mapping[str, int]:
    counts = Counter(f"{each.kind}_{'chat' if each.messages else 'prose'}" for each in documents)
    return dict(sorted(counts.items()))


def sample_lines(documents: Sequence[Document], most_bytes: int) -> Iterator[str]:
    """Documents as people read them, up to so many bytes."""
    size = 0
    for document in documents:
        line = f"{document.rendered()}\n\n"
        size += len(line.encode())
        if size > most_bytes:
            return
        yield line
