"""Cycles that found no node, stopped where PostFilter comes, with a few Filter plugins."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml

from kframework import (
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PodInfo,
    Skip,
    Status,
    error,
    hookimpl,
    unschedulable,
)
from kframework.clock import SystemClock
from kframework.config.load import parse
from kframework.config.models import API_VERSION, KIND
from kframework.core.cycle.results import FitError
from kframework.core.cycle.search import Search
from kframework.core.pod_engine import PodEngine
from kframework.core.preemption.evaluator import Evaluator
from kframework.core.runtime.profiles import Profiles, compile_profiles
from kframework.core.runtime.registry import Registry
from kframework.framework.answers import Candidate, Diagnosis
from kframework.framework.cycle_state import StateKey
from kframework.framework.handle import DryRunResult
from kframework.objects import (
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kframework.state.cluster import ClusterState
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod

__all__ = [
    "NOTHING",
    "WEB",
    "Breaks",
    "Counts",
    "Cycle",
    "NotOdd",
    "SpareCpu",
    "TwoOfAnApp",
    "budget",
    "configuration_of",
    "cycle",
    "full",
    "labelled",
    "told",
    "unfit",
]

NOTHING: Any = None  # the outside of an engine that is not stepped
_HANDLE: Any = SimpleNamespace(sources={}, objects=ClusterState().objects)  # of plugins that need no more


class Counts(dict[str, int]):
    """How many pods of the preemptor's app are on each node."""

    def clone(self) -> Counts:
        return Counts(self)


COUNTS = StateKey[Counts]("TwoOfAnApp.counts")


class TwoOfAnApp(Plugin):
    """Let at most two pods of an app on a node, counted once and kept true from then on."""

    name = "TwoOfAnApp"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        if "app" not in pod.labels:
            return Skip
        state[COUNTS] = Counts({node.name: sum(same_app(pod, other) for other in node.pods) for node in nodes})
        return None

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[COUNTS][node.name] += same_app(pod, other)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        state[COUNTS][node.name] -= same_app(pod, other)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("two of the app") if state[COUNTS][node.name] >= 2 else None


def same_app(pod: PodInfo, other: PodInfo) -> bool:
    return pod.labels["app"] == other.labels.get("app")


class SpareCpu(Plugin):
    """Keep 200m of a node's cpu free."""

    name = "SpareCpu"
    reads = "pods"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        taken = node.requested("cpu") + dict(pod.template.fit).get("cpu", 0)
        return unschedulable("no spare cpu") if taken + 200 > node.allocatable("cpu") else None


class NotOdd(Plugin):
    """Refuse odd nodes as if preemption could help there."""

    name = "NotOdd"
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("the node is odd") if "odd" in node.labels else None


class Breaks(Plugin):
    """Fail when a pod leaves the node `fragile`, or comes back to the node `sticky`."""

    name = "Breaks"

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        return error("glued") if node.name == "sticky" else None

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        return error("broken") if node.name == "fragile" else None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None


@cache
def profiles(*plugins: str) -> Profiles:
    """Compile a profile of resources and these plugins; none of them uses its handle."""
    registry = Registry.with_plugins(TwoOfAnApp, SpareCpu, NotOdd, Breaks)
    return compile_profiles(parse(configuration_of(*plugins), "config"), registry, lambda *_: _HANDLE)


def configuration_of(*plugins: str) -> str:
    """Write a configuration of one profile: resources and these plugins."""
    names = ["PrioritySort", "NodeResourcesFit", *plugins, "DefaultBinder"]
    multi_point = {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": multi_point}}],
    }
    return yaml.safe_dump(document)


class Cycle(NamedTuple):
    """A cycle in which no node was found, stopped where PostFilter comes."""

    engine: PodEngine
    search: Search
    pod: PendingPod
    diagnosis: Diagnosis

    @property
    def evaluator(self) -> Evaluator:
        return self.engine.preemption

    def victims(self, node_name: str) -> Candidate | Status:
        node = self.engine.cluster.nodes.find(node_name)
        assert node is not None
        return self.evaluator.victims(self.search.state, self.pod, node)

    def candidates(self, percentage: int = 10, absolute: int = 100) -> DryRunResult:
        return self.evaluator.candidates(
            self.search.state, self.pod, self.diagnosis, percentage=percentage, absolute=absolute
        )


def cycle(
    nodes: list[Node],
    pods: list[Pod],
    preemptor: Pod,
    *,
    budgets: list[PodDisruptionBudget] = [],  # noqa: B006  # never changed
    nominated: list[Pod] = [],  # noqa: B006  # never changed
    plugins: tuple[str, ...] = (),
    preempt_other_schedulers_pods: bool = True,
    verifying: bool | None = None,
) -> Cycle | None:
    """Let a pod go through its cycle up to PostFilter; None if it finds a node."""
    cluster = ClusterState()
    for node in nodes:
        cluster.put_node(node)
    for pod in pods:
        cluster.put_pod(pod)
    for budget in budgets:
        cluster.objects(PodDisruptionBudget).put(budget.metadata, budget)
    for pod in nominated:
        cluster.nominator.nominate(PendingPod(pod, cluster.interner), pod.status.nominated_node_name)
    engine = PodEngine(
        cluster,
        SystemClock(),
        NOTHING,
        lambda engine: profiles(*plugins),
        preempt_other_schedulers_pods=preempt_other_schedulers_pods,
        verifying=verifying,
    )
    pending = PendingPod(preemptor, cluster.interner)
    search = engine.search(engine.start_attempt(QueuedPod(pending, 0.0)))
    outcome = engine.check_outcome(search, search.run())
    return Cycle(engine, search, pending, outcome.diagnosis) if isinstance(outcome, FitError) else None


def unfit(nodes: list[Node], pods: list[Pod], preemptor: Pod, **more: Any) -> Cycle:
    stopped = cycle(nodes, pods, preemptor, **more)
    assert stopped is not None
    return stopped


def budget(
    name: str,
    selector: LabelSelector | None,
    allowed: int = 0,
    *,
    namespace: str = "default",
    disrupted: tuple[str, ...] = (),
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        ),
    )


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


WEB = labelled(app="web")


def full(*names: str) -> tuple[list[Node], list[Pod]]:
    """Make nodes that one pod fills, each."""
    return [make_node(n, cpu=1) for n in names], [make_pod(f"on-{n}", cpu=1, node_name=n) for n in names]


def told(found: Candidate | Status) -> tuple[Any, Any]:
    if isinstance(found, Status):
        return found.code, list(found.reasons)
    return [victim.key for victim in found.victims], found.pdb_violations
