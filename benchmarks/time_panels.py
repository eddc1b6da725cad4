"""Values over hours, as SVG: a panel for each case, side by side, with the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

LEFT, TOP, WIDTH, HEIGHT = 44, 66, 230, 150
_CELL = 284


class TimePanels(NamedTuple):
    """The axes of all panels.

    Attributes:
        begin, end: the seconds at the left and at the right.
        hours: the distance of two marks of the time axis.
        most: the value at the top; larger ones are drawn there.
        marks: the values that have a line, by their labels.
    """

    begin: int
    end: int
    hours: int
    most: float
    marks: Mapping[str, float]

    def y(self, value: float) -> float:
        return round(TOP + HEIGHT * (1 - min(value, self.most) / self.most), 1)

    def positions(self, values: Sequence[float]) -> list[str]:
        """Return the points of a path through values at equal distances, the last one at the end."""
        last = len(values) - 1
        return [f"{LEFT + WIDTH * index / last:.1f} {self.y(value)}" for index, value in enumerate(values)]

    def draw(self, title: str, panels: Mapping[str, Sequence[str]]) -> str:
        """Return the picture; `panels` are the drawn values of each case, by its name."""
        head = f'viewBox="0 0 {_CELL * len(panels) + 20} 250" role="img" font-family="sans-serif" font-size="12"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {head} fill="#24292f">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        ]
        for number, (name, values) in enumerate(panels.items()):
            lines.append(f'<g transform="translate({number * _CELL} 0)">')
            lines.append(f'<text x="{LEFT}" y="{TOP - 14}" font-weight="bold">{escape(name)}</text>')
            lines += [*values, *self._axes(), "</g>"]
        return "\n".join([*lines, "</svg>\n"])

    def _axes(self) -> Iterator[str]:
        for label, value in self.marks.items():
            y = self.y(value)
            yield f'<path d="M{LEFT} {y}h{WIDTH}" stroke="#57606a" stroke-dasharray="3 3"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        for second in range(self.begin, self.end + 1, 3600 * self.hours):
            x = LEFT + WIDTH * (second - self.begin) / (self.end - self.begin)
            yield f'<text x="{x:.0f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{second // 3600} h</text>'
