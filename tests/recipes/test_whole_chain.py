"""The recipe from seed prompts to a judged file, through its own command line, at sizes of a toy."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from recipes.strata_tiny.__main__ import main
from recipes.strata_tiny.corpus import Document, messages_of
from recipes.strata_tiny.decode_attention import by_products
from recipes.strata_tiny.free_texts import to_line
from recipes.strata_tiny.seeds import scripts_of
from recipes.strata_tiny.smollm2 import SmolLM2
from recipes.strata_tiny.stages import smollm2_tokenizer
from strata.model.architecture import spec_of
from strata.model.gguf.model_file import open_model
from tests.recipes.tiny_writer import write_tiny_writer
from tests.recipes.toy import TEXT

pytestmark = pytest.mark.slow

ROWS, ROW_TOKENS = 4, 400


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_writer(tmp_path_factory.mktemp("writer") / "writer.gguf")


def run(out: Path, stage: str, *words: object) -> None:
    assert main([stage, "--out", str(out), "--device", "cpu", *map(str, words)]) == 0


def test_the_writer_follows_every_script(writer: Path, tmp_path: Path) -> None:
    run(tmp_path, "write", "--smollm2", writer, "--rows", ROWS, "--row-tokens", ROW_TOKENS, "--batches", 1)
    with np.load(tmp_path / "written-0-000.npz") as batch:
        ids, seed = batch["ids"], int(batch["seed"])
    tokenizer = smollm2_tokenizer(writer)
    spelling = [tokenizer.bytes_of(each) for each in range(tokenizer.vocab_size)]
    num_answers = 0
    for row, script in zip(ids, scripts_of(seed, ROWS), strict=True):
        messages = messages_of(row, spelling)
        told = [message for message, _ in messages if message["role"] != "assistant"]
        wanted = [{"role": "system", "content": script.system}]
        wanted += [{"role": "user", "content": turn} for turn in script.turns]
        assert told[: len(told) - 1] == wanted[: len(told) - 1]
        assert [message["role"] for message, _ in messages[1:3]] == ["user", "assistant"][: len(messages) - 1]
        num_answers += sum(message["role"] == "assistant" for message, _ in messages)
    assert num_answers >= ROWS - 1


def test_a_step_reads_what_a_whole_row_reads(writer: Path) -> None:
    """The decoding that writes against the forward pass that judges."""
    model = SmolLM2(writer, device="cpu", dtype=torch.float32)
    ids = torch.randint(3, 300, (2, 12), generator=torch.Generator().manual_seed(1))
    cells, rotary = model.new_cells(2, 12), model.rotary(12)
    losses = []
    for at in range(11):
        logits = model.step(ids[:, at], torch.tensor([at]), at + 1, cells, rotary, by_products)
        losses.append(-logits.log_softmax(-1).gather(1, ids[:, at + 1, None]).squeeze(1))
    assert torch.allclose(torch.stack(losses, 1), model.losses(ids), atol=1e-5)


def documents() -> list[Document]:
    made = []
    for index in range(300):
        word = "".join(chr(97 + (index // 26**place) % 26) for place in range(3))
        asked = {"role": "user", "content": f"What is {word}?"}
        said = {"role": "assistant", "content": f"{word} is a kind of bread. {TEXT}"}
        made.append(Document("toy", word, (asked, said) if index % 2 else (), "" if index % 2 else f"{word}: {TEXT}"))
    return made


def test_from_documents_to_a_judged_file(writer: Path, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "free.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(map(to_line, documents()))
    run(tmp_path, "tokenizer", "--smollm2", writer, "--vocab", 320)
    trained = ("--toy", "--no-compile", "--train-rows", 2, "--train-tokens", 128, "--minutes", 60)
    run(tmp_path, "train", *trained, "--steps", 12)
    run(tmp_path, "train", *trained, "--steps", 24)
    with (tmp_path / "loss.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [int(row["step"]) for row in rows] == list(range(1, 25))
    assert float(rows[-1]["text"]) < float(rows[0]["text"]) - 1
    assert float(rows[-1]["draft_3"]) < float(rows[0]["draft_3"])
    run(tmp_path, "export")
    spec = spec_of(open_model(tmp_path / "strata-tiny.Q8_0.gguf"))
    assert spec.drafter is not None and spec.num_experts == 8
    run(tmp_path, "evaluate", "--smollm2", writer, "--prompts", 3, "--reply-tokens", 12)
    run(tmp_path, "plot")
    run(tmp_path, "collect", "--to", tmp_path / "kept")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    exact, rounded = (metrics[f"held_out_{form}"]["bits_per_byte"] for form in ("F32", "Q8_0"))
    assert 0 < abs(exact - rounded) < 0.05 * exact
    assert metrics["drafts_at_0"]["drafted"][0] > 0
    assert (tmp_path / "loss.svg").read_text().count("<polyline") == 3
    assert (tmp_path / "samples.jsonl").read_text().count("\n") > 0
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["records.tar.gz", "strata-tiny.Q8_0.gguf", "weights-bf16.pt.0"]
