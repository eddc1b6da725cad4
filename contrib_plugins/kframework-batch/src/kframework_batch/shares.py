"""The shares of queues, session by session, and pictures of them: shares of the cluster over time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import TextIO

from kframework_batch.account import SessionAccount, SessionObserver
from kframework_batch.compare.measures import ShareHistory

_TITLE = "What queues hold of the cluster"
_STYLE = 'role="img" font-family="sans-serif" font-size="14" fill="#24292f"'
_LEFT, _TOP, _WIDTH, _HEIGHT, _LEGEND = 60, 50, 620, 260, 180
#: Distinguishable with colour blindness, too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#555555")
#: The steps of the time axis, in seconds: the smallest that makes no more than this many marks.
_STEPS, _MARKS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 6 * 3600, 24 * 3600), 8


class ShareRecorder(SessionObserver):
    """Notes at the end of each session what every queue holds: its dominant share, from 0 to 1.

    `moments` are in seconds since the first session; `held` has a row of shares for every queue that ever held any.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.shares: dict[str, list[float]] = {}
        self._started_at: float | None = None

    def session_ended(self, account: SessionAccount) -> None:
        if self._started_at is None:
            self._started_at = account.at
        shares = {state.queue: state.dominant for state in account.queues}
        for name, share in shares.items():
            if share and name not in self.shares:
                self.shares[name] = [0.0] * len(self.times)
        self.times.append(account.at - self._started_at)
        for name, row in self.shares.items():
            row.append(shares.get(name, 0.0))

    def write(self, file: TextIO) -> None:
        file.write(share_chart(self.times, self.shares))


def share_chart(moments: Sequence[float], held: Mapping[str, Sequence[float]], title: str = _TITLE) -> str:
    """Draw rows of shares (0 to 1) over moments (seconds) as steps: a share holds until the next moment."""
    bottom = _TOP + _HEIGHT
    scale = _Scale(moments[-1] if moments else 0.0, max((share for row in held.values() for share in row), default=0.0))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _LEGEND} {bottom + 50}" {_STYLE}>',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="26" font-weight="bold">{escape(title)}</text>',
        *_axes(scale),
    ]
    for index, (name, row) in enumerate(sorted(held.items())):
        colour = _COLOURS[index % len(_COLOURS)]
        dashes = ' stroke-dasharray="6 3"' if index >= len(_COLOURS) else ""
        lines.append(
            f'<path d="{_steps(moments, row, scale)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
        left, middle = _LEFT + _WIDTH + 20, _TOP + 12 + 22 * index
        lines.append(f'<path d="M{left} {middle}h24" stroke="{colour}" stroke-width="2"{dashes}/>')
        shown = name if len(name) <= 16 else f"{name[:15]}…"
        lines.append(f'<text x="{left + 32}" y="{middle + 5}">{escape(shown)}</text>')
    return "\n".join([*lines, "</svg>", ""])


class _Scale:
    """The scale of moments and shares in the picture."""

    def __init__(self, end: float, highest: float) -> None:
        self.end = max(end, 1.0)
        self.highest = 1.0 if highest > 0.5 else 0.5 if highest > 0.25 else 0.25

    def x(self, moment: float) -> float:
        return round(_LEFT + _WIDTH * moment / self.end, 1)

    def y(self, share: float) -> float:
        return round(_TOP + _HEIGHT * (1 - min(share, self.highest) / self.highest), 1)


def _axes(scale: _Scale) -> Iterator[str]:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    for quarter in range(5):
        share = scale.highest * quarter / 4
        y = scale.y(share)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="#d0d7de"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 5}" text-anchor="end" font-size="12">{100 * share:.4g} %</text>'
    days = 1 + int(scale.end / _STEPS[-1] / _MARKS)
    step = next((step for step in _STEPS if scale.end / step <= _MARKS), days * _STEPS[-1])
    for mark in range(int(scale.end // step) + 1):
        x = scale.x(mark * step)
        yield f'<path d="M{x} {bottom}v5" stroke="#24292f"/>'
        yield f'<text x="{x}" y="{bottom + 20}" text-anchor="middle" font-size="12">{_span(mark * step)}</text>'
    yield f'<text x="{_LEFT + _WIDTH / 2}" y="{bottom + 42}" text-anchor="middle" font-size="12">time</text>'


def _span(seconds: int) -> str:
    """Write a time as 45s, 5m or 1h30m."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{count}{unit}" for count, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if count]
    return "".join(parts) or "0"


def _steps(moments: Sequence[float], row: Sequence[float], scale: _Scale) -> str:
    """Return the path of a row: across to the next moment, then up or down."""
    if not moments:
        return ""
    path = [f"M{scale.x(moments[0])} {scale.y(row[0])}"]
    for (_, before), (moment, share) in pairwise(zip(moments, row, strict=True)):
        path.append(f"H{scale.x(moment)}")
        if share != before:
            path.append(f"V{scale.y(share)}")
    return "".join(path)


#: How half gangs are called in the legend; no queue can be.
INCOMPLETE_GANGS = "(half gangs)"


def comparison_chart(histories: Mapping[str, ShareHistory], until: float) -> str:
    """Draw histories one above the other on one scale of time, up to `until` in seconds, as SVG."""
    queues = sorted({queue for history in histories.values() for queue in history.working})
    charts = []
    for title, history in histories.items():
        # All queues are in every chart, so that each has its colour in all of them.
        nothing = [0.0] * len(history.times)
        rows = {INCOMPLETE_GANGS: history.half} | {queue: history.working.get(queue, nothing) for queue in queues}
        lasting = {name: [*row, *row[-1:]] for name, row in rows.items()}
        charts.append(share_chart([*history.times, until], lasting, title))
    sizes = [_size(chart) for chart in charts]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<title>{escape(' and '.join(histories))}: what worked for queues, and what half gangs held</title>",
    ]
    top = 0
    for chart, (own_width, own_height) in zip(charts, sizes, strict=True):
        opening = f'<svg y="{top}" width="{own_width}" height="{own_height}"'
        lines.append(chart.rstrip().replace("<svg", opening, 1))
        top += own_height
    return "\n".join([*lines, "</svg>", ""])


def _size(chart: str) -> tuple[int, int]:
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert found is not None
    return int(found[1]), int(found[2])
