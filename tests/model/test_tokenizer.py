"""Tokenizers from metadata: what is refused, what ends a reply, and that bytes come back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import ModelError
from strata.model.tokenizer import byte_level
from strata.model.tokenizer.byte_level import PRE_TOKENIZERS
from strata.model.tokenizer.tokenizer import load_tokenizer
from tests.fixtures.vocabulary import END_OF_TEXT, IM_END, IM_START, byte_level_vocabulary
from tests.oracle.vocabularies import BYTE, CONTROL, NORMAL, UNKNOWN, byte_level_metadata, scored_metadata


def metadata_of(pre: str = "gpt-2", **changes: Any) -> dict[str, Any]:
    """A small byte-level vocabulary; `changes` by the last part of a key, None drops it."""
    vocabulary = byte_level_vocabulary(280)
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": list(vocabulary.tokens),
        "tokenizer.ggml.token_type": list(vocabulary.types),
        "tokenizer.ggml.merges": list(vocabulary.merges),
        "tokenizer.ggml.bos_token_id": END_OF_TEXT,
        "tokenizer.ggml.eos_token_id": IM_END,
    }
    metadata |= {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return {key: value for key, value in metadata.items() if value is not None}


def scored_with(**changes: Any) -> dict[str, Any]:
    metadata = scored_metadata() | {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return {key: value for key, value in metadata.items() if value is not None}


TOKENS = list(byte_level_vocabulary(280).tokens)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (metadata_of(model=None), "model is missing"),
        (metadata_of(model=7), "model is a int, want a string"),
        (metadata_of(model="bert"), "'bert' is not supported; supported are gpt2, llama"),
        (metadata_of(pre="tekken"), "'tekken' is not supported; supported are default, glm4, gpt-2, llama-bpe"),
        (metadata_of(tokens=None), "tokens is missing"),
        (metadata_of(tokens=[]), "tokens is empty"),
        (metadata_of(tokens="abc"), "tokens is a str, want an array"),
        (metadata_of(tokens=[*TOKENS[:-1], 7]), "tokens has elements of type int, want str"),
        (metadata_of(tokens=[*TOKENS[:-1], "a"]), "token 'a' appears twice"),
        (metadata_of(token_type=[1] * 279), "token_type has 279 elements, tokenizer.ggml.tokens has 280"),
        (metadata_of(token_type=[1] * 279 + [7]), "token_type has the value 7"),
        (metadata_of(token_type=[1] * 279 + [True]), "elements of type bool, want int"),
        (metadata_of(merges=None), "merges is missing"),
        (metadata_of(merges=["a"]), r"merges\[0\]='a' is not two pieces"),
        (metadata_of(merges=["a "]), r"merges\[0\]='a ' is not two pieces"),
        (metadata_of(merges=["q x"]), r"merges\[0\]='q x' names a piece that is no token"),
        (metadata_of(eos_token_id=280), "eos_token_id=280 is not below the number of tokens 280"),
        (metadata_of(eos_token_id=-2), "eos_token_id=-2"),
        (metadata_of(eot_token_id="x"), "eot_token_id is a str, want an integer"),
        (metadata_of(bos_token_id=True), "bos_token_id is a bool, want an integer"),
        (metadata_of(bos_token_id=None, add_bos_token=True), "bos_token_id is missing"),
        (metadata_of(add_bos_token=1), "add_bos_token is a int, want a bool"),
        (scored_with(scores=None), "scores is missing"),
        (scored_with(scores=[1] * len(scored_metadata()["tokenizer.ggml.tokens"])), "of type int, want float"),
        (scored_with(scores=[0.0]), "scores has 1 elements"),
        (scored_with(scores=[float("nan")] * len(scored_metadata()["tokenizer.ggml.tokens"])), "not finite"),
        (scored_with(token_type=[1] * len(scored_metadata()["tokenizer.ggml.tokens"])), "no byte token <0x00>"),
    ],
)
def test_a_broken_tokenizer_is_refused_by_name(metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load_tokenizer(metadata)


def test_arrays_may_be_numpy() -> None:
    metadata = metadata_of()
    metadata["tokenizer.ggml.token_type"] = np.array(metadata["tokenizer.ggml.token_type"], np.int32)
    assert load_tokenizer(metadata).encode("the", parse_special=False) == [TOKENS.index("the")]


@pytest.mark.slow
@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@given(text=st.text())
def test_byte_level_bytes_come_back(pre: str, text: str) -> None:
    tokenizer = load_tokenizer(metadata_of(pre))
    ids = tokenizer.encode(text, parse_special=False)
    assert b"".join(map(tokenizer.bytes_of, ids)).decode() == text
    assert not {END_OF_TEXT, IM_START, IM_END} & set(ids)


SCORED = load_tokenizer(scored_metadata(add_space_prefix=False))


@given(text=st.text())
def test_scored_bytes_come_back(text: str) -> None:
    ids = SCORED.encode(text, parse_special=False)
    assert b"".join(map(SCORED.bytes_of, ids)).decode() == text.replace("\u2581", " ")


def test_special_text_is_parsed_only_where_asked() -> None:
    tokenizer = load_tokenizer(metadata_of())
    assert tokenizer.encode("<|im_end|>", parse_special=True) == [IM_END]
    plain = tokenizer.encode("<|im_end|>", parse_special=False)
    assert IM_END not in plain and len(plain) > 1
    assert tokenizer.bytes_of(IM_END) == b""


def test_plain_text_never_merges_into_a_control_token() -> None:
    tokens = [*TOKENS[:256], "ab", "abc"]
    types = [NORMAL] * 256 + [NORMAL, CONTROL]
    changes = {"tokens": tokens, "token_type": types, "merges": ["a b", "ab c"], "bos_token_id": 0, "eos_token_id": 0}
    for pre in ("gpt-2", "llama-bpe"):  # llama-bpe takes a whole word first
        ids = load_tokenizer(metadata_of(pre, **changes)).encode("abc", parse_special=False)
        assert ids == [256, tokens.index("c")]


def test_scored_text_never_merges_into_a_control_token() -> None:
    tokens = ["<unk>", "ab", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], "a", "b"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL, NORMAL]
    metadata = scored_with(tokens=tokens, token_type=types, scores=[0.0] * len(tokens), add_space_prefix=False)
    assert load_tokenizer(metadata).encode("ab", parse_special=False) == [259, 260]


def test_bos_goes_in_front_once_and_where_asked() -> None:
    assert load_tokenizer(metadata_of()).with_bos([1]) == (1,)
    assert load_tokenizer(metadata_of("llama-bpe")).with_bos([1]) == (END_OF_TEXT, 1)
    assert load_tokenizer(metadata_of("llama-bpe", add_bos_token=False)).with_bos([1]) == (1,)
    assert load_tokenizer(metadata_of(add_bos_token=True)).with_bos([END_OF_TEXT, 1]) == (END_OF_TEXT, 1)
    assert load_tokenizer(scored_metadata()).with_bos([]) == (1,)


def test_end_ids_are_the_named_ones_and_known_control_tokens() -> None:
    assert load_tokenizer(metadata_of()).end_ids == {END_OF_TEXT, IM_END}
    assert load_tokenizer(metadata_of(eos_token_id=-1, eot_token_id=2**32 - 1)).end_ids == {END_OF_TEXT, IM_END}
    assert load_tokenizer(metadata_of(eot_token_id=5)).end_ids == {5, END_OF_TEXT, IM_END}
    all_normal = metadata_of(token_type=[NORMAL] * 280)
    assert load_tokenizer(all_normal).end_ids == {IM_END}  # by its id; a normal token's text means nothing
    assert load_tokenizer(scored_with(eos_token_id=None)).end_ids == {2}


def words(count: int) -> str:
    return " ".join(f"the{index}\n  in, and" for index in range(count))


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_long_text_in_blocks_has_the_same_ids(pre: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(metadata_of(pre))
    text = words(300) + "a" * 500 + " " * 300 + words(100)
    whole = tokenizer.encode(text, parse_special=False)
    monkeypatch.setattr(byte_level, "_BLOCK_CHARS", 64)
    assert len(list(byte_level._blocks(text))) > 40
    assert tokenizer.encode(text, parse_special=False) == whole


WITH_EACH = {pre: load_tokenizer(byte_level_metadata(pre)) for pre in PRE_TOKENIZERS}


@pytest.mark.slow
@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@given(text=st.text(st.sampled_from("ad 12\n\t\r.,'sSt(é\u0301\u3000日。$½_"), max_size=60))
def test_blocks_cut_no_word(pre: str, text: str) -> None:
    blocks = list(byte_level._blocks(text, max_chars=4))
    assert "".join(blocks) == text
    pieces = WITH_EACH[pre]._pieces.encode(blocks)
    assert [i for ids in pieces for i in ids] == WITH_EACH[pre].encode(text, parse_special=False)


@pytest.mark.parametrize("make", [metadata_of, scored_metadata])
def test_lone_surrogates_are_an_error(make: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(UnicodeEncodeError):
        load_tokenizer(make()).encode("a\ud800", parse_special=False)
