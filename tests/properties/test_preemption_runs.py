"""Whole runs with preemption and churn: what must hold at every decision, and of every node at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from random import Random
from typing import ClassVar

import pytest

from kframework import CycleState, Diagnosis, PendingPod, Plugin, PodInfo, Preempt, hookwrapper
from kframework.core.preemption.dry_runs import DryRun
from kframework.core.runtime.points import PostFilterAnswer
from kframework.framework.answers import Candidate
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Node, Pod, PodDisruptionBudget
from kframework.objects.requests import on_node_requests
from kframework.state.nodes import NodeInfo
from kframework.testing import Scenario, create, delete, make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import budget, labelled
from tests.support.scale import seeds

APPS = ["web", "db", "batch"]
APPS_OF = [{"app": app} for app in APPS]


class Judge(Plugin):
    """Look at every way out that is found, before anybody is sent away."""

    name = "Judge"

    #: What was seen in one run.
    preemptions: ClassVar[Counter[str]] = Counter()

    @hookwrapper
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Generator[None, PostFilterAnswer, PostFilterAnswer]:
        answer = yield
        if isinstance(answer.result, Preempt):
            chosen = min(answer.result.candidates, key=answer.result.key)  # type: ignore[arg-type]  # keys compare
            self._judge(pod, chosen, answer.result.candidates)
        return answer

    def _judge(self, pod: PendingPod, chosen: Candidate, candidates: tuple[Candidate, ...]) -> None:
        for candidate in candidates:
            node = self.handle.nodes.find(candidate.node)
            assert node is not None
            assert all(victim.priority < pod.priority for victim in candidate.victims)
            staying = [other for other in node.pods if other not in candidate.victims]
            assert self._fits(pod, node, staying), f"{pod.key} does not fit on {node.name} after its victims"
            for victim in candidate.victims:
                assert not self._fits(pod, node, [*staying, victim]), f"{victim.key} could have stayed on {node.name}"
            assert candidate.pdb_violations == self._broken(node, pod, candidate)
        assert not chosen.pdb_violations or all(candidate.pdb_violations for candidate in candidates)
        self.preemptions["breaking a budget" if chosen.pdb_violations else "within budgets"] += 1

    def _fits(self, pod: PodInfo, node: NodeInfo, beside: list[PodInfo]) -> bool:
        """Add up requests, once with the pods nominated to the node that are as important, once without."""
        # The pods of a run are assumed on their nodes and nominated to none before the API says so.
        waiting = (other for other in self.handle.pending.values() if other.uid != pod.uid and not other.node_name)
        nominated = [
            other for other in waiting if other.priority >= pod.priority and other.nominated_node_name == node.name
        ]
        return _have_room(node, [*beside, *nominated, pod]) and _have_room(node, [*beside, pod])

    def _broken(self, node: NodeInfo, pod: PendingPod, candidate: Candidate) -> int:
        """Count the victims whose eviction breaks a budget, charged in the order of importance."""
        left = {
            each.metadata.name: each.status.disruptions_allowed for each in self.handle.objects(PodDisruptionBudget)
        }
        lower = [other for other in node.pods if other.priority < pod.priority]
        breaking = []
        for other in sorted(lower, key=lambda other: (-other.priority, other.start_time or "9", other.key)):
            app = other.labels["app"]
            if app in left:
                left[app] -= 1
                if left[app] < 0:
                    breaking.append(other)
        return sum(victim in breaking for victim in candidate.victims)


def _have_room(node: NodeInfo, pods: list[PodInfo]) -> bool:
    cpu = sum(dict(pod.on_node).get("cpu", 0) for pod in pods)
    return cpu <= node.allocatable("cpu") and len(pods) <= node.allocatable("pods")


class Books:
    """What the API's own pods take of each node, after every change."""

    def __init__(self) -> None:
        self.changes = 0

    def watch(self, cluster: MemoryCluster) -> None:
        """Follow the pods of a cluster."""
        self._cluster = cluster
        cluster.subscribe([Pod], self._changed)

    def _changed(self, change: Change) -> None:
        self.changes += 1
        cpu: Counter[str] = Counter()
        pods: Counter[str] = Counter()
        for pod in self._cluster.objects(Pod):
            if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
                pods[pod.spec.node_name] += 1
                cpu[pod.spec.node_name] += on_node_requests(pod).get("cpu", 0)
        for node in self._cluster.objects(Node):
            name, offered = node.metadata.name, node.status.allocatable
            assert cpu[name] <= int(str(offered["cpu"])) * 1000, f"{name} is overcommitted"
            assert pods[name] <= int(str(offered["pods"])), f"{name} has too many pods"


#: Budgets as their status has them, for the slow rule above; that evictions count at once is tested with the plugin.
BY_STATUS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Judge}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
countDownDisruptionBudgets: false
"""


def crowded(random: Random) -> Scenario:
    """Make a crowd in which more and more important pods arrive, others end, go or are taken away with their node."""
    nodes = [make_node(f"node-{n}", cpu=random.choice([2, 4]), pods=random.choice([4, 110])) for n in range(4)]
    budgets = [budget(app, labelled(app=app), random.randint(0, 2)) for app in APPS if random.random() < 0.6]
    scenario = Scenario(nodes=nodes, objects=budgets, plugins=[Judge], config=BY_STATUS)
    moments = [round(random.uniform(0.0, 300.0), 1) for _ in range(40)]
    for n, moment in enumerate(sorted(moments)):
        pod = make_pod(
            f"pod-{n}",
            cpu=f"{random.choice([500, 1000, 1500, 3000])}m",
            labels=random.choice(APPS_OF),
            priority=random.choice([0, 0, 10, 100, 1000]),
            annotations={"kframework.dev/run-seconds": "90"} if random.random() < 0.3 else {},
        )
        scenario.at(moment, create(pod))
        if random.random() < 0.2:
            scenario.at(round(moment + random.uniform(0.0, 100.0), 1), delete_if_there(pod))
    scenario.at(200.0, delete(nodes[0]))
    scenario.at(240.0, create(nodes[0]))
    return scenario


def delete_if_there(pod: Pod):  # type: ignore[no-untyped-def]  # an Action
    """Delete a pod that may have been preempted before."""

    async def act(cluster: MemoryCluster) -> None:
        if any(other.metadata.name == pod.metadata.name for other in cluster.objects(Pod)):
            await cluster.delete(Pod, pod.metadata.name, pod.metadata.namespace)

    return act


@pytest.mark.parametrize("seed", seeds())
def test_preemption_invariants_hold(seed: int) -> None:
    books, Judge.preemptions = Books(), Counter()
    result = crowded(Random(seed)).at(0.0, books.watch).run(until=900.0)
    assert books.changes > 80
    assert Judge.preemptions, "nobody was preempted"
    messages = [decision.message for decision in result.decisions]
    assert not [message for message in messages if "Judge" in message]
    left = {pod.metadata.name: pod for pod in result.cluster.objects(Pod)}
    assert all(pod.spec.node_name or result.message_of(name) for name, pod in left.items())


def test_needless_eviction_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DryRun, "_reprieve", lambda self, what_if, pod: False)
    messages = [decision.message for seed in range(3) for decision in crowded(Random(seed)).run(until=900.0).decisions]
    assert [message for message in messages if "could have stayed on" in message]
