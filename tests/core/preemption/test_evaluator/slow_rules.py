"""The rules of preemption once more, slowly: plain records, lists copied at every step, no Statement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

from kframework import Code
from kframework.objects import LabelSelector, LabelSelectorRequirement, Node, Pod, PodDisruptionBudget
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import budget, labelled

__all__ = ["Record", "World", "best"]


class Record(NamedTuple):
    """A pod of the slow world."""

    name: str
    namespace: str
    app: str
    cpu: int
    priority: int
    started: datetime
    node: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def importance(self) -> tuple[int, datetime, str]:
        return (-self.priority, self.started, self.key)


#: The victims, most important first, and how many of them break a budget.
DryRun = tuple[list[Record], int]

#: The present of the slow world, which a pod without start time counts from.
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def record(pod: Pod) -> Record:
    (container,) = pod.spec.containers
    started = pod.status.start_time
    return Record(
        pod.metadata.name,
        pod.metadata.namespace,
        pod.metadata.labels.get("app", ""),
        int(str(container.resources.requests["cpu"]).rstrip("m")),
        pod.spec.priority or 0,
        datetime.fromisoformat(started) if started else NOW,
        pod.spec.node_name or pod.status.nominated_node_name,
    )


class World:
    """A random cluster, both as objects and as plain records."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.nodes = [
            make_node(
                f"node-{n}",
                zone=random.choice(["a", "b"]),
                cpu=f"{random.choice([1000, 2000, 3000])}m",
                pods=random.choice([3, 5, 110]),
                labels={"odd": "yes"} if random.random() < 0.1 else {},
                unschedulable=random.random() < 0.1,
            )
            for n in range(random.randint(1, 8))
        ]
        names = [node.metadata.name for node in self.nodes]
        self.pods = [
            self._pod(f"pod-{n}", node_name=random.choice(names))
            for n in range(random.randint(len(names), 5 * len(names)))
        ]
        self.nominated = [
            self._pod(f"nominated-{n}", nominated_node_name=random.choice(names)) for n in range(random.randint(0, 3))
        ]
        self.preemptor = self._pod("preemptor", priority=random.choice([5, 10, 100]))
        self.budgets = [self._budget(f"budget-{n}") for n in range(random.randint(0, 5))]

    def _pod(self, name: str, **more: Any) -> Pod:
        random = self.random
        started = f"2026-01-01T00:00:{random.randint(0, 5):02}Z"
        return make_pod(
            name,
            namespace=random.choice(["default", "other"]),
            labels=random.choice([{}, {"app": "web"}, {"app": "db"}]),
            cpu=f"{random.choice([100, 300, 500, 800, 1500])}m",
            memory=None,
            start_time=random.choice([None, started, started, started]),
            deletion_timestamp=random.choice([None, None, "2026-01-01T01:00:00Z"]),
            **{"priority": random.choice([None, -5, 0, 5, 10]), **more},
        )

    def _budget(self, name: str) -> PodDisruptionBudget:
        random = self.random
        in_list = LabelSelectorRequirement(key="app", operator="In", values=("web", "db"))
        selectors = [labelled(app="web"), labelled(app="db"), LabelSelector(match_expressions=(in_list,))]
        selectors.append(LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Near"),)))
        return budget(
            name,
            random.choice([*selectors, LabelSelector(), None]),
            random.choice([0, 0, 1, 2]),
            namespace=random.choice(["default", "other"]),
            disrupted=(f"pod-{random.randint(0, 10)}",),
        )

    def rejection(self, node: Node, pods: list[Record]) -> tuple[Code, list[str]] | None:
        """Return the rejection of the preemptor on a node with these pods, first assuming its nominated pods."""
        pod = record(self.preemptor)
        rivals = [r for r in map(record, self.nominated) if r.node == node.metadata.name and r.priority >= pod.priority]
        return self._first_rejection(node, pods + rivals) or self._first_rejection(node, pods)

    def _first_rejection(self, node: Node, pods: list[Record]) -> tuple[Code, list[str]] | None:
        pod, offered = record(self.preemptor), int(str(node.status.allocatable["cpu"])[:-1])
        free = offered - sum(other.cpu for other in pods)
        reasons = ["Too many pods"] if len(pods) + 1 > int(str(node.status.allocatable["pods"])) else []
        if pod.cpu > free:
            reasons.append("Insufficient cpu")
        if reasons:
            return (Code.UNSCHEDULABLE_AND_UNRESOLVABLE if pod.cpu > offered else Code.UNSCHEDULABLE, reasons)
        if pod.app and sum(other.app == pod.app for other in pods) >= 2:
            return (Code.UNSCHEDULABLE, ["two of the app"])
        if free - pod.cpu < 200:
            return (Code.UNSCHEDULABLE, ["no spare cpu"])
        if "odd" in node.metadata.labels:
            return (Code.UNSCHEDULABLE, ["the node is odd"])
        return None

    def on(self, node: Node) -> list[Record]:
        return [pod for pod in map(record, self.pods) if pod.node == node.metadata.name]

    def dry_run(self, node: Node) -> DryRun | tuple[Code, list[str]]:
        """Return the victims and the number of budgets' violations, or why there are none."""
        preemptor, pods = record(self.preemptor), self.on(node)
        lower = sorted((pod for pod in pods if pod.priority < preemptor.priority), key=lambda pod: pod.importance)
        if not lower:
            return (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ["No preemption victims found for incoming pod"])
        kept = [pod for pod in pods if pod not in lower]
        rejection = self.rejection(node, kept)
        if rejection is not None:
            return rejection
        violating = self._violating(lower)
        victims = []
        for pod in [pod for pod in lower if pod in violating] + [pod for pod in lower if pod not in violating]:
            if self.rejection(node, [*kept, pod]) is None:
                kept.append(pod)
            else:
                victims.append(pod)
        if not victims:
            return (Code.ERROR, [f'expected at least one victim pod on node "{node.metadata.name}"'])
        return sorted(victims, key=lambda pod: pod.importance), len([pod for pod in victims if pod in violating])

    def candidates(self, order: list[str], offsets: Random, percentage: int, absolute: int) -> dict[str, DryRun]:
        """Dry-run the nodes whose rejection is Unschedulable, from a random place in this order, until it is enough."""
        nodes = {node.metadata.name: node for node in self.nodes}
        rejections = {name: self.rejection(nodes[name], self.on(nodes[name])) for name in order}
        potential = [name for name in order if (rejections[name] or (None,))[0] == Code.UNSCHEDULABLE]
        enough = min(len(potential), max(len(potential) * percentage // 100, absolute))
        safe: dict[str, DryRun] = {}
        violating: dict[str, DryRun] = {}
        offset = offsets.randrange(len(potential)) if potential else 0
        for place in range(len(potential)):
            name = potential[(offset + place) % len(potential)]
            victims, violations = self.dry_run(nodes[name])
            if isinstance(victims, Code) or not isinstance(violations, int):
                continue
            if violations == 0:
                safe[name] = victims, violations
            elif len(violating) < enough:
                violating[name] = victims, violations
            if safe and len(safe) + len(violating) >= enough:
                break
        return safe | violating

    def _violating(self, pods: list[Record]) -> list[Record]:
        allowed = {each.metadata.name: each.status.disruptions_allowed for each in self.budgets}
        violating = []
        for pod in pods:
            broken = False
            for each in self.budgets:
                if each.metadata.namespace == pod.namespace and pod.app and covers(each.spec.selector, pod.app):
                    if pod.name not in each.status.disrupted_pods:
                        allowed[each.metadata.name] -= 1
                        broken = broken or allowed[each.metadata.name] < 0
            if broken:
                violating.append(pod)
        return violating


def covers(selector: LabelSelector | None, app: str) -> bool:
    """Answer for the selectors that occur above."""
    if selector is None:
        return False
    if selector.match_expressions:
        return selector.match_expressions[0].operator == "In"
    return selector.match_labels.get("app") == app


def best(candidates: Mapping[str, DryRun]) -> str:
    """Choose as kube-scheduler does, criterion by criterion; among equals the smallest name."""
    victims = {name: dry_run[0] for name, dry_run in candidates.items()}

    def earliest(name: str) -> float:
        highest = [pod for pod in victims[name] if pod.priority == victims[name][0].priority]
        return min(pod.started for pod in highest).timestamp()

    names = sorted(candidates)
    for cost in (
        lambda name: candidates[name][1],
        lambda name: victims[name][0].priority,
        lambda name: sum(pod.priority + 2**31 for pod in victims[name]),
        lambda name: len(victims[name]),
        lambda name: -earliest(name),
    ):
        least = min(cost(name) for name in names)
        names = [name for name in names if cost(name) == least]
    return names[0]
