"""The picture of queue shares: what was held when, drawn to scale and safe to show."""

from __future__ import annotations

import re
from io import StringIO
from xml.etree import ElementTree

import pytest
from kframework_batch.shares import ShareRecorder, share_chart
from kframework_batch.testing import Stage, make_gang, make_node, make_queue


def paths(chart: str) -> list[str]:
    """Return the lines of the queues."""
    return re.findall(r'<path d="([^"]*)" fill="none"', chart)


def test_shares_are_recorded_per_session() -> None:
    stage = Stage(
        'actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]',
        nodes=[make_node("n1", cpu=8, memory="8Gi")],
        queues=[make_queue("a"), make_queue("b")],
        gangs=[make_gang("first", 2, queue="a", cpu=2)],
    )
    shares = ShareRecorder()
    stage.session()
    group, pods = make_gang("second", 1, queue="b", cpu=2)
    for obj in (group, *pods):
        stage.put(obj)
    stage.session()
    for name in ("first-0", "first-1"):
        stage.delete(name)
    stage.session()
    for account in stage.accounts:
        shares.on_account(account)
    assert shares.times == [0.0, 1.0, 2.0]
    assert shares.shares == {"a": [0.5, 0.5, 0.0], "b": [0.0, 0.25, 0.25]}


def test_share_is_drawn_as_a_step() -> None:
    chart = share_chart([0.0, 50.0, 100.0], {"a": [0.0, 1.0, 0.5]})
    assert paths(chart) == ["M60.0 310.0H370.0V50.0H680.0V180.0"]


@pytest.mark.parametrize(
    ("end", "marks"),
    [(8.0, "0 1s 2s"), (90.0, "0 15s 30s"), (600.0, "0 5m 10m"), (86400.0, "0 6h 12h"), (2e6, "0 72h 144h")],
)
def test_time_axis_has_round_steps(end: float, marks: str) -> None:
    texts = re.findall(r'text-anchor="middle" font-size="12">([^<]*)</text>', share_chart([0.0, end], {}))
    assert " ".join(texts[:3]) == marks
    assert len(texts) <= 11


def test_scale_adapts_to_small_shares() -> None:
    assert ">25 %<" in share_chart([0.0], {"a": [0.2]}) and ">50 %<" not in share_chart([0.0], {"a": [0.2]})


def test_names_are_escaped_in_the_picture() -> None:
    chart = share_chart([0.0], {"<script>&": [1.0], "a" * 40: [0.5], **{f"q{n}": [0.1] for n in range(10)}})
    root = ElementTree.fromstring(chart)
    assert [element for element in root.iter() if element.tag.endswith("script")] == []
    assert "a" * 40 not in chart
    assert chart.count("stroke-dasharray") == 2 * 4, "colours that come twice are dashed the second time"


def test_picture_without_sessions_is_empty() -> None:
    file = StringIO()
    ShareRecorder().write(file)
    ElementTree.fromstring(file.getvalue())
    assert paths(file.getvalue()) == []
