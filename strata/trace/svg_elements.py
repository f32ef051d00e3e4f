"""The few elements that a picture is made of, as text: well formed, and the same bytes for the same numbers."""

from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"


def number(value: float) -> str:
    """Two digits behind the point at most."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def element(name: str, content: str = "", /, **attributes: str | float) -> str:
    """`content` is markup. An underscore at the end of a name is dropped, one inside is a hyphen."""
    written = "".join(f" {key.rstrip('_').replace('_', '-')}={_quoted(value)}" for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def rect(x: float, y: float, width: float, height: float, **attributes: str | float) -> str:
    return element("rect", x=x, y=y, width=width, height=height, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def text(x: float, y: float, words: str, **attributes: str | float) -> str:
    return element("text", escape(_written(words)), x=x, y=y, **attributes)


def _quoted(value: str | float) -> str:
    return quoteattr(_written(value) if isinstance(value, str) else number(value))


def _written(words: str) -> str:
    """Names come out of a file, and neither XML nor UTF-8 can say every character that JSON can."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)


def nice_step(span: float, most: int) -> int:
    """The smallest of 1, 2, 5, 10, ... of which at most `most` fit into `span`."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if span <= step * factor * most:
                return step * factor
        step *= 10


def binary_step(span_bytes: int, most: int) -> int:
    """The smallest power of two of which at most `most` fit into `span_bytes`."""
    step = 1
    while step * most < span_bytes:
        step *= 2
    return step
