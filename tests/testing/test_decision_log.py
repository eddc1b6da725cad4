"""Decisions are logged in lines that people read."""

from __future__ import annotations

from kframework.testing import DecisionLog, Scenario, make_node, make_pod


def decided(pods: int) -> DecisionLog:
    log = DecisionLog()
    nodes = [make_node("a", pods=1)]
    Scenario(nodes=nodes, pods=[make_pod(f"pod-{n}") for n in range(pods)], observers=[log]).run()
    return log


def test_log_has_a_line_for_each_attempt() -> None:
    log = decided(2)
    first, second = str(log).splitlines()
    assert first.startswith("default/pod-0, attempt 1: to a, score ")
    assert first.endswith("; 1 of 1 evaluated nodes feasible")
    assert second.startswith("default/pod-1, attempt 1: unschedulable: 0/1 nodes are available: 1 Too many pods.")
    assert [len(log), len(log[:1]), log[1].pod, len(log.for_pod("pod-0")), len(log.for_pod("other/pod-0"))] == [
        *(2, 1, "default/pod-1", 1, 0)
    ]


def test_long_log_shows_the_last_decisions() -> None:
    log = decided(1)
    for _ in range(200):
        log.on_decision(log[0])
    lines = str(log).splitlines()
    assert (len(lines), lines[0]) == (201, "... 1 more before")
