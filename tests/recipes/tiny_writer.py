"""A random model of architecture llama with the toy vocabulary: what stands in for SmolLM2 where only form counts."""

from pathlib import Path

import gguf
import numpy as np

from recipes.strata_tiny.vocabulary import CHAT_TEMPLATE, SPECIALS, vocabulary_of
from tests.recipes.toy import toy_tokenizer

WIDTH, HEADS, KV_HEADS, FFN, LAYERS = 32, 4, 2, 48, 2


def write_tiny_writer(path: Path) -> Path:
    draw = np.random.default_rng(4)
    vocabulary = vocabulary_of(toy_tokenizer())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e4)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([3] * len(SPECIALS) + [1] * (len(vocabulary.tokens) - len(SPECIALS)))
    writer.add_token_merges(list(vocabulary.merges))
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)

    def add(name: str, *size: int) -> None:
        values = np.ones(size) if len(size) == 1 else draw.standard_normal(size) / np.sqrt(size[-1])
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))

    add("token_embd", len(vocabulary.tokens), WIDTH)
    add("output_norm", WIDTH)
    key = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm", WIDTH)
        add(f"{block}.ffn_norm", WIDTH)
        for role, rows in (("q", WIDTH), ("k", key), ("v", key), ("output", WIDTH)):
            add(f"{block}.attn_{role}", rows, WIDTH)
        for role in ("gate", "up"):
            add(f"{block}.ffn_{role}", FFN, WIDTH)
        add(f"{block}.ffn_down", WIDTH, FFN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
