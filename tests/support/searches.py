"""Drives the search for a node without an engine: a profile of given plugins, over tables, remembering as it goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import cast

from kframework import Handle, Plugin
from kframework.core.cycle.plan import Plan, PlanCache
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.core.runtime.hooks import POINTS, extension_points
from kframework.core.runtime.profile import Profile
from kframework.objects import Node, Pod
from kframework.plugins.priority_sort import PrioritySort
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod

__all__ = ["Outcome", "SearchFixture", "build_profile"]

Outcome = ScheduleResult | FitError | ScheduleError


def build_profile(
    *plugins: Plugin | type[Plugin], percentage: int = 0, weights: Mapping[str, int] | None = None
) -> Profile:
    """Compile a profile of these plugins in this order; classes are made with their default Args."""
    named = {plugin.name: plugin for plugin in map(_create_plugin, (PrioritySort, *plugins))}
    points = {point: [name for name in named if point in extension_points(type(named[name]))] for point in POINTS}
    return Profile("default-scheduler", named, points, weights or {}, percentage_of_nodes_to_score=percentage)


def _create_plugin(plugin: Plugin | type[Plugin]) -> Plugin:
    return plugin(plugin.Args(), cast("Handle", ClusterState())) if isinstance(plugin, type) else plugin


class SearchFixture:
    """A cluster, a profile, and what is remembered from one search to the next."""

    def __init__(
        self,
        profile: Profile,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        *,
        cluster: ClusterState | None = None,
        budget: int = 1 << 20,
    ) -> None:
        self.cluster = cluster or ClusterState()
        self.nodes = self.cluster.nodes
        self.profile = profile
        self.layers = PlanCache(profile, self.nodes, budget)
        self.rotation = Rotation()
        self.random = Random(0)
        for node in nodes:
            self.cluster.put_node(node)
        for pod in pods:
            self.cluster.put_pod(pod)

    def pending(self, pod: Pod) -> PendingPod:
        return PendingPod(pod, self.cluster.interner)

    def plan(self, pod: Pod | PendingPod) -> Plan:
        pending = self.pending(pod) if isinstance(pod, Pod) else pod
        return self.layers.plan(self.profile.sign(pending), pending)

    def search(self, pod: Pod | PendingPod) -> Search:
        pending = self.pending(pod) if isinstance(pod, Pod) else pod
        return Search(self.cluster, self.plan(pending), pending, self.rotation, self.random)

    def run(self, pod: Pod | PendingPod) -> Outcome:
        return self.search(pod).run()
