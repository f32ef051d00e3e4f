"""A plot has a bar for every row that was measured, as long as its median."""

import xml.etree.ElementTree as ElementTree

import pytest

from bench.plots import BARS_WIDTH, Bar, bars_of, draw

ROWS = {
    "start": {"ready_s": 20.0},
    "loans on, prompt 4,096": {"prompt_tok_s": {"minimum": 90.0, "median": 100.0, "maximum": 200.0}},
    "a <b> & c": {"prompt_tok_s": {"minimum": 40.0, "median": 50.0, "maximum": 60.0}},
}
SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_the_rows_that_have_the_figure():
    assert bars_of({"x": ROWS}, "prompt_tok_s") == [
        Bar("x: loans on, prompt 4,096", 90.0, 100.0, 200.0),
        Bar("x: a <b> & c", 40.0, 50.0, 60.0),
    ]
    with pytest.raises(ValueError, match="no row has nothing; give --figure"):
        bars_of({"x": ROWS}, "nothing")


def test_a_bar_is_as_long_as_its_median_and_names_stay_text():
    picture = ElementTree.fromstring(draw(bars_of({"x": ROWS}, "prompt_tok_s"), title="t", unit="tokens/s"))
    widths = [float(rect.attrib["width"]) for rect in picture.iter(f"{SVG}rect")][1:]
    assert widths == [BARS_WIDTH / 2, BARS_WIDTH / 4]
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert "x: a <b> & c" in texts and "50 tokens/s" in texts
