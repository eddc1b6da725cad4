"""What plugins say in more words of the nodes where least stands in the pod's way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, Rows, Status, hookimpl, unresolvable
from kframework.explain.details import details
from kframework.explain.explanation import Details
from kframework.explain.full_evaluation import evaluate
from kframework.framework.suggestions import Efforts
from kframework.scheduler.slices import finished
from kframework.testing import make_node, make_pod
from tests.support.helping import engine_of, pending


class Sized(Plugin):
    """Reject all nodes, the larger ones for less."""

    name = "Sized"
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status:
        return unresolvable("too small" if node.name != "odd" else "odd")

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        if node.name == "n0":
            return []
        return [f"{node.name} is {status.message}", "  by far"]

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Efforts:
        return np.array([1 / int(node.name[1:] or 1) if node.name[1:].isdigit() else 9.0 for node in _at(nodes, rows)])


def _at(nodes: NodeTable, rows: Rows) -> list[NodeInfo]:
    return [nodes[row] for row in np.arange(nodes.capacity)[rows].tolist()]


def told(*names: str, plugin: type[Plugin] = Sized) -> tuple[Details, ...]:
    engine = engine_of([make_node(name) for name in names], plugin)
    evaluation = finished(evaluate(engine, pending(engine, make_pod())))
    return finished(details(evaluation))


def test_the_nearest_nodes_are_told_of_for_each_reason() -> None:
    said = told("n1", "odd", "n2", "n3", "n4")
    assert [(each.plugin, each.node) for each in said] == [("Sized", name) for name in ("n4", "n3", "n2", "odd")]
    assert said[0].lines == ("n4 is too small", "  by far")
    assert said[-1].lines == ("odd is odd", "  by far")


class Silent(Sized):
    """Say nothing."""

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        return []


class Failing(Sized):
    """Fail."""

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        raise RuntimeError("out of order")


@pytest.mark.parametrize("plugin", [Silent, Failing])
def test_who_has_nothing_to_say_is_not_shown(plugin: type[Plugin]) -> None:
    assert told("n1", plugin=plugin) == ()
