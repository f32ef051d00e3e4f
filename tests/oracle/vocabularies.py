"""Small vocabularies as GGUF metadata, and one-layer files around them that llama.cpp loads to tokenize with."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_TEXT = "<think>"
CORPUS = (
    """The server reads the prompt, and then it writes the answer one token at a time. It's 12 o'clock, they're here.
def main(argv):\n    for x in range(10):\n        print(x, 'hello', 3.14159)
	return {"a": [1, 2, 3]}\n\n
Was kostet die Welt? Überall übt Öl äußerst süße Späße. L'été à Besançon, où ça? ¿Qué pasó, niño?
日本語の文章です。今日は天気がいい。中文句子,世界你好。 한국어 문장입니다.
Привет, мир! Как дела? مرحبا بالعالم  שלום עולם
नमस्ते दुनिया  👍🏽 👨‍👩‍👧‍👦 e\u0301e\u0301 a\u0308a\u0308 100,000 12345678 ½ ² ٣٤٥
"""
    * 3
)


@lru_cache(maxsize=1)
def _trained() -> tuple[list[str], list[str]]:
    """Tokens and merges of a byte-level BPE learned with a split that lets words hold punctuation and digits."""
    library = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r" ?\S+|\s+(?!\S)|\s+"), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator([CORPUS], trainer)
    vocab = library.get_vocab()
    ordered = sorted(vocab, key=vocab.__getitem__)
    library.model.save(str(_scratch()))
    lines = (_scratch() / "merges.txt").read_text(encoding="utf-8").splitlines()
    return ordered, [line for line in lines if not line.startswith("#version")]


@lru_cache(maxsize=1)
def _scratch() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="strata-vocabulary-"))


def byte_level_metadata(pre_tokenizer: str) -> dict[str, Any]:
    """A learned byte-level BPE with the specials of ChatML and one user-defined token."""
    learned, merges = _trained()
    tokens = [*learned, *SPECIALS, USER_TEXT]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre_tokenizer,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [NORMAL] * len(learned) + [CONTROL] * len(SPECIALS) + [USER_DEFINED],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }


def scored_metadata(*, add_space_prefix: bool | None = None) -> dict[str, Any]:
    """A SentencePiece-style vocabulary made by hand: every character of most words, their beginnings, runs of spaces
    and of `a` with scores that are equal on purpose, so that ties are met."""
    words = [
        "the",
        "server",
        "reads",
        "prompt",
        "and",
        "then",
        "writes",
        "answer",
        "one",
        "token",
        "at",
        "a",
        "time",
        "hello",
        "world",
        "für",
        "Größe",
        "日本",
        "世界",
    ]
    pieces: dict[str, float] = {}
    for word in words:
        for start in range(len(word)):
            for end in range(start + 1, len(word) + 1):
                pieces.setdefault(word[start:end], -float(len(pieces) % 37))
        for end in range(1, len(word) + 1):
            pieces.setdefault("\u2581" + word[:end], -float(len(pieces) % 23))
    for run in ("\u2581\u2581", "\u2581" * 3, "\u2581" * 4, "aa", "aaa", "aab", "baa", "ab", "ba", "abab"):
        pieces.setdefault(run, -5.0)
    pieces.update(dict.fromkeys("▁abcdefghijklmnopqrstuvwxyzé,.!?0123456789<|>_/", -100.0))
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *pieces, "<|im_start|>", USER_TEXT]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(pieces), CONTROL, USER_DEFINED]
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": [0.0] * 259 + list(pieces.values()) + [0.0, 0.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    if add_space_prefix is not None:
        metadata["tokenizer.ggml.add_space_prefix"] = add_space_prefix
    return metadata


def write_vocabulary_file(path: Path, metadata: dict[str, Any]) -> Path:
    """A loadable file of architecture llama with one layer of zeros and `metadata` as its tokenizer."""
    writer = gguf.GGUFWriter(path, "llama")
    hidden, vocab = 32, len(metadata["tokenizer.ggml.tokens"])
    writer.add_context_length(64)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden)
    for key, value in metadata.items():
        kind = gguf.GGUFValueType.UINT32 if key.endswith("_token_id") else gguf.GGUFValueType.get_type(value)
        writer.add_key_value(key, value, kind)
    square = np.zeros((hidden, hidden), np.float32)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(hidden, np.float32))
    writer.add_tensor("token_embd.weight", np.zeros((vocab, hidden), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
