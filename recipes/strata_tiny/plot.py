"""The loss of a training as a picture, drawn by hand so that nothing needs to be installed."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 400, 56, 16, 28, 44
LINES = (
    ("text", "#1f5fa8", "next token"),
    ("draft_1", "#b5532a", "first draft"),
    ("draft_3", "#7a7a7a", "third draft"),
)
SMOOTHED_OVER = 0.02
"""Of the rows: the half-life of the running mean that is drawn."""


def draw(source: Path, target: Path) -> None:
    """loss.csv -> an SVG of nats a token over millions of tokens."""
    with source.open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert rows, f"{source} has no rows"
    last = rows[-1]["tokens"]
    curves = {name: _smoothed([row[name] for row in rows]) for name, _, _ in LINES}
    finite = [value for curve in curves.values() for value in curve if math.isfinite(value)]
    low, high = math.floor(min(finite)), math.ceil(min(max(finite), 6.0))

    def place(tokens: float, nats: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * tokens / last
        y = TOP + (HEIGHT - TOP - BOTTOM) * (1 - (min(nats, high) - low) / (high - low))
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18">strata-tiny: loss in nats a token, over millions of tokens</text>',
    ]
    for step in range(2 * (high - low) + 1):
        nats = low + step / 2
        x, y = place(0, nats).split(",")
        parts.append(f'<line x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{nats:g}</text>')
    for tenth in range(0, 11, 2):
        x = place(last * tenth / 10, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{HEIGHT - 24}" text-anchor="middle">{last * tenth / 1e7:.0f}</text>')
    for index, (name, color, label) in enumerate(LINES):
        points = [
            place(row["tokens"], each) for row, each in zip(rows, curves[name], strict=True) if math.isfinite(each)
        ]
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{" ".join(points)}"/>')
        parts.append(f'<text x="{LEFT + 120 * index}" y="{HEIGHT - 6}" fill="{color}">{label}</text>')
    target.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _smoothed(values: Sequence[float]) -> list[float]:
    keep = 0.5 ** (1 / max(1.0, SMOOTHED_OVER * len(values)))
    mean, out = values[0], []
    for value in values:
        mean = keep * mean + (1 - keep) * value
        out.append(mean)
    return out
