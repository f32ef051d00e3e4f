"""A picture of the card over a command trace: addresses upwards, entries of the trace to the right.

    title, requests
    +----------------------------------+
    | owners in colour, undefined bytes |  names of the regions
    | hatched, loans outlined, copies   |
    | over the link as dark marks       |
    +----------------------------------+
    | what each stream was given        |
    +----------------------------------+
    legend

Thousands of entries share a few hundred columns: what falls into one column is drawn once, and equal columns are one
rectangle. The same trace gives the same bytes.
"""

from collections.abc import Iterator

from strata.core.extent import Extent
from strata.sizes import format_bytes
from strata.trace.activity import KINDS, Mark, copied_cells, lanes_of, marks_of
from strata.trace.command_trace import CommandTrace
from strata.trace.history import Box, CardHistory, follow
from strata.trace.places import Place
from strata.trace.svg_elements import FONT, binary_step, element, line, nice_step, rect, text

WIDTH, LEFT, RIGHT, TOP = 1080.0, 84.0, 132.0, 74.0
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, 420.0
LANE_HEIGHT, LANE_GAP = 15.0, 5.0
COLUMNS, ROWS = 432, 210
INK, FAINT, FAULT = "#22262b", "#8b929b", "#c8102e"
OWNER_COLOURS = {
    "weights": "#b9c0c9",
    "table": "#7f7f7f",
    "kv": "#8fbf9f",
    "verifier": "#b9a0cf",
    "cache": "#f0cf9a",
    "prompt": "#6a9fd0",
}
MORE_COLOURS = ("#d98f8f", "#8fd0cb", "#c9c27a", "#a8b86f", "#d5a6c8")
KIND_COLOURS = dict(zip(KINDS, (FAULT, "#3b5b85", "#b06f1d", "#9aa1aa", "#d3d7dc"), strict=True))


def card_picture(trace: CommandTrace) -> str:
    return _Picture(trace).draw()


class _Picture:
    def __init__(self, trace: CommandTrace) -> None:
        self._trace = trace
        self._history: CardHistory = follow(trace)
        self._range_bytes = trace.sizes.arena_bytes + trace.sizes.behind_bytes
        self._num_entries = max(1, self._history.num_entries)
        self._regions = [place for place in trace.places.rows if isinstance(place.where, Extent)]
        self._columns = max(1, min(COLUMNS, self._history.num_entries))
        self._lanes = lanes_of(trace, columns=self._columns)
        owners = dict.fromkeys([*OWNER_COLOURS, *(box.value for box in self._history.owners)])
        spare = (MORE_COLOURS[i % len(MORE_COLOURS)] for i in range(len(owners)))
        self._colours = {owner: OWNER_COLOURS.get(owner) or next(spare) for owner in owners}
        self._bottom = TOP + PLOT_HEIGHT + 26 + len(self._lanes) * (LANE_HEIGHT + LANE_GAP)
        self._height = self._bottom + 92

    def draw(self) -> str:
        parts = [
            element("title", "The card over a trace"),
            element("desc", "Addresses upwards, entries of the trace to the right, coloured by owner."),
            _DEFINITIONS,
            rect(0, 0, WIDTH, self._height, fill="#ffffff"),
            *self._heading(),
            *self._owners(),
            *self._copies(),
            *self._loans(),
            *self._axes(),
            *self._region_names(),
            *self._draw_lanes(),
            *self._marks(),
            *self._legend(),
        ]
        body = "\n".join(parts)
        root = element(
            "svg",
            f"\n{body}\n",
            xmlns="http://www.w3.org/2000/svg",
            width=WIDTH,
            height=self._height,
            viewBox=f"0 0 {WIDTH:.0f} {self._height:.0f}",
            role="img",
            font_family=FONT,
            font_size=11,
            fill=INK,
        )
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}\n'

    def _x(self, entry: float) -> float:
        return LEFT + PLOT_WIDTH * entry / self._num_entries

    def _y(self, offset_bytes: float) -> float:
        return TOP + PLOT_HEIGHT * (1 - offset_bytes / self._range_bytes)

    def _box(self, box: Box[str], **attributes: str | float) -> str:
        x, y = self._x(box.first), self._y(box.extent.end_bytes)
        width, height = self._x(box.end) - x, self._y(box.extent.offset_bytes) - y
        return rect(x, y, width, height, **attributes)

    def _heading(self) -> Iterator[str]:
        sizes = self._trace.sizes
        yield text(LEFT, 24, "Who owns which bytes of the card", font_size=15, font_weight="bold")
        about = self._trace.note or str(self._trace.origin.get("decisions", ""))
        yield text(
            LEFT,
            41,
            f"{self._history.num_entries:,} entries, a card of {format_bytes(sizes.arena_bytes)} in segments of "
            f"{format_bytes(sizes.segment_bytes)}{': ' if about else ''}{about}"[:140],
            fill=FAINT,
        )

    def _owners(self) -> Iterator[str]:
        yield rect(LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, fill="#fafafa")
        for box in self._history.owners:
            yield self._box(box, fill=self._colours[box.value])
        for box in self._history.undefined:
            if self._y(box.extent.offset_bytes) - self._y(box.extent.end_bytes) >= 0.6:
                yield self._box(box, fill="url(#undefined)")

    def _copies(self) -> Iterator[str]:
        cells = copied_cells(self._trace, columns=self._columns, rows=ROWS)
        width, height = PLOT_WIDTH / self._columns, PLOT_HEIGHT / ROWS
        path = "".join(
            f"M{LEFT + column * width:.2f} {TOP + PLOT_HEIGHT - end * height:.2f}"
            f"h{num_columns * width:.2f}v{(end - first) * height:.2f}h{-num_columns * width:.2f}z"
            for column, num_columns, first, end in cells
        )
        if path:
            yield element("path", d=path, fill=INK, fill_opacity=0.42)

    def _loans(self) -> Iterator[str]:
        """Bytes whose owner is not the one whose name their region has."""
        for region in self._regions:
            for box in self._history.owners:
                start = max(box.extent.offset_bytes, region.where.offset_bytes)
                end = min(box.extent.end_bytes, region.where.end_bytes)
                if start < end and box.value != region.name:
                    lent = Box(box.first, box.end, Extent(start, end - start), box.value)
                    yield self._box(lent, fill="none", stroke=INK, stroke_width=1.4)
                    if self._x(box.end) - self._x(box.first) > 62:
                        x = (self._x(box.first) + self._x(box.end)) / 2
                        words = f"lent {format_bytes(end - start)}"
                        yield text(x, self._y(end) + 15, words, text_anchor="middle", font_weight="bold", **_HALO)

    def _axes(self) -> Iterator[str]:
        yield rect(LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, fill="none", stroke=INK, stroke_width=0.8)
        step = binary_step(self._range_bytes, 8)
        for offset in range(0, self._range_bytes + 1, step):
            y = self._y(offset)
            yield line(LEFT - 4, y, LEFT, y, stroke=INK, stroke_width=0.8)
            yield text(LEFT - 7, y + 3.5, format_bytes(offset), text_anchor="end")
        y = TOP + PLOT_HEIGHT / 2
        yield text(14, y, "address", text_anchor="middle", transform=f"rotate(-90 14 {y:.0f})", fill=FAINT)
        step = nice_step(self._num_entries, 10)
        for entry in range(0, self._num_entries + 1, step):
            x = self._x(entry)
            yield line(x, TOP + PLOT_HEIGHT, x, TOP + PLOT_HEIGHT + 4, stroke=INK, stroke_width=0.8)
            yield text(x, TOP + PLOT_HEIGHT + 15, f"{entry:,}", text_anchor="middle")
        yield text(LEFT + PLOT_WIDTH + 18, TOP + PLOT_HEIGHT + 15, "entry of the trace", fill=FAINT)

    def _region_names(self) -> Iterator[str]:
        """Right of the plot, pushed apart where regions are thin."""
        last = self._y(0) + 14
        for region in sorted(self._regions, key=lambda place: place.where.offset_bytes):
            middle = self._y((region.where.offset_bytes + region.where.end_bytes) / 2)
            y = min(middle, last - 12)
            last = y
            x = LEFT + PLOT_WIDTH
            yield element("polyline", points=_points(x, middle, x + 6, middle, x + 14, y), fill="none", stroke=FAINT)
            yield text(x + 18, y + 3.5, f"{region.name} {format_bytes(_size(region))}")

    def _draw_lanes(self) -> Iterator[str]:
        y = TOP + PLOT_HEIGHT + 26
        for name, runs in self._lanes:
            yield text(LEFT - 7, y + 11.5, name, text_anchor="end")
            yield rect(LEFT, y, PLOT_WIDTH, LANE_HEIGHT, fill="#f4f5f6")
            for first, end, kind in runs:
                x, width = LEFT + PLOT_WIDTH * first / self._columns, PLOT_WIDTH * (end - first) / self._columns
                yield rect(x, y, width, LANE_HEIGHT, fill=KIND_COLOURS[kind])
            y += LANE_HEIGHT + LANE_GAP

    def _marks(self) -> Iterator[str]:
        taken: dict[bool, float] = {True: -1e9, False: -1e9}
        for mark in marks_of(self._trace):
            x = self._x(mark.entry + 0.5)
            yield from self._mark(mark, x, has_room=x - taken[mark.is_fault] > 96)
            taken[mark.is_fault] = x if x - taken[mark.is_fault] > 96 else taken[mark.is_fault]

    def _mark(self, mark: Mark, x: float, *, has_room: bool) -> Iterator[str]:
        colour, dashes = (FAULT, "none") if mark.is_fault else (INK, "2 3")
        bottom = self._bottom - LANE_GAP if mark.is_fault else TOP + PLOT_HEIGHT
        width = 1.6 if mark.is_fault else 0.8
        yield line(
            x, TOP if mark.is_fault else TOP - 18, x, bottom, stroke=colour, stroke_width=width, stroke_dasharray=dashes
        )
        if mark.is_fault:
            yield element("path", d=f"M{x - 4:.2f} {TOP - 8:.2f}h8l-4 8z", fill=FAULT)
        if has_room:
            anchor = "end" if x > LEFT + PLOT_WIDTH - 130 else "start"
            y = TOP + PLOT_HEIGHT - 8 if mark.is_fault else TOP - 12
            yield text(x + (4 if anchor == "start" else -4), y, mark.words, text_anchor=anchor, fill=colour, **_HALO)

    def _legend(self) -> Iterator[str]:
        used = {box.value for box in self._history.owners}
        owners: _Signs = [
            (owner, [{"fill": colour, "stroke": FAINT, "stroke_width": 0.5}])
            for owner, colour in self._colours.items()
            if owner in used
        ]
        kinds: _Signs = [(kind, [{"fill": KIND_COLOURS[kind]}]) for kind in KINDS[1:]]
        y = self._bottom + 24
        for title, signs in (("owners", owners), ("bytes", _SIGNS), ("streams", kinds)):
            yield text(LEFT - 7, y, title, text_anchor="end", fill=FAINT)
            x = LEFT
            for words, layers in signs:
                yield from (rect(x, y - 9, 11, 11, **layer) for layer in layers)
                yield text(x + 16, y, words)
                x += 36 + 5.7 * len(words)
            y += 21


_Signs = list[tuple[str, list[dict[str, str | float]]]]
_HALO: dict[str, str | float] = {"stroke": "#ffffff", "stroke_width": 2.6, "paint_order": "stroke"}
_SIGNS: _Signs = [
    ("undefined: nobody may read it", [{"fill": FAINT}, {"fill": "url(#undefined)"}]),
    ("copied over the link", [{"fill": "#e9ebee"}, {"fill": INK, "fill_opacity": 0.42}]),
    ("lent: the region is another owner's", [{"fill": "none", "stroke": INK, "stroke_width": 1.4}]),
    ("planted failure, or refusal", [{"fill": FAULT}]),
]
_DEFINITIONS = element(
    "defs",
    element(
        "pattern",
        element("path", d="M0 6L6 0", stroke="#ffffff", stroke_width=1.7),
        id="undefined",
        width=6,
        height=6,
        patternUnits="userSpaceOnUse",
    ),
)


def _points(*numbers: float) -> str:
    return " ".join(f"{value:.2f}" for value in numbers)


def _size(place: Place) -> int:
    return place.where.size_bytes
