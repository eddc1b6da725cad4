"""pytest finds the fixtures by itself, and pays for those that are used only."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node
from kframework.testing import DecisionLog, Spans, StubClock, make_node, make_pod
from kframework.testing.pytest_plugin import MakeScenario

HEAVY = {"numpy", "pydantic", "aiohttp", "opentelemetry", "yaml", "hypothesis", "kubernetes_asyncio", "msgspec"}

TESTS = """
from kframework.testing import make_node, make_pod

def test_it(scenario):
    result = scenario(nodes=[make_node("a")], pods=[make_pod("web")]).run()
    assert result.node_of("web") == "b"

def test_passing(scenario):
    scenario(nodes=[make_node("other")], pods=[make_pod("web")]).run()
"""


def test_nothing_heavy_is_imported_with_the_plugin() -> None:
    program = "import sys, kframework.testing.pytest_plugin; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in run.stdout.split()}
    assert "kframework" in imported
    assert imported & HEAVY == set()


@pytest.mark.slow
def test_pytest_plugin_shows_decisions_of_a_failed_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "--import-mode=importlib")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*- decisions -*", "default/web, attempt 1: to a, *1 of 1 evaluated nodes feasible"])
    result.stdout.no_fnmatch_line("*to other*")


def test_scenarios_are_observed(scenario: MakeScenario, decisions: DecisionLog, spans: Spans) -> None:
    for name in ("a", "b"):
        scenario(nodes=[make_node(name)], pods=[make_pod("web")]).run()
    assert [decision.node for decision in decisions] == ["a", "b"]
    assert len(spans.with_name("scheduling_attempt")) == 2


@pytest.mark.blocks_loop  # by imports, when it is the first to need them
async def test_scenarios_of_async_tests_are_observed(scenario: MakeScenario, decisions: DecisionLog) -> None:
    await scenario(nodes=[make_node("a")], pods=[make_pod("web")]).arun()
    assert [decision.node for decision in decisions.for_pod("web")] == ["a"]


def test_cluster_uses_the_clock(cluster: MemoryCluster, clock: StubClock) -> None:
    clock.advance(60)
    cluster.add(make_node("a"))
    assert cluster.read(Node, "a").metadata.creation_timestamp == "2026-01-01T00:01:00Z"
