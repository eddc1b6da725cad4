"""The result as a picture: for each size of claims a bar per profile, in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

_TITLE = "Share of the free slices that claims of each size could use, when 85 % are taken"
_STYLE = 'role="img" font-family="sans-serif" font-size="14" fill="#24292f"'
_LEFT, _TOP, _WIDTH, _BAR, _GAP = 90, 74, 480, 18, 20
_COLOURS = ("#c9803b", "#8c959f", "#4c8dae")


def bar_chart(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Draw the shares (0 to 1) by profile and size."""
    sizes = list(dict.fromkeys(size for row in shares.values() for size in row))
    group = _BAR * len(shares) + _GAP
    height = _TOP + group * len(sizes) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 70} {height}" {_STYLE}>',
        f"<title>{escape(_TITLE)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="26" font-weight="bold">{escape(_TITLE)}</text>',
        *_legend(list(shares)),
        *_scale(height - 30),
    ]
    for place, size in enumerate(sizes):
        top = _TOP + group * place + _GAP // 2
        middle = top + (group - _GAP) / 2 + 5
        lines.append(f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{escape(size)}</text>')
        for number, row in enumerate(shares.values()):
            lines += _bar(row[size], top + _BAR * number, _COLOURS[number % len(_COLOURS)])
    return "\n".join([*lines, "</svg>", ""])


def _legend(profiles: list[str]) -> Iterator[str]:
    for place, profile in enumerate(profiles):
        x = _LEFT + 165 * place
        yield f'<rect x="{x}" y="42" width="12" height="12" fill="{_COLOURS[place % len(_COLOURS)]}"/>'
        yield f'<text x="{x + 18}" y="53">{escape(profile)}</text>'


def _scale(bottom: int) -> Iterator[str]:
    for percent in range(0, 101, 25):
        x = _across(percent / 100)
        yield f'<path d="M{x} {_TOP}V{bottom}" stroke="#d0d7de"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" font-size="12">{percent} %</text>'


def _bar(share: float, top: int, colour: str) -> Iterator[str]:
    yield f'<rect x="{_LEFT}" y="{top}" width="{_across(share) - _LEFT:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
    yield f'<text x="{_across(share) + 6:.1f}" y="{top + 13}" font-size="12">{share:.1%}</text>'


def _across(share: float) -> float:
    return round(_LEFT + _WIDTH * share, 1)
