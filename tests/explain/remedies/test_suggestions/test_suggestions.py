"""Plugins of any origin suggest by the same hook; one that has none is taken at its word."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from kframework import (
    ConfigError,
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    Rows,
    Status,
    Suggestion,
    Suggestions,
    Target,
    hookimpl,
    lower_request,
    set_label,
    unresolvable,
)
from kframework.explain.remedies.remedies import NodeRanking
from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.framework.suggestions import UNFIXABLE, ChangeEstimates
from kframework.scheduler.cooperative import run_to_end
from kframework.testing import make_node, make_pod
from kframework.values.status import Code
from tests.support.evaluations import evaluate
from tests.support.remedies import make_engine, pending, remedy_lines, suggest, suggest_deletion


class Tiered(Plugin):
    """Let pods onto nodes with a tier."""

    name = "Tiered"
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None if "tier" in node.labels else unresolvable("no tier")

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None
        assert status == unresolvable("no tier").with_plugin(self.name)
        yield set_label(node.name, "tier", "gold")


class Estimating(Tiered):
    """Know which node is nearer."""

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        return np.array([1.0 if nodes[row].name == "b" else 2.0 for row in nodes.order[rows]])


class Mixing(Tiered):
    """Suggest changes of the cluster and of the pod, together and apart."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None
        yield ()
        yield lower_request("cpu", 100, 0), set_label(node.name, "tier", "gold")
        yield set_label(node.name, "tier", "gold")


class Painting(Tiered):
    """Suggest a change of a kind of its own."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None
        patch = set_label(node.name, "tier", "gold").patch
        yield Suggestion(f"paint {node.name}", Target(node=node.name), patch, "paint")


class Broken(Tiered):
    """Fail to suggest."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        raise LookupError("no idea")


class Talkative(Tiered):
    """Suggest what is no change."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        yield "buy a larger node"  # type: ignore[misc]  # not a change


class Clumsy(Tiered):
    """Suggest a change with a patch that fails."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        assert node is not None
        yield Suggestion("paint the node", Target(node=node.name), lambda node: node.color, "paint")


class Forgetful(Tiered):
    """Suggest a change with a patch that returns nothing."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        yield Suggestion("paint the pod", Target(), lambda pod: None, "paint")


class Misspelt(Tiered):
    """Take other arguments than the contract says."""

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod) -> list[Suggestion]:  # type: ignore[override]  # that is it
        return []


def prospects(plugin: type[Plugin]) -> NodeRanking:
    engine = make_engine([make_node("a"), make_node("b")], plugin)
    evaluation = run_to_end(evaluate(engine, pending(engine, make_pod())))
    made = NodeRanking(evaluation, SuggestHooks(evaluation.profile))
    assert sum(1 for _ in made.work()) == 1
    return made


def test_suggestions_of_external_plugins_are_tried() -> None:
    nodes = [make_node("a"), make_node("b", unschedulable=True)]
    assert remedy_lines(make_pod(), *nodes, plugins=[Tiered]) == ["label a with tier=gold"]
    assert remedy_lines(make_pod(), nodes[1], plugins=[Tiered]) == ["uncordon b and label b with tier=gold"]


def test_unknown_kind_of_change_is_listed_last() -> None:
    assert remedy_lines(make_pod(), make_node("a"), plugins=[Painting]) == ["paint a"]
    cordoned = make_node("a", unschedulable=True)
    assert remedy_lines(make_pod(), cordoned, plugins=[Painting]) == ["uncordon a and paint a"]


def test_pod_changes_are_distinguished_and_unneeded_changes_dropped() -> None:
    assert remedy_lines(make_pod(), make_node("a"), plugins=[Mixing]) == ["label a with tier=gold"]


def test_suggest_nodes_decides_which_nodes_are_searched_first() -> None:
    assert [prospects(plugin).most_promising(1) for plugin in (Tiered, Estimating)] == [[0], [1]]


class Counting(Tiered):
    """Need as many changes as a node's number says; `asked` is how many nodes it was asked about each time."""

    asked: ClassVar[list[int]] = []

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        assert isinstance(rows, np.ndarray)
        self.asked.append(len(rows))
        return np.array([float(nodes[row].name) for row in rows.tolist()])


@pytest.mark.parametrize(("leaves", "estimated"), [(None, 450), ("7", 200), ("449", 200)])
def test_suggest_nodes_is_called_with_chunks_of_nodes(leaves: str | None, estimated: int) -> None:
    engine = make_engine([make_node(str(number)) for number in range(450)], Counting)
    evaluation = run_to_end(evaluate(engine, pending(engine, make_pod())))
    Counting.asked.clear()
    work = SuggestHooks(evaluation.profile).estimate(evaluation, "Tiered", evaluation.rows)
    next(work)
    assert Counting.asked == [200]
    if leaves is not None:
        engine.cluster.remove_node(leaves)
    efforts = run_to_end(work).tolist()
    assert sum(Counting.asked) == estimated
    assert efforts == [*map(float, range(estimated)), *[UNFIXABLE] * (450 - estimated)]


@pytest.mark.parametrize("plugin", [Broken, Talkative, Clumsy, Forgetful])
def test_fault_in_suggest_is_logged_once_with_the_plugin(
    plugin: type[Plugin], caplog: pytest.LogCaptureFixture
) -> None:
    assert remedy_lines(make_pod(), make_node("a"), make_node("b"), plugins=[plugin]) == []
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("kframework.explain")]
    assert "Tiered" in message and "suggest" in message


def test_suggest_signature_is_checked_when_the_plugin_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"hook suggest: takes \(state, pod\) where the contract says \(state, pod, "):
        make_engine([], Misspelt)


def test_status_code_decides_for_plugins_without_suggest() -> None:
    pods = [make_pod(name, node_name="a") for name in ("x", "y")]
    deletions = [(suggest_deletion(pod),) for pod in pods]
    assert suggest("Unknown", make_pod(), make_node("a"), *pods) == deletions
    assert suggest("Unknown", make_pod(), make_node("a"), *pods, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == []
