"""Lines over figures, as SVG: panels side by side that share the upright axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

#: A line: where it is over each figure, both axes in their own units.
Points = Sequence[tuple[float, float]]

_STYLE = 'role="img" font-family="sans-serif" font-size="13" fill="#24292f"'
_INK, _FAINT, _GRID = "#24292f", "#57606a", "#d8dee4"
#: Told apart by those who see few colours, too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
#: Of a panel: its frame within its cell, and how many cells stand beside each other.
_LEFT, _TOP, _WIDTH, _HEIGHT = 56, 40, 330, 190
_CELL_WIDTH, _CELL_HEIGHT, _COLUMNS = 420, 300, 2
#: What stands above the panels; and about how wide a letter of the small text is.
_HEAD, _LETTER = 62, 6.4


@dataclass(frozen=True)
class Panel:
    """Some lines over one figure, which has a logarithmic axis with these marks."""

    title: str
    along: str
    marks: Sequence[int]
    lines: Mapping[str, Points]


def line_chart(title: str, subtitle: str, panels: Sequence[Panel]) -> str:
    """Draw panels under a title, up to two in a row."""
    highest = _round_up(max(y for panel in panels for points in panel.lines.values() for _, y in points) or 1.0)
    width, height = min(len(panels), _COLUMNS) * _CELL_WIDTH, _HEAD + math.ceil(len(panels) / _COLUMNS) * _CELL_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_STYLE}>',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="16" y="30" font-size="17" font-weight="bold">{escape(title)}</text>',
        f'<text x="16" y="50" fill="{_FAINT}">{escape(subtitle)}</text>',
    ]
    for index, panel in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        lines.append(f'<g transform="translate({column * _CELL_WIDTH} {_HEAD + row * _CELL_HEIGHT})">')
        lines += _panel(panel, _Scale(panel, highest))
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


class _Scale:
    """Where figures are in a panel."""

    def __init__(self, panel: Panel, highest: float) -> None:
        self.highest = highest
        across = [x for points in panel.lines.values() for x, _ in points]
        self._first, self._last = math.log(min(across)), math.log(max(across))

    def x(self, figure: float) -> float:
        return round(_LEFT + _WIDTH * (math.log(figure) - self._first) / (self._last - self._first), 1)

    def y(self, figure: float) -> float:
        return round(_TOP + _HEIGHT * (1 - figure / self.highest), 1)


def _panel(panel: Panel, scale: _Scale) -> Iterator[str]:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    yield f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(panel.title)}</text>'
    for quarter in range(5):
        y = scale.y(scale.highest * quarter / 4)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="{_GRID if quarter else _INK}"/>'
        yield _text(_LEFT - 8, y + 4, f"{scale.highest * quarter / 4:,g}", anchor="end")
    yield from _axis_marks(panel.marks, scale, bottom)
    yield _text(_LEFT + _WIDTH / 2, bottom + 38, panel.along, anchor="middle")
    for colour, points in zip(_COLOURS, panel.lines.values(), strict=False):
        positions = [(scale.x(x), scale.y(y)) for x, y in points]
        path = "L".join(f"{x} {y}" for x, y in positions)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in positions)
    yield from _legend(panel.lines)


def _axis_marks(marks: Sequence[int], scale: _Scale, bottom: int) -> Iterator[str]:
    """Mark figures on the axis; those that the next one leaves no room for go without their number."""
    free = math.inf
    for mark in reversed(marks):
        x, number = scale.x(mark), f"{mark:,}"
        half = _LETTER * len(number) / 2
        yield f'<path d="M{x} {bottom}v5" stroke="{_INK}"/>'
        if x + half < free:
            yield _text(x, bottom + 19, number, anchor="middle")
            free = x - half - _LETTER


def _legend(names: Mapping[str, Points]) -> Iterator[str]:
    """Name the lines below the title, one after the other."""
    x: float = _LEFT
    for colour, name in zip(_COLOURS, names, strict=False):
        yield f'<path d="M{x} {_TOP - 8}h16" stroke="{colour}" stroke-width="2"/>'
        yield _text(x + 21, _TOP - 4, name, anchor="start")
        x += 40 + _LETTER * len(name)


def _text(x: float, y: float, text: str, *, anchor: str) -> str:
    index = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="11" fill="{_FAINT}"'
    return f"<text {index}>{escape(text)}</text>"


def _round_up(figure: float) -> float:
    """Return the next larger figure whose quarters are easy to read."""
    power = 10.0 ** math.floor(math.log10(figure))
    return next(step * power for step in (1, 1.2, 1.6, 2, 3, 4, 6, 8, 10, 12) if step * power >= figure)
