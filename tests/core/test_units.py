from strata.core.units import align_up


def test_align_up_is_the_smallest_multiple():
    assert [align_up(value, 256) for value in (0, 1, 256, 257)] == [0, 256, 256, 512]
