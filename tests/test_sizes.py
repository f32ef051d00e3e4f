import pytest

from strata.core.units import GIB, MIB
from strata.sizes import format_bytes, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4096", 4096), ("256MiB", 256 * MIB), ("8G", 8 * GIB), ("1.5 GiB", 3 * GIB // 2), ("2kb", 2048), (" 7 B ", 7)],
)
def test_sizes_are_binary(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "GiB", "-1", "8 GB of it", "1e9", "0x10", "8PiB"])
def test_what_is_no_size_says_what_would_be(text):
    with pytest.raises(ValueError, match="256MiB or 8GiB"):
        parse_size(text)


def test_people_read_binary_units():
    assert [format_bytes(value) for value in (0, 1023, 1536, MIB, 3 * GIB // 2)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 MiB",
        "1.5 GiB",
    ]
