"""A picture of what `strata bench --json` printed: a bar for each median, a whisker from minimum to maximum.

    python -m bench.plots --figure prompt_tok_s --unit "tokens/s" --out speed.svg a.json [b.json ...]

A bar's name is that of its row behind that of its file. SVG by hand: it is a dozen rectangles.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROW_HEIGHT, BAR_HEIGHT, NAME_WIDTH, BARS_WIDTH, VALUE_WIDTH, TOP = 28, 16, 300, 420, 130, 34
FONT = 'font-family="sans-serif" font-size="13"'


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    minimum: float
    median: float
    maximum: float


def bars_of(files: Mapping[str, Mapping[str, Any]], figure: str) -> list[Bar]:
    """Rows that have `figure`, of all files in turn. Raises ValueError where none has it."""
    bars = [
        Bar(f"{name}: {row}", **figures[figure])
        for name, rows in files.items()
        for row, figures in rows.items()
        if figure in figures
    ]
    if not bars:
        raise ValueError(f"no row has {figure}; give --figure one of those that strata bench --json prints")
    return bars


def draw(bars: Sequence[Bar], *, title: str, unit: str) -> str:
    """The picture, as SVG."""
    scale = BARS_WIDTH / max(bar.maximum for bar in bars)
    width, height = NAME_WIDTH + BARS_WIDTH + VALUE_WIDTH, TOP + ROW_HEIGHT * len(bars) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {FONT}>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>',
    ]
    for number, bar in enumerate(bars):
        top = TOP + number * ROW_HEIGHT
        middle, text = top + BAR_HEIGHT / 2, top + BAR_HEIGHT - 3
        left, right = (NAME_WIDTH + value * scale for value in (bar.minimum, bar.maximum))
        lines += [
            f'<text x="{NAME_WIDTH - 8}" y="{text}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{NAME_WIDTH}" y="{top}" width="{bar.median * scale:.1f}" height="{BAR_HEIGHT}" fill="#4477aa"/>',
            f'<path d="M{left:.1f} {middle}H{right:.1f}" stroke="#222222" stroke-width="2"/>',
            f'<text x="{right + 8:.1f}" y="{text}">{bar.median:,.4g} {escape(unit)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--figure", required=True)
    parser.add_argument("--unit", required=True)
    parser.add_argument("--title", default="")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    files = {path.stem: json.loads(path.read_text()) for path in options.files}
    options.out.write_text(
        draw(bars_of(files, options.figure), title=options.title or options.figure, unit=options.unit)
    )


if __name__ == "__main__":
    main()
