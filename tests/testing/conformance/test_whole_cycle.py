"""Whole cycles, as they are compared."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Skip, Status, hookimpl, unschedulable
from kframework.core.runtime.registry import Registry
from kframework.framework.answers import NodeNames
from kframework.testing.conformance.recorded import SUCCESS, RecordedStatus
from kframework.testing.conformance.single import SingleInput
from kframework.testing.conformance.whole_cycle import WholeCycle
from tests.testing.conformance.planted import PLUGINS, TAINT, Part, node, pod, single, with_plugins

UNTOLERATED = RecordedStatus(code="UnschedulableAndUnresolvable", reasons=(TAINT,), plugin="TaintToleration")


class Pinning(Plugin):
    """Leaves the nodes `hard` and `soft`."""

    name = "Pinning"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> NodeNames:
        return {"hard", "soft"}


class Refusing(Plugin):
    """Refuses every pod."""

    name = "Refusing"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> Status:
        return unschedulable("never")


class Stranger(Plugin):
    """Does not sign, and rejects `hard` before others do."""

    name = "Stranger"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("strange") if node.name == "hard" else None


class Silent(Plugin):
    """Has nothing to score by."""

    name = "Silent"

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: object, rows: object) -> Status:
        return Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 0


def cycle(changes: Part | None = None, *plugins: type[Plugin]) -> WholeCycle:
    """Put a changed planted case through a cycle, these plugins standing before its own."""
    profile = with_plugins(*(plugin.name for plugin in plugins), *PLUGINS)
    inputs = msgspec.convert({**single()["input"], "profile": profile, **(changes or {})}, SingleInput)
    engine = inputs.engine(Registry.with_plugins(*plugins))
    return WholeCycle(engine, PendingPod(inputs.pod, engine.cluster.interner))


def test_statuses_are_those_of_the_search() -> None:
    result = cycle()
    assert result.statuses == {"plain": SUCCESS, "hard": UNTOLERATED, "soft": SUCCESS}
    assert result.feasible == ["plain", "soft"]
    assert result.totals == {"plain": 397, "soft": 97}
    assert result.best == ["plain"]
    assert (result.fit_error(), result.failed) == ("", False)


def test_nodes_with_equal_totals_are_all_best() -> None:
    assert cycle({"nodes": [node("b"), node("a")]}).best == ["a", "b"]


def test_single_node_is_scored() -> None:
    result = cycle({"nodes": [node("only")]})
    assert (result.totals, result.best) == ({"only": 397}, ["only"])


def test_empty_cluster_has_no_totals() -> None:
    result = cycle({"nodes": [node("hard", key="x", effect="NoSchedule")]})
    assert (result.feasible, result.totals, result.best) == ([], {}, [])
    assert result.fit_error() == f"0/1 nodes are available: 1 {TAINT}."
    assert result.fit_error("no way out.") == f"0/1 nodes are available: 1 {TAINT}. no way out."


def test_node_excluded_by_pre_filter_is_unresolvable() -> None:
    result = cycle(None, Pinning)
    left_out = RecordedStatus(
        code="UnschedulableAndUnresolvable", reasons=("node(s) didn't satisfy plugin(s) [Pinning]",)
    )
    assert result.statuses == {"plain": left_out, "hard": UNTOLERATED, "soft": SUCCESS}
    assert result.feasible == ["soft"]


def test_pre_filter_rejection_applies_to_every_node() -> None:
    result = cycle(None, Refusing)
    never = RecordedStatus(code="Unschedulable", reasons=("never",), plugin="Refusing")
    assert result.statuses == dict.fromkeys(("plain", "hard", "soft"), never)
    assert result.fit_error() == "0/3 nodes are available: never."


def test_feasible_nominated_node_is_the_only_feasible_one() -> None:
    result = cycle({"pod": pod("pending", nominatedNodeName="soft")})
    assert result.feasible == ["soft"]
    assert result.totals == {"soft": 97}
    assert result.statuses == {"plain": SUCCESS, "hard": UNTOLERATED, "soft": SUCCESS}


def test_nominated_pods_are_assumed_on_their_nodes() -> None:
    requests = {"resources": {"requests": {"cpu": "4"}}}
    rival = pod("rival", nominatedNodeName="plain", priority=10, containers=[{"name": "main", **requests}])
    wanting = pod("pending", containers=[{"name": "main", **requests}])
    result = cycle({"nominatedPods": [rival], "pod": wanting})
    assert str(result.statuses["plain"]) == "NodeResourcesFit Unschedulable: Insufficient cpu"
    assert result.feasible == ["soft"]


def test_first_rejection_is_reported_for_nodes_the_search_skipped() -> None:
    result = cycle(None, Stranger)
    assert str(result.statuses["hard"]) == "Stranger Unschedulable: strange"
    assert result.feasible == ["plain", "soft"]


def test_every_passing_node_is_feasible_without_scoring_plugins() -> None:
    profile = with_plugins("PrioritySort", "DefaultBinder", "NodeName")
    inputs = msgspec.convert({**single()["input"], "profile": profile}, SingleInput)
    engine = inputs.engine(Registry.from_installed())
    result = WholeCycle(engine, PendingPod(inputs.pod, engine.cluster.interner))
    assert result.feasible == ["hard", "plain", "soft"]
    assert result.totals == {"hard": 0, "plain": 0, "soft": 0}
    assert result.best == ["hard", "plain", "soft"]


def test_totals_are_zero_if_all_scores_are_skipped() -> None:
    result = cycle(None, Silent)
    assert result.totals == {"plain": 397, "soft": 97}


@pytest.fixture
def lying() -> Iterator[type[Plugin]]:
    """A plugin whose remembered answers are not those it gives when it is asked again."""

    class Lying(Plugin):
        name = "Lying"
        reads = "node"
        called = 0

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            type(self).called += 1
            return unschedulable("lie") if type(self).called <= 3 else None

    yield Lying


def test_cached_answers_are_checked(lying: type[Plugin]) -> None:
    (doubt,) = cycle(None, lying).compare_cached()
    assert doubt.differs
    assert "lie" in str(doubt.got)
    assert list(cycle().compare_cached()) == []
