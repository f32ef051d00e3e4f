"""What no honest GGUF header exceeds. A file that does is refused before anything of that size is allocated, so a
header costs bounded time and memory whatever it promises. Real files of 2026 are named as the yardstick."""

MAX_HEADER_BYTES = 20 * 1024 * 1024
"""Keys and tensor infos of one file. 260k tokens with 515k merges, the largest vocabulary known, take about 13 MiB."""

MAX_TEXT_BYTES = 2 * 1024 * 1024
"""Names of keys and values of string keys and of tensors together; all but the chat template is short."""

MAX_ELEMENT_BYTES = 64 * 1024
"""One string of an array. Tokens of 1 KiB exist: runs of blanks."""

MAX_KEYS = 4_096
"""A model has 30 to 60 keys."""

MAX_TENSORS = 32_768
"""Over all shards. The largest models have about 2,000; one tensor for each matrix of 32 x 8 experts makes 1,000."""

MAX_STRINGS = 2 * 1024 * 1024
"""Elements of one string array. The largest vocabulary has about 260k tokens and 515k merges."""

MAX_KEY_BYTES = 65_535
"""The format's own limit."""

MAX_TENSOR_NAME_BYTES = 63
"""ggml keeps names in 64 bytes with the closing zero."""

MAX_DIMS = 4
MAX_ALIGNMENT_BYTES = 1024 * 1024
DEFAULT_ALIGNMENT_BYTES = 32
MAX_SHARDS = 1_024

MAX_QUOTED_CHARACTERS = 80


def quoted(text: str) -> str:
    """`text` in an error message: control characters escaped, the end cut off."""
    shown = text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[:MAX_QUOTED_CHARACTERS]}..."
    return ascii(shown)
