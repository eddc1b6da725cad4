"""Pods that a plugin gates are reported on themselves if the configuration says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    EventResource,
    PendingPod,
    Plugin,
    Simulation,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.core.runtime.programmatic import configuration_with_plugins
from kframework.objects import Event, Pod
from kframework.testing import make_node, make_pod


class Budget(Plugin):
    """Gates pods with a message that is never the same, and is woken by all that happens to pods."""

    name = "Budget"
    calls = 0

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status:
        type(self).calls += 1
        return unschedulable(f"over budget, call {self.calls}")

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.POD, ActionType.ALL), ClusterEvent(EventResource.NODE, ActionType.ALL)]


@pytest.mark.parametrize("reported", [True, False])
def test_gated_pod_gets_condition_and_event_if_configured(reported: bool) -> None:
    Budget.calls = 0
    configuration = configuration_with_plugins(None, [Budget])
    options = configuration.options.model_copy(update={"report_gated_pods": reported})
    configuration = replace(configuration, options=options)
    pods = [make_pod("over"), make_pod("gated", gates=["example.com/wait"])]
    with Simulation([make_node("a"), *pods], configuration, plugins=[Budget]) as simulation:
        simulation.run(60)
        conditions = {
            (pod.metadata.name, each.reason): each.message
            for pod in simulation.cluster.objects(Pod)
            for each in pod.status.conditions
        }
        events = [(event.reason, event.regarding.name) for event in simulation.cluster.objects(Event)]
    wanted = [("NotReadyForScheduling", "over")] if reported else []
    assert events == wanted
    assert ("over", "NotReadyForScheduling") in conditions or not reported
    assert ("gated", "NotReadyForScheduling") not in conditions
    assert Budget.calls < 5
