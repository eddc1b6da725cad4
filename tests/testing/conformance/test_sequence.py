"""Pods scheduled one after another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.testing.conformance.planted import PLUGINS, Json, Part, differing, node, pod, replayed, with_plugins


def sequence() -> Part:
    """Write a case: two nodes, the fuller one with the lower score; the third pod fits nowhere."""
    large = [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]
    return {
        "id": "sequence-1",
        "kind": "sequence",
        "suite": "planted",
        "input": {
            "nodes": [node("a"), node("b")],
            "pods": [],
            "pendingPods": [pod("p0"), pod("p1"), pod("p2", containers=large)],
            "profile": with_plugins(*PLUGINS),
        },
        "expect": {
            "steps": [
                {"pod": "default/p0", "totals": {"a": 397, "b": 397}, "best": ["a", "b"], "host": "a"},
                {"pod": "default/p1", "totals": {"a": 395, "b": 397}, "best": ["b"], "host": "b"},
                {"pod": "default/p2", "fitError": "0/2 nodes are available: 2 Insufficient cpu."},
            ]
        },
    }


def step(number: int, **fields: Json) -> Callable[[Part], None]:
    """Return a change of one step."""

    def change(case: Part) -> None:
        case["expect"]["steps"][number].update(fields)

    return change


def test_each_pod_is_assigned_before_the_next() -> None:
    comparison = replayed(sequence())
    assert comparison.differences == []
    assert comparison.uncompared == ()


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (step(0, totals={"a": 397, "b": 396}), {"steps[0].totals.b"}),
        (step(1, best=["a"]), {"steps[1].best"}),
        (step(1, host="a"), {"steps[1].host"}),
        (step(1, pod="default/other"), {"steps[1].pod"}),
        (step(2, fitError="0/2 nodes are available."), {"steps[2].fitError"}),
        (step(2, error="no"), {"steps[2].error"}),
        (lambda case: case["expect"]["steps"].pop(), {"steps"}),
    ],
)
def test_planted_difference_is_reported(change: Callable[[Part], object], fields: set[str]) -> None:
    assert differing(sequence(), change).keys() == fields


def test_pod_is_assigned_to_the_recorded_node() -> None:
    facts = differing(sequence(), step(0, host="b"))
    assert {"steps[0].host", "steps[1].totals.a", "steps[1].totals.b"} <= facts.keys()
