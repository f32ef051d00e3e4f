"""What the finished files are worth, on held-out text: the numbers of the data card, and the samples behind them.

The file is judged, not the checkpoint: weights come out of the GGUF, Q8_0 included, and are computed with in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from recipes.strata_tiny.corpus import Document
from recipes.strata_tiny.judging import ROW_TOKENS, acceptance_of, held_out_loss, most_repeats, write_replies
from recipes.strata_tiny.network import Network
from recipes.strata_tiny.packing import Packed
from recipes.strata_tiny.shape import TinyShape
from recipes.strata_tiny.smollm2 import SmolLM2
from recipes.strata_tiny.vocabulary import render
from strata.model.gguf.model_file import open_model
from strata.model.tokenizer.tokenizer import Tokenizer, load_tokenizer

NUM_SAMPLES, TEMPERATURE = 50, 0.7
MOST_TOKENS = 300_000
Say = Callable[[str], None]


def file_weights(path: Path, device: str) -> dict[str, Tensor]:
    """As trained: float32, log(-ssm_a) in place of ssm_a."""
    weights = {}
    for tensor in gguf.GGUFReader(path).tensors:
        values = torch.from_numpy(np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32))
        weights[tensor.name] = (torch.log(-values) if tensor.name.endswith("ssm_a") else values).to(device)
    return weights


def evaluate(
    files: Mapping[str, Path],
    shape: TinyShape,
    documents: Sequence[Document],
    packed: Packed,
    device: str,
    smollm2: Path | None,
    say: Say,
    *,
    num_prompts: int,
    reply_tokens: int,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """`files` by the name of their form; the last one is judged further. Metrics, and one row a sample."""
    metrics: dict[str, Any] = {}
    tokenizer = load_tokenizer(open_model(next(iter(files.values()))).metadata)
    spelled = torch.tensor([len(tokenizer.bytes_of(each)) for each in range(tokenizer.vocab_size)], device=device)
    for form, path in files.items():
        network = Network(shape, file_weights(path, device), dtype=torch.float32, compiles=False, tokens=ROW_TOKENS)
        loss = held_out_loss(network, packed, spelled, most_tokens=MOST_TOKENS, rows=8)
        metrics[f"held_out_{form}"] = asdict(loss) | {"bits_per_byte": loss.bits_per_byte}
        say(f"{form}: {loss.bits_per_byte:.4f} bits per byte, {loss.nats / loss.tokens:.4f} nats a token")
    chats = [each for each in documents if each.messages and each.kind != "wordnet"][:num_prompts]
    prompts = [_prompt(each, tokenizer) for each in chats]
    replies: list[list[int]] = []
    for temperature in (0.0, TEMPERATURE):
        replies = write_replies(
            network, prompts, tokens=reply_tokens, temperature=temperature, seeds=range(len(prompts))
        )
        found = acceptance_of(network, replies, [len(each) for each in prompts])
        metrics[f"drafts_at_{temperature:g}"] = asdict(found) | {
            "first_draft_acceptance": found.first,
            "tokens_per_step": found.tokens_per_step,
        }
        say(f"temperature {temperature:g}: first drafts {found.first:.3f}, {found.tokens_per_step:.2f} tokens a step")
    samples = _samples(network, tokenizer, chats[:NUM_SAMPLES], prompts[:NUM_SAMPLES], reply_tokens)
    metrics["samples"] = {"most_four_gram_repeats": max(each["four_gram_repeats"] for each in samples)}
    if smollm2 is not None:
        metrics["samples"] |= losses_under_smollm2(samples, chats, smollm2, device)
    say(str(metrics["samples"]))
    return metrics, samples


def _prompt(document: Document, tokenizer: Tokenizer) -> list[int]:
    """Everything up to the first answer."""
    first = next(index for index, each in enumerate(document.messages) if each["role"] == "assistant")
    text = render(document.messages[:first]) + "<|im_start|>assistant\n"
    return tokenizer.encode(text, parse_special=True)


def _answer(document: Document) -> str:
    return next(each["content"] for each in document.messages if each["role"] == "assistant")


def _samples(
    network: Network,
    tokenizer: Tokenizer,
    chats: Sequence[Document],
    prompts: Sequence[Sequence[int]],
    reply_tokens: int,
) -> list[dict[str, Any]]:
    """One a seed, from 1 on, up to the end of its turn or `reply_tokens`."""
    seeds = range(1, len(prompts) + 1)
    rows = write_replies(network, prompts, tokens=reply_tokens, temperature=TEMPERATURE, seeds=seeds)
    found = []
    for seed, chat, prompt, row in zip(seeds, chats, prompts, rows, strict=True):
        ids = row[len(prompt) :]
        ends = [at for at, token in enumerate(ids) if token in tokenizer.end_ids]
        ids = ids[: ends[0]] if ends else ids
        text = b"".join(tokenizer.bytes_of(each) for each in ids).decode("utf-8", "replace")
        asked = next(each["content"] for each in chat.messages if each["role"] == "user")
        found.append(
            {"seed": seed, "asked": asked, "text": text, "tokens": len(ids), "four_gram_repeats": most_repeats(ids)}
        )
    return found


def losses_under_smollm2(
    samples: Sequence[Mapping[str, Any]], chats: Sequence[Document], path: Path, device: str
) -> dict[str, float]:
    """Mean nats a token of SmolLM2's, of texts by themselves: the samples, and as many characters of the answers that
    are held out."""
    judge = SmolLM2(path, device=device, dtype=torch.float32)
    tokenizer = load_tokenizer(open_model(path).metadata)
    size = max(1, sum(len(each["text"]) for each in samples) // max(1, len(samples)))

    def mean(texts: Sequence[str]) -> float:
        nats, tokens = 0.0, 0
        for text in texts:
            ids = [0, *tokenizer.encode(text, parse_special=False)]  # <|endoftext|> begins a document
            if len(ids) > 1:
                losses = judge.losses(torch.tensor([ids], device=device))
                nats, tokens = nats + float(losses.sum()), tokens + losses.numel()
        return nats / max(1, tokens)

    ours = mean([each["text"] for each in samples])
    theirs = mean([_answer(each)[:size] for each in chats])
    return {"samples_nats": ours, "held_out_nats": theirs, "ratio": ours / theirs}
