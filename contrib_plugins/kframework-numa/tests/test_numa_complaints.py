"""What users of NUMA-aware scheduling complain about, each beside the naive rule that leads there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kframework_numa import NodeResourceTopologyMatch
from kframework_numa.over_reserve import OverReserve
from kframework_numa.testing import PUBLISHED, WITH_CACHE, Kubelets, guaranteed_pod
from kframework_numa.topology import NumaTopology
from msgspec.structs import replace

from kframework import ClusterEvent, Plugin, hookimpl
from kframework.objects import Pod
from kframework.testing import Scenario, ScenarioResult, create, delete, make_node

#: A profile that compares the requests of pods with what nodes have as a whole.
BY_NODE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Naive(NodeResourceTopologyMatch):
    """The plugin with a rule that seems to suffice."""


class TakesNamesForPods(OverReserve):
    """Take a report to include whatever pods have the names in its fingerprint, whenever they came."""

    def topology(self, node: Any) -> NumaTopology | None:
        newest = self.by_node.get(node.name)
        return newest if newest is not None and self._matches(node.name, newest) else super().topology(node)


class ByNames(Naive):
    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self._reports = TakesNamesForPods(handle, args.cache.resync_method)


class WokenByNodes(Naive):
    """Wake pods when nodes change: reports seem to be no concern of the queue."""

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [event for event in super().events_to_register() if event.resource == "Node"]


def run(
    kubelets: Kubelets,
    steps: Mapping[float, Any],
    config: str = WITH_CACHE,
    plugin: type[Plugin[Any]] = NodeResourceTopologyMatch,
    seconds: int = 80,
) -> ScenarioResult:
    """Run a scheduler beside these kubelets, whose agents report every 20 seconds."""
    scenario = Scenario(
        nodes=[make_node(name, cpu=sum(cpus), memory="64Gi") for name, cpus in kubelets.zones.items()],
        objects=kubelets.reports(),
        plugins=[plugin],
        config=config,
    )
    for second in range(seconds):
        scenario.at(second + 0.9, kubelets.admit)
        if second % 20 == 19:
            scenario.at(second + 0.95, kubelets.publish)
    for at, step in steps.items():
        scenario.at(at, step)
    return scenario.run(until=seconds)


def refused(zones: Mapping[str, Sequence[int]], steps: Mapping[float, Any], *rule: Any) -> list[str]:
    """Run, and return the pods that kubelets refused with a TopologyAffinityError."""
    kubelets = Kubelets(zones)
    run(kubelets, steps, *rule)
    return kubelets.refused


def pod(name: str, *cpus: int) -> Pod:
    return guaranteed_pod(name, *({"cpu": each} for each in cpus))


@pytest.mark.parametrize(("rule", "lost"), [(WITH_CACHE, []), (BY_NODE, ["wide"])])
def test_node_whose_room_is_split_between_zones_is_not_chosen(rule: str, lost: list[str]) -> None:
    """The scheduler says yes, the node says no: of its CPUs six are free, but no more than three in one zone."""
    assert refused({"node": (3, 3)}, {1.0: create(pod("wide", 4))}, rule) == lost


@pytest.mark.parametrize(("rule", "lost"), [(WITH_CACHE, []), (PUBLISHED, ["third"])])
def test_pods_between_two_reports_do_not_get_the_same_room(rule: str, lost: list[str]) -> None:
    """Each pod sees the report from before the others: by the newest report alone, it fits either zone."""
    steps = {1.0: create(pod("first", 3)), 2.0: create(pod("second", 3)), 3.0: create(pod("third", 2))}
    assert refused({"node": (4, 4)}, steps, rule) == lost


@pytest.mark.parametrize(("plugin", "lost"), [(NodeResourceTopologyMatch, []), (ByNames, ["next"])])
def test_pod_with_the_name_of_a_reported_one_is_not_taken_for_it(plugin: type[Plugin[Any]], lost: list[str]) -> None:
    """A StatefulSet creates a pod again under its name: a report of the one before says nothing of its zone."""
    first, other = pod("set-0", 1), pod("set-0", 3)
    again = replace(other, metadata=replace(other.metadata, uid="again"))
    steps = {
        1.0: create(pod("other", 3)),
        2.0: create(first),
        41.0: delete(first),  # for 30 s it ends, and is in the report at 60 s
        72.0: create(again),
        73.0: create(pod("next", 2)),
    }
    assert refused({"node": (4, 4)}, steps, WITH_CACHE, plugin) == lost


@pytest.mark.parametrize("plugin", [NodeResourceTopologyMatch, WokenByNodes])
def test_pod_is_tried_again_when_a_report_has_room_for_it(plugin: type[Plugin[Any]]) -> None:
    """A pod stayed pending for minutes although its node had room: nothing that the scheduler watched had changed."""
    steps = {
        1.0: create(pod("first", 3)),
        2.0: create(pod("second", 3)),
        21.0: create(pod("third", 2)),
        22.0: delete(pod("first", 3)),
    }
    result = run(Kubelets({"node": (4, 4)}), steps, PUBLISHED, plugin)
    assert (result.node_of("third") is None) is (plugin is WokenByNodes)
