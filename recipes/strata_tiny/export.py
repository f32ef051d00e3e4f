"""Weights and vocabulary as a GGUF file of architecture qwen35moe, in float32 or with its matrices in Q8_0.

Q8_0 and nothing finer: what it loses is a thousandth of a nat, so no training for the quantized form is needed. Norms,
routers, the convolution and what lies in rows shorter than a block stay float32, as converters leave them.
"""

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from recipes.strata_tiny.shape import TinyShape, weight_shapes
from recipes.strata_tiny.vocabulary import CHAT_TEMPLATE, END_OF_TEXT, IM_END, PRE_TOKENIZER, SPECIALS, Vocabulary

Array = npt.NDArray[np.float32]
KEPT = ("ffn_gate_inp.weight", "ssm_conv1d.weight")
BLOCK_WEIGHTS = 32


def write_gguf(
    path: Path, shape: TinyShape, weights: Mapping[str, Array], vocabulary: Vocabulary, *, is_q8: bool
) -> None:
    """`weights`: as trained, float32, every name of `weight_shapes`. Appears under its name when it is complete."""
    part = path.with_suffix(".part")
    writer = gguf.GGUFWriter(part, "qwen35moe")
    _add_keys(writer, shape, is_q8=is_q8)
    _add_vocabulary(writer, vocabulary)
    for name, size in weight_shapes(shape).items():
        values = np.ascontiguousarray(-np.exp(weights[name]) if name.endswith("ssm_a") else weights[name], np.float32)
        assert values.shape == size, (name, values.shape, size)
        if is_q8 and is_quantized(name, size):
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(path)


def is_quantized(name: str, size: tuple[int, ...]) -> bool:
    return len(size) > 1 and size[-1] % BLOCK_WEIGHTS == 0 and not name.endswith(KEPT)


def _add_keys(writer: gguf.GGUFWriter, shape: TinyShape, *, is_q8: bool) -> None:
    writer.add_name("strata-tiny")
    writer.add_description("A mixture of 32 experts with a NextN drafter, trained in minutes for demonstrations")
    writer.add_license("apache-2.0")
    writer.add_languages(["en"])
    writer.add_quantization_version(2)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if is_q8 else gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers + 1)
    writer.add_nextn_predict_layers(1)
    writer.add_vocab_size(shape.vocab)
    writer.add_feed_forward_length(shape.used * shape.ffn)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.used)
    writer.add_expert_feed_forward_length(shape.ffn)
    writer.add_expert_shared_feed_forward_length(shape.shared_ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_rope_dimension_count(shape.rope_dims)
    pairs = shape.rope_dims // 2
    writer.add_rope_dimension_sections([pairs - 2 * (pairs // 3), pairs // 3, pairs // 3, 0])
    writer.add_full_attention_interval(shape.interval)
    writer.add_ssm_conv_kernel(shape.taps)
    writer.add_ssm_state_size(shape.head_width)
    writer.add_ssm_group_count(shape.key_heads)
    writer.add_ssm_time_step_rank(shape.value_heads)
    writer.add_ssm_inner_size(shape.value_width)


def _add_vocabulary(writer: gguf.GGUFWriter, vocabulary: Vocabulary) -> None:
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    assert vocabulary.tokens[: len(SPECIALS)] == SPECIALS, vocabulary.tokens[:3]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list(list(vocabulary.tokens))
    writer.add_token_types([control] * len(SPECIALS) + [normal] * (len(vocabulary.tokens) - len(SPECIALS)))
    writer.add_token_merges(list(vocabulary.merges))
    writer.add_bos_token_id(END_OF_TEXT)
    writer.add_eos_token_id(IM_END)
    writer.add_eot_token_id(IM_END)
    writer.add_pad_token_id(END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
