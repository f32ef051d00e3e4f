"""Free texts beside what is written: WordNet 3.0 (Princeton University), whose licence lets anyone use, copy, modify
and distribute it with its notice.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb FOLDER     ->  FOLDER/usr/share/wordnet/data.*

A sense becomes a short talk about a word or a line of a dictionary, with its example sentences. Senses that WordNet
marks as slurs or vulgar are left out, and so are those that nobody ever gave an example of.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from recipes.strata_tiny.corpus import Document

PARTS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
UNWANTED = re.compile(r"offensive|slur|vulgar|obscene|disparag|derogat|taboo|sex|contempt|insult", re.IGNORECASE)
_EXAMPLE = re.compile(r'"([^"]+)"')


def wordnet_documents(folder: Path, *, seed: int) -> Iterator[Document]:
    """`folder` holds data.noun and its like. In the files' order; `seed` draws the forms."""
    draw = Random(seed)
    for file, part in PARTS.items():
        with (folder / f"data.{file}").open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("  "):  # the licence, at the head of every file
                    continue
                fields, _, gloss = line.partition(" | ")
                document = _document(_lemma(fields), part, gloss.strip(), draw)
                if document is not None:
                    yield document


def _lemma(fields: str) -> str:
    """The first word of the set: field 4, with underscores, and in adjectives a mark of position behind it."""
    return fields.split(" ", 5)[4].partition("(")[0].replace("_", " ")


def _document(word: str, part: str, gloss: str, draw: Random) -> Document | None:
    examples = [each.strip() for each in _EXAMPLE.findall(gloss) if len(each.split()) > 2]
    meaning = gloss.partition('; "')[0].strip(" ;")
    if not examples or UNWANTED.search(gloss) or UNWANTED.search(word) or '"' in meaning or not meaning:
        return None
    sentences = " ".join(each[0].upper() + each[1:].rstrip(".") + "." for each in examples[:3])
    if draw.random() < 0.5:
        return Document("wordnet", word, (), f"{word} ({part}): {meaning}. {sentences}")
    asked = draw.choice(
        (
            f'What does the word "{word}" mean?',
            f'What is the meaning of the {part} "{word}"?',
            f'Use the word "{word}" in a sentence.',
            f'Explain the word "{word}".',
        )
    )
    said = sentences if asked.startswith("Use") else f'The {part} "{word}" means: {meaning}. For example: {sentences}'
    return Document("wordnet", word, ({"role": "user", "content": asked}, {"role": "assistant", "content": said}), "")


def to_line(document: Document) -> str:
    fields = {"kind": document.kind, "key": document.key, "messages": document.messages, "text": document.text}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def from_line(line: str) -> Document:
    fields = json.loads(line)
    return Document(fields["kind"], fields["key"], tuple(fields["messages"]), fields["text"])
