"""What each stage reads and leaves in the folder --out. Decides nothing that another module could."""

import argparse
import gzip
import io
import json
import multiprocessing
import random
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recipes.strata_tiny.corpus import Document, documents_of_batch, sample_lines, statistics_of
from recipes.strata_tiny.free_texts import from_line, to_line, wordnet_documents
from recipes.strata_tiny.packing import Packed, pack
from recipes.strata_tiny.shape import TinyShape
from recipes.strata_tiny.vocabulary import learn, read_vocabulary
from strata.model.gguf.model_file import open_model
from strata.model.tokenizer.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from recipes.strata_tiny.train import Settings

Say = Callable[[str], None]
Stage = Callable[[argparse.Namespace, Say, float], None]

FREE = "free.jsonl.gz"
VOCABULARY = "tokenizer.json"
PACKED, HELD_OUT, HELD_OUT_TEXTS = "packed.npz", "held_out.npz", "held_out.jsonl"
F32_FILE, Q8_FILE = "strata-tiny.F32.gguf", "strata-tiny.Q8_0.gguf"
LEARNED_CHARS = 40_000_000
"""The vocabulary is learned from so much of the corpus."""
SAMPLE_BYTES = 1_000_000


def free(options: argparse.Namespace, say: Say, began_s: float) -> None:
    with gzip.open(options.out / FREE, "wt", encoding="utf-8") as file:
        count = sum(bool(file.write(to_line(each))) for each in wordnet_documents(options.wordnet, seed=1))
    say(f"{count:,} documents")


def write(options: argparse.Namespace, say: Say, began_s: float) -> None:
    import torch

    from recipes.strata_tiny.smollm2 import SmolLM2
    from recipes.strata_tiny.writer import Writer, write_shard

    is_card = options.device.startswith("cuda")
    if is_card:
        torch.cuda.set_device(options.device)
    model = SmolLM2(options.smollm2, device=options.device, dtype=torch.bfloat16 if is_card else torch.float32)
    say("SmolLM2 is loaded")
    tokenizer = smollm2_tokenizer(options.smollm2)
    writer = Writer(model, tokenizer, rows=options.rows, row_tokens=options.row_tokens, say=say)
    write_shard(
        writer,
        options.out,
        shard=options.shard,
        until_s=began_s + options.seconds,
        most_batches=options.batches,
        say=say,
    )


def smollm2_tokenizer(path: Path) -> Tokenizer:
    return load_tokenizer(open_model(path).metadata)


def tokenizer(options: argparse.Namespace, say: Say, began_s: float) -> None:
    if (options.out / PACKED).exists():
        say(f"{PACKED} is there")
        return
    documents = _documents(options.out, options.smollm2, say)
    random.Random(1).shuffle(documents)
    held_out = [each for each in documents if each.is_held_out]
    trained = [each for each in documents if not each.is_held_out]
    texts = [each.rendered() for each in trained]
    say(f"{len(texts):,} documents to train on, {sum(map(len, texts)):,} characters; {len(held_out):,} held out")
    sample, size = [], 0
    for text in texts:
        sample.append(text)
        size += len(text)
        if size > LEARNED_CHARS:
            break
    library = learn(sample, size=options.vocab)
    library.save(str(options.out / VOCABULARY))
    say(f"a vocabulary of {library.get_vocab_size():,} tokens is learned")
    (options.out / "corpus_sample.txt").write_text("".join(sample_lines(trained, SAMPLE_BYTES)), encoding="utf-8")
    (options.out / HELD_OUT_TEXTS).write_text("".join(map(to_line, held_out)), encoding="utf-8")
    pack(library, [each.rendered() for each in held_out]).save(options.out / HELD_OUT)
    packed = pack(library, texts)
    counts: dict[str, Any] = {
        "documents": len(texts),
        "characters": sum(map(len, texts)),
        "tokens": len(packed.ids),
        "held_out_documents": len(held_out),
        "kinds": statistics_of(trained),
    }
    (options.out / "corpus.json").write_text(json.dumps(counts, indent=1), encoding="utf-8")
    packed.save(options.out / PACKED)
    say(json.dumps(counts))


def _documents(folder: Path, smollm2: Path, say: Say) -> list[Document]:
    """In the order of the files' names."""
    spelled = smollm2_tokenizer(smollm2)
    spelling = [spelled.bytes_of(each) for each in range(spelled.vocab_size)]
    batches = sorted(folder.glob("written-*.npz"))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        made = pool.map(partial(documents_of_batch, spelling=spelling), batches)
        documents = [document for batch in made for document in batch]
    say(f"{len(documents):,} documents of {len(batches)} batches")
    if (folder / FREE).exists():
        with gzip.open(folder / FREE, "rt", encoding="utf-8") as file:
            documents += [from_line(line) for line in file]
    return documents


def train(options: argparse.Namespace, say: Say, began_s: float) -> None:
    from recipes.strata_tiny.train import train as run

    vocabulary = read_vocabulary(options.out / VOCABULARY)
    shape = replace(TOY if options.toy else TinyShape(), vocab=len(vocabulary.tokens))
    run(options.out, Packed.load(options.out / PACKED), shape, _settings(options), options.device, say)


