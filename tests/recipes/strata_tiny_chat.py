"""Held-out conversations as prompts for the model that comes with strata."""

from pathlib import Path

from recipes.strata_tiny.corpus import Document
from recipes.strata_tiny.free_texts import from_line
from strata.model.gguf.model_file import open_model
from strata.model.text import load_text
from tests.tidy.tree import ROOT

MODEL: Path = ROOT / "strata/models/strata-tiny.Q8_0.gguf"
HELD_OUT: Path = ROOT / "recipes/strata_tiny/made/held_out.jsonl"


def held_out_documents(count: int) -> list[Document]:
    with HELD_OUT.open(encoding="utf-8") as lines:
        documents = [from_line(line) for line, _ in zip(lines, range(count), strict=False)]
    assert len(documents) == count
    return documents


def first_questions(count: int) -> list[tuple[int, ...]]:
    """Of as many conversations, each a prompt of its own."""
    text = load_text(open_model(MODEL).metadata)
    asked = [
        [each for each in document.messages if each["role"] == "user"][:1] for document in held_out_documents(count)
    ]
    return [tuple(text.render_chat(messages)) for messages in asked]


def long_chat(num_tokens: int) -> tuple[int, ...]:
    """One conversation of whole ones, at least so long, that ends with a question."""
    text = load_text(open_model(MODEL).metadata)
    told = [each for document in held_out_documents(64) for each in document.messages if each["role"] != "system"]
    for length in range(1, len(told), 2):
        ids = tuple(text.render_chat(told[:length]))
        if len(ids) >= num_tokens:
            return ids
    raise AssertionError(f"all that is held out has fewer than {num_tokens} tokens")
