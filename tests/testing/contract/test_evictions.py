"""A plugin that evicts pods for nothing is found."""

from __future__ import annotations

import pytest

from kframework import Candidate, CycleState, Diagnosis, PendingPod, Plugin, Preempt, Status, hookimpl, unschedulable
from kframework.plugins.default_preemption import DefaultPreemption
from kframework.testing import ContractViolation, make_node, make_pod
from kframework.testing.contract.evictions import check_evictions
from kframework.testing.contract.probe import PluginUnderTest

NODES = [make_node("small", cpu=2), make_node("large", cpu=4)]
PODS = [make_pod(f"{cpu}-{priority}", cpu=cpu, priority=priority) for cpu in (1, 2) for priority in range(3)]


class EvictsAnyPod(Plugin):
    """Evict the first pod of lower priority, whether that is enough or not."""

    name = "EvictsAnyPod"

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt | Status:
        lower = [other for other in self.handle.pods.values() if other.priority < pod.priority and other.row >= 0]
        candidates = [Candidate(other.node_name, (other,)) for other in lower[:1]]
        return Preempt(tuple(candidates), lambda candidate: candidate.node) if candidates else unschedulable("none")


def subject(plugin: type[Plugin]) -> PluginUnderTest:
    return PluginUnderTest(plugin=plugin, other_plugins=("NodeResourcesFit",), nodes=NODES, pods=PODS, examples=4)


def test_eviction_that_makes_no_room_is_found() -> None:
    with pytest.raises(ContractViolation, match="rejects it all the same"):
        check_evictions(subject(EvictsAnyPod))


def test_victims_of_the_scheduler_make_room() -> None:
    assert check_evictions(subject(DefaultPreemption)) > 3