def warm(options: argparse.Namespace, say: Say, began_s: float) -> None:
    """A training on noise: what it compiles is in the compiler's cache for the real one, and what it says of its speed
    is what the real one will have."""
    import numpy as np

    from recipes.strata_tiny.train import train as run

    shape = replace(TOY if options.toy else TinyShape(), vocab=options.vocab)
    ids = np.random.default_rng(1).integers(0, shape.vocab, 40 * options.train_tokens, np.uint16)
    starts = np.arange(0, 32 * options.train_tokens, options.train_tokens // 64)
    with tempfile.TemporaryDirectory(prefix="warm-", dir=options.out) as folder:
        settings = replace(_settings(options), max_steps=options.steps or 60)
        run(Path(folder), Packed(ids, starts), shape, settings, options.device, say)


def _settings(options: argparse.Namespace) -> "Settings":
    from recipes.strata_tiny.train import Settings

    return Settings(
        minutes=options.minutes,
        rows=options.train_rows,
        row_tokens=options.train_tokens,
        chain_rows=max(1, options.train_rows // 8),
        compiles=not options.no_compile,
        max_steps=options.steps,
        uses_muon=options.optimizer == "muon",
    )


TOY = TinyShape(
    hidden=64,
    layers=4,
    interval=2,
    head_dim=32,
    rope_dims=8,
    head_width=32,
    experts=8,
    used=2,
    shared_ffn=32,
    context=512,
)
"""What a CPU trains in seconds."""


def export(options: argparse.Namespace, say: Say, began_s: float) -> None:
    from recipes.strata_tiny.export import write_gguf
    from recipes.strata_tiny.train import load_weights

    shape, weights = load_weights(options.out, "cpu")
    arrays = {name: value.float().numpy() for name, value in weights.items()}
    vocabulary = read_vocabulary(options.out / VOCABULARY)
    for name, is_q8 in ((F32_FILE, False), (Q8_FILE, True)):
        write_gguf(options.out / name, shape, arrays, vocabulary, is_q8=is_q8)
        say(f"{name}: {(options.out / name).stat().st_size:,} bytes")


def evaluate(options: argparse.Namespace, say: Say, began_s: float) -> None:
    import torch

    from recipes.strata_tiny.evaluation import evaluate as judge
    from recipes.strata_tiny.train import load_weights

    torch.set_float32_matmul_precision("highest")
    shape, _ = load_weights(options.out, "cpu")
    files = {"F32": options.out / F32_FILE, "Q8_0": options.out / Q8_FILE}
    documents, packed = _held_out(options.out), Packed.load(options.out / HELD_OUT)
    metrics, samples = judge(
        files,
        shape,
        documents,
        packed,
        options.device,
        options.smollm2,
        say,
        num_prompts=options.prompts,
        reply_tokens=options.reply_tokens,
    )
    metrics["bytes"] = {form: path.stat().st_size for form, path in files.items()}
    lines = (json.dumps(each, ensure_ascii=False) + "\n" for each in samples)
    (options.out / "samples.jsonl").write_text("".join(lines), encoding="utf-8")
    (options.out / "metrics.json").write_text(json.dumps(metrics, indent=1), encoding="utf-8")


def plot(options: argparse.Namespace, say: Say, began_s: float) -> None:
    from recipes.strata_tiny.plot import draw

    draw(options.out / "loss.csv", options.out / "loss.svg")


def _held_out(folder: Path) -> list[Document]:
    with (folder / HELD_OUT_TEXTS).open(encoding="utf-8") as file:
        return [from_line(line) for line in file]


RECORDS = (
    "loss.csv",
    "loss.svg",
    "metrics.json",
    "samples.jsonl",
    "corpus.json",
    "corpus_sample.txt",
    HELD_OUT_TEXTS,
    HELD_OUT,
    VOCABULARY,
)
PART_BYTES = 15 << 20


def collect(options: argparse.Namespace, say: Say, began_s: float) -> None:
    """What is worth keeping, in few files of at most 15 MiB: the served form, the weights in bfloat16 for whoever wants
    to train on, and the records in one archive."""
    import torch

    from recipes.strata_tiny.train import load_weights

    options.to.mkdir(parents=True, exist_ok=True)
    with tarfile.open(options.to / "records.tar.gz", "w:gz") as archive:
        for name in RECORDS:
            if (options.out / name).exists():
                archive.add(options.out / name, name)
    if (options.out / Q8_FILE).exists():
        shutil.copy(options.out / Q8_FILE, options.to / Q8_FILE)
    _, weights = load_weights(options.out, "cpu")
    stored = io.BytesIO()
    torch.save({name: value.bfloat16() for name, value in weights.items()}, stored)
    data = stored.getvalue()
    for index, start in enumerate(range(0, len(data), PART_BYTES)):
        (options.to / f"weights-bf16.pt.{index}").write_bytes(data[start : start + PART_BYTES])
    for path in sorted(options.to.iterdir()):
        say(f"{path.name}: {path.stat().st_size:,} bytes")


STAGES: dict[str, Stage] = {
    "free": free,
    "write": write,
    "tokenizer": tokenizer,
    "warm": warm,
    "train": train,
    "export": export,
    "evaluate": evaluate,
    "plot": plot,
    "collect": collect,
}
