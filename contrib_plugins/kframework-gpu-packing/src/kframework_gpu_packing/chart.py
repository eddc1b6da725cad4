"""The result as a picture: a bar per profile in SVG, with a whisker from the lowest seed to the highest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import fmean

_TITLE = "GPU demand that can still be placed when 90 % of the GPUs are taken"
_STYLE = 'role="img" font-family="sans-serif" font-size="14" fill="#24292f"'
_LEFT, _TOP, _WIDTH, _ROW, _BAR = 150, 50, 440, 44, 26


def bar_chart(shares: Mapping[str, Sequence[float]]) -> str:
    """Draw the mean of each row of shares (0 to 1), and how far they range."""
    height = _TOP + _ROW * len(shares) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 70} {height}" {_STYLE}>',
        f"<title>{escape(_TITLE)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="26" font-weight="bold">{escape(_TITLE)}</text>',
        *_scale(height - 30),
    ]
    for place, (name, row) in enumerate(shares.items()):
        lines += _bar(name, row, _TOP + _ROW * place + (_ROW - _BAR) // 2)
    return "\n".join([*lines, "</svg>", ""])


def _scale(bottom: int) -> Iterator[str]:
    for percent in range(0, 101, 25):
        x = _across(percent / 100)
        yield f'<path d="M{x} {_TOP}V{bottom}" stroke="#d0d7de"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" font-size="12">{percent} %</text>'


def _bar(name: str, row: Sequence[float], top: int) -> Iterator[str]:
    mean, low, high, middle = fmean(row), min(row), max(row), top + _BAR / 2
    yield f'<text x="{_LEFT - 10}" y="{middle + 5}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{_LEFT}" y="{top}" width="{_across(mean) - _LEFT:.1f}" height="{_BAR}" fill="#4c8dae"/>'
    yield f'<path d="M{_across(low)} {middle}H{_across(high)}" stroke="#24292f" stroke-width="2"/>'
    yield f'<text x="{_across(high) + 8:.1f}" y="{middle + 5}">{mean:.1%}</text>'


def _across(share: float) -> float:
    return round(_LEFT + _WIDTH * share, 1)
