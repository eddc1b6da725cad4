"""Spans of a scenario are at hand when it is over."""

from __future__ import annotations

from kframework.testing import Scenario, Spans, make_node, make_pod


def test_every_attempt_is_traced() -> None:
    spans = Spans()
    Scenario(nodes=[make_node("a")], pods=[make_pod("web"), make_pod("db")], observers=[spans.observer]).run()
    attempts = spans.with_name("scheduling_attempt")
    assert [(span.attributes or {})["k8s.pod.name"] for span in attempts] == ["web", "db"]
    assert len(spans) > 4
    assert spans[:1] == [spans[0]]
