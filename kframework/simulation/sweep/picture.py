"""A picture of the summary of a sweep, as SVG: a panel for each measure, with a row for each configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from kframework.simulation.sweep.summary import Estimate, Summary

#: The measures that are shown, with the titles of their panels.
_PANELS = {
    "cpu": "CPU in use",
    "memory": "memory in use",
    "fragmentation": "fragmentation",
    "wait_p50": "waiting time, p50 (s)",
    "wait_p99": "waiting time, p99 (s)",
    "preempted": "preempted pods",
}
_TITLE = "Means of configurations, with 95 % confidence intervals over seeds"
_NOTE = "Filled: differs from the first configuration by more than chance"
_STYLE = 'role="img" font-family="sans-serif" font-size="13" fill="#24292f"'
_INK, _FAINT, _GRID = "#24292f", "#57606a", "#d8dee4"
#: The first configuration, and the others; distinguishable with colour blindness, too (Okabe and Ito).
_FIRST, _OTHER = "#0072b2", "#d55e00"
#: The size of the names, of a panel with the gap to the next one, and of a row; the panels in a row of them.
_NAMES, _WIDTH, _GAP, _ROW, _COLUMNS = 200, 230, 40, 24, 3
#: The height of the titles of the picture and of a panel, and of the axis of a panel.
_HEAD, _TITLE_HEIGHT, _AXIS = 66, 28, 44
_LONGEST_NAME = 27


def draw_summary(summary: Summary) -> str:
    """Draw the measures of a sweep; those without a value are left out."""
    panels = [measure for measure in _PANELS if any(own[measure].mean is not None for own in summary.values())]
    height = _TITLE_HEIGHT + _ROW * len(summary) + _AXIS
    size = _NAMES + _COLUMNS * (_WIDTH + _GAP), _HEAD + math.ceil(len(panels) / _COLUMNS) * height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" {_STYLE}>',
        f"<title>{_TITLE}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="16" y="28" font-size="17" font-weight="bold">{_TITLE}</text>',
        f'<text x="16" y="48" fill="{_FAINT}">{_NOTE}</text>',
    ]
    for index, measure in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        top = _HEAD + row * height
        if not column:
            lines += _names(summary, top + _TITLE_HEIGHT)
        lines.append(f'<g transform="translate({_NAMES + column * (_WIDTH + _GAP)} {top})">')
        lines += _panel(_PANELS[measure], {name: own[measure] for name, own in summary.items()})
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def _names(summary: Summary, top: float) -> Iterator[str]:
    for index, name in enumerate(summary):
        shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        yield f'<text x="{_NAMES - 12}" y="{_middle(index) + top + 4}" text-anchor="end">{escape(shown)}</text>'


def _middle(index: int) -> float:
    return _ROW * (index + 0.5)


def _panel(title: str, estimates: Mapping[str, Estimate]) -> Iterator[str]:
    bottom = _TITLE_HEIGHT + _ROW * len(estimates)
    scale = _FigureAxis([*estimates.values()])
    yield f'<text y="16" font-weight="bold">{title}</text>'
    for mark in scale.marks:
        x = scale.x(mark)
        yield f'<path d="M{x} {_TITLE_HEIGHT}V{bottom}" stroke="{_GRID}"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" font-size="12" fill="{_FAINT}">{mark:g}</text>'
    yield f'<path d="M0 {bottom}H{_WIDTH}" stroke="{_INK}"/>'
    for index, estimate in enumerate(estimates.values()):
        if estimate.mean is not None:
            yield from _row(estimate.mean, estimate, scale, _TITLE_HEIGHT + _middle(index), index)


def _row(mean: float, estimate: Estimate, scale: _FigureAxis, y: float, index: int) -> Iterator[str]:
    colour, margin = _OTHER if index else _FIRST, estimate.margin or 0.0
    low, high = scale.x(mean - margin), scale.x(mean + margin)
    yield f'<path d="M{low} {y}H{high}M{low} {y - 4}v8M{high} {y - 4}v8" stroke="{colour}" stroke-width="2"/>'
    fill = colour if estimate.is_significant else "#ffffff"
    yield f'<circle cx="{scale.x(mean)}" cy="{y}" r="4.5" fill="{fill}" stroke="{colour}" stroke-width="2"/>'


class _FigureAxis:
    """The axis of a panel, with round marks."""

    def __init__(self, estimates: Sequence[Estimate]) -> None:
        known = [(each.mean, each.margin or 0.0) for each in estimates if each.mean is not None]
        low, high = min(mean - margin for mean, margin in known), max(mean + margin for mean, margin in known)
        padding = 0.1 * (high - low) or max(0.1 * high, 0.05)
        self._low, self._high = low - padding, high + padding
        step = _round_up((self._high - self._low) / 4)
        first, last = math.ceil((self._low if low < 0 else max(self._low, 0.0)) / step), math.floor(self._high / step)
        self.marks = [round(number * step, 10) for number in range(first, last + 1)]

    def x(self, figure: float) -> float:
        return round(_WIDTH * (figure - self._low) / (self._high - self._low), 1)


def _round_up(number: float) -> float:
    """Return the next number that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(number))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= number)
