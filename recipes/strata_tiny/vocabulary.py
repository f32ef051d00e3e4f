"""The vocabulary of strata-tiny: byte-level BPE with the pre-tokenizer of qwen35, learned from the corpus.

0 <|endoftext|>   1 <|im_start|>   2 <|im_end|>   256 bytes   results of merges, the most frequent first
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from strata.model.tokenizer.byte_level import PRE_TOKENIZERS

PRE_TOKENIZER = "qwen35"
END_OF_TEXT, IM_START, IM_END = 0, 1, 2
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_CONTROL = re.compile("|".join(map(re.escape, SPECIALS)))
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`tokens` and `merges` spelled as GGUF spells them; the first three tokens are control tokens."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]


def learn(texts: Iterable[str], *, size: int) -> Tokenizer:
    """Control tokens in the texts are no text. Raises ValueError where the texts are too few for so many tokens."""
    library = Tokenizer(models.BPE())
    splits = [pre_tokenizers.Split(Regex(each), "isolated") for each in PRE_TOKENIZERS[PRE_TOKENIZER]]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(
        (_CONTROL.sub("\n", text) for text in texts),
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False
        ),
    )
    if library.get_vocab_size() != size:
        raise ValueError(f"the texts give {library.get_vocab_size()} tokens, not {size}; give more text")
    return library


def read_vocabulary(path: Path) -> Vocabulary:
    """Of a file that `Tokenizer.save` wrote."""
    return vocabulary_of(Tokenizer.from_file(str(path)))


def vocabulary_of(library: Tokenizer) -> Vocabulary:
    model = json.loads(library.to_str())["model"]
    by_id: dict[int, str] = {index: text for text, index in model["vocab"].items()}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return Vocabulary(tuple(by_id[index] for index in range(len(by_id))), tuple(merges))


def render(messages: Sequence[dict[str, str]]) -> str:
    """What the chat template makes of a whole conversation."""
    return "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages)
