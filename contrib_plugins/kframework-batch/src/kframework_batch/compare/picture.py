"""The picture of a comparison: what worked for each queue over time, and what half gangs held, a chart per engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from kframework_batch.compare.replay import Course
from kframework_batch.shares import share_chart

#: How half gangs are called in the legend; no queue can be.
HALF_GANGS = "(half gangs)"


def picture(courses: Mapping[str, Course], until: float) -> str:
    """Draw courses one above the other on one scale of time, up to `until` in seconds, as SVG."""
    queues = sorted({queue for course in courses.values() for queue in course.working})
    charts = [_chart(title, course, queues, until) for title, course in courses.items()]
    sizes = [_size(chart) for chart in charts]
    width, height = max(width for width, _ in sizes), sum(height for _, height in sizes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f"<title>{escape(' and '.join(courses))}: what worked for queues, and what half gangs held</title>",
    ]
    top = 0
    for chart, (own_width, own_height) in zip(charts, sizes, strict=True):
        place = f'<svg y="{top}" width="{own_width}" height="{own_height}"'
        lines.append(chart.rstrip().replace("<svg", place, 1))
        top += own_height
    return "\n".join([*lines, "</svg>", ""])


def _chart(title: str, course: Course, queues: Sequence[str], until: float) -> str:
    """Draw a course with all these queues, so that each has its colour in every chart."""
    nothing = [0.0] * len(course.moments)
    rows = {HALF_GANGS: course.half} | {queue: course.working.get(queue, nothing) for queue in queues}
    return share_chart([*course.moments, until], {name: [*row, *row[-1:]] for name, row in rows.items()}, title)


def _size(chart: str) -> tuple[int, int]:
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert found is not None
    return int(found[1]), int(found[2])
