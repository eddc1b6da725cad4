"""What a plugin does not undo, or undoes too often, is found."""

from __future__ import annotations

import pytest

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, PodInfo, Status, hookimpl, unschedulable
from kframework.framework.cycle_state import StateKey
from kframework.testing import ContractViolation
from kframework.testing.contract.probe import PluginUnderTest
from kframework.testing.contract.promises import PROMISES

# The faulty plugins are written as briefly as a newcomer would.
# mypy: disable-error-code="no-untyped-def, no-untyped-call"


class Licences(Plugin):
    """Lets two pods at a time use a licence."""

    name = "Licences"
    most = 2

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.taken = []

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable(f"{len(self.taken)} licences are taken") if len(self.taken) >= self.most else None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        self.taken.append(pod.uid)
        return None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        if pod.uid in self.taken:
            self.taken.remove(pod.uid)


class GivesNothingBack(Licences):
    @hookimpl
    def unreserve(self, state, pod, node_name):
        pass


class GivesBackTwice(Licences):
    most = 1

    @hookimpl
    def unreserve(self, state, pod, node_name):
        del self.taken[-1:]


class GivesBackAll(Licences):
    most = 1

    @hookimpl
    def unreserve(self, state, pod, node_name):
        self.taken.clear()


class GivesBackBlindly(Licences):
    @hookimpl
    def unreserve(self, state, pod, node_name):
        self.taken.remove(pod.uid)


class RefusesForEver(Licences):
    """Only `reserve` itself looks at the counts."""

    @hookimpl
    def filter(self, state, pod, node):
        return None

    @hookimpl
    def reserve(self, state, pod, node_name):
        full = len(self.taken) >= 2
        self.taken.append(pod.uid)
        return unschedulable("no licence is left") if full else None

    @hookimpl
    def unreserve(self, state, pod, node_name):
        pass


class ReservesYes(Licences):
    @hookimpl
    def reserve(self, state, pod, node_name):
        return True


class Crowd(Plugin):
    """Lets pods onto nodes that run few others, as its state counts them."""

    name = "Crowd"
    KEY = StateKey[dict[str, int]]("Crowd")

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        state[self.KEY] = {node.name: len(node.pods) for node in nodes}
        return None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable(f"{state[self.KEY][node.name]} pods") if state[self.KEY][node.name] > 1 else None

    def count(self, state, node, change):
        counts = state[self.KEY]
        state[self.KEY] = counts | {node.name: counts[node.name] + change}

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        self.count(state, node, 1)
        return None

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        self.count(state, node, -1)
        return None


class RemovesNothing(Crowd):
    @hookimpl
    def remove_pod(self, state, pod, other, node):
        pass


class AddsNothing(Crowd):
    @hookimpl
    def add_pod(self, state, pod, other, node):
        pass


class AddsYes(Crowd):
    @hookimpl
    def add_pod(self, state, pod, other, node):
        return unschedulable("no")


@pytest.mark.parametrize(
    ("plugin", "test"),
    [(Licences, "test_unreserve_undoes_reserve"), (Crowd, "test_remove_pod_undoes_add_pod")],
)
def test_plugin_that_reverses_its_state_passes(plugin: type[Plugin], test: str) -> None:
    PROMISES[test].check(PluginUnderTest(plugin=plugin))


@pytest.mark.parametrize(
    ("plugin", "test", "call", "result", "remedy"),
    [
        (GivesNothingBack, "unreserve_undoes_reserve", "reserve and unreserve, the latter twice", "are taken", "undo"),
        (GivesBackTwice, "unreserve_undoes_reserve", "while pod", ", not ", "however often it is called"),
        (GivesBackAll, "unreserve_undoes_reserve", "while pod", "no rejection, not", "nothing else"),
        (GivesBackBlindly, "unreserve_undoes_reserve", "unreserve of pod", "raises ValueError", "does not raise"),
        (RefusesForEver, "unreserve_undoes_reserve", "reserve of pod", "where nothing was ever reserved", "undo"),
        (ReservesYes, "unreserve_undoes_reserve", "reserve of pod", "answers True, which is no Status", "None or a"),
        (RemovesNothing, "remove_pod_undoes_add_pod", "remove_pod", ", not ", "each the reverse"),
        (AddsNothing, "remove_pod_undoes_add_pod", "add_pod", ", not ", "each the reverse"),
        (AddsYes, "remove_pod_undoes_add_pod", "add_pod of pod", "answers", "answer None"),
    ],
)
def test_plugin_that_does_not_reverse_its_state_is_reported(
    plugin: type[Plugin], test: str, call: str, result: str, remedy: str
) -> None:
    with pytest.raises(ContractViolation) as caught:
        PROMISES[f"test_{test}"].check(PluginUnderTest(plugin=plugin))
    assert call in caught.value.call
    assert result in caught.value.result
    assert remedy in caught.value.remedy
