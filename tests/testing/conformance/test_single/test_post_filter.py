"""The results of PostFilter are compared."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from kframework import ClearNomination, CycleState, PendingPod, Plugin, Preempt, Status, error, hookimpl, unschedulable
from kframework.core.runtime.registry import Registry
from kframework.framework.answers import Diagnosis
from kframework.objects.problem import format_path
from kframework.testing.conformance.cases import Uncompared
from kframework.testing.conformance.recorded import RecordedPostFilter
from kframework.testing.conformance.single import SingleInput, compare_post_filter
from kframework.testing.conformance.whole_cycle import WholeCycle
from tests.testing.conformance.planted import Part, node, pod, with_plugins

NO_CLAIMS = "no new claims to deallocate"
NO_VICTIMS = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
FIT = "0/2 nodes are available: 2 Insufficient cpu."
BASIS = ("PrioritySort", "DefaultBinder", "NodeResourcesFit")


class DynamicResources(Plugin):
    """Finds nothing, or fails."""

    name = "DynamicResources"
    answer: ClassVar[Status] = unschedulable(NO_CLAIMS)

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status:
        return self.answer


class DefaultPreemption(Plugin):
    """Asks the evaluator."""

    name = "DefaultPreemption"

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt | ClearNomination:
        preemption = self.handle.preemption
        runs = preemption.candidates(state, pod, diagnosis)
        if runs.candidates:
            return Preempt(runs.candidates, preemption.key)
        return ClearNomination(unschedulable(*(f"preemption: {reason}" for reason in runs.status.reasons)))


def asking(name: str, priority: int, cpu: str, **spec: str) -> Part:
    """Write a pod that asks for CPU."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return pod(name, priority=priority, containers=containers, **spec)


def differing(recorded: Part, *plugins: type[Plugin], priority: int = 10, cpu: str = "4") -> set[str]:
    """Let a pod look for a way out of two full nodes; return the fields that differ, and what is left uncompared."""
    case = {
        "nodes": [node("a"), node("b")],
        "pods": [asking(name, 0, "3", nodeName=name) for name in "ab"],
        "pod": asking("pending", priority, cpu),
        "profile": with_plugins(*BASIS, *(plugin.name for plugin in plugins)),
    }
    given = msgspec.convert(case, SingleInput)
    engine = given.engine(Registry.with_plugins(*plugins))
    cycle = WholeCycle(engine, PendingPod(given.pod, engine.cluster.interner))
    facts = compare_post_filter(
        msgspec.convert(recorded, RecordedPostFilter), cycle, {plugin.name for plugin in plugins}
    )
    return {
        f"{item.part}: {item.reason}" if isinstance(item, Uncompared) else format_path(item.path)
        for item in facts
        if isinstance(item, Uncompared) or item.differs
    }


def preempting() -> Part:
    """Write what is recorded when the pod preempts: both nodes are equally good."""
    return {
        "code": "Success",
        "preemption": {"code": "Success"},
        "nominatedNode": "a",
        "nominatedAnyOf": ["a", "b"],
        "victims": ["default/a"],
        "candidates": {
            "a": {"victims": ["default/a"], "pdbViolations": 0},
            "b": {"victims": ["default/b"], "pdbViolations": 0},
        },
        "fitErrorAfterPostFilter": FIT,
    }


def failing() -> Part:
    """Write the record of a pod without less important ones."""
    return {
        "code": "Unschedulable",
        "message": f"{NO_CLAIMS}, {NO_VICTIMS}",
        "preemption": {"code": "Unschedulable", "reasons": [NO_VICTIMS]},
        "nominatedNode": "",
        "fitErrorAfterPostFilter": f"{FIT} {NO_CLAIMS}, {NO_VICTIMS}",
    }


def test_whole_post_filter_is_compared_if_both_plugins_exist() -> None:
    assert differing(preempting(), DynamicResources, DefaultPreemption) == set()
    assert differing(failing(), DynamicResources, DefaultPreemption, priority=0) == set()


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"code": "Unschedulable", "message": NO_CLAIMS}, {"postFilter.code", "postFilter.message"}),
        ({"preemption": {"code": "Unschedulable"}}, {"postFilter.preemption"}),
        ({"nominatedNode": "b", "nominatedAnyOf": [], "victims": ["default/b"]}, {"postFilter.nominatedNode"}),
        ({"victims": ["default/b"]}, {"postFilter.victims"}),
        ({"candidates": {"a": {"victims": ["default/a"]}}}, {"postFilter.candidates.b"}),
        ({"fitErrorAfterPostFilter": ""}, {"postFilter.fitErrorAfterPostFilter"}),
    ],
)
def test_planted_difference_is_reported(changes: Part, fields: set[str]) -> None:
    assert differing({**preempting(), **changes}, DynamicResources, DefaultPreemption) == fields


def test_unrecorded_preemption_is_reported() -> None:
    fields = differing(failing(), DynamicResources, DefaultPreemption)
    assert {"postFilter.preemption", "postFilter.nominatedNode", "postFilter.code"} <= fields


def test_part_of_the_existing_plugin_is_compared() -> None:
    left_out = "postFilter: DefaultPreemption is not implemented"
    assert differing(failing(), DynamicResources) == {left_out}
    assert differing(preempting(), DynamicResources) == {left_out}
    other = {**failing(), "message": f"claims deallocated, {NO_VICTIMS}"}
    assert differing(other, DynamicResources) == {left_out, "postFilter.DynamicResources"}
    left_out = "postFilter: DynamicResources is not implemented"
    assert differing(preempting(), DefaultPreemption) == {left_out}
    assert differing(failing(), DefaultPreemption, priority=0) == {left_out}


class FailingClaims(DynamicResources):
    """Does not find its state."""

    answer = error("not found")


def test_error_ends_post_filter() -> None:
    recorded = {**failing(), "code": "Error", "message": "not found", "fitErrorAfterPostFilter": f"{FIT} not found"}
    assert differing(recorded, FailingClaims, DefaultPreemption, priority=0) == set()
    fields = differing(recorded, DynamicResources, DefaultPreemption, priority=0)
    assert {"postFilter.code", "postFilter.DynamicResources"} <= fields


def test_post_filter_does_not_run_if_a_node_is_feasible() -> None:
    assert differing(preempting(), DynamicResources, DefaultPreemption, cpu="1") == {"postFilter"}
