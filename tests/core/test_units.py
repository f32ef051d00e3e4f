from strata.core.units import GIB, MIB, align_up, format_bytes


def test_align_up_is_the_smallest_multiple():
    assert [align_up(value, 256) for value in (0, 1, 256, 257)] == [0, 256, 256, 512]


def test_people_read_binary_units():
    assert [format_bytes(value) for value in (0, 1023, 1536, MIB, 3 * GIB // 2)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "1.0 MiB",
        "1.5 GiB",
    ]
