"""PodTopologySpread, slow and obvious: every answer by loops over all nodes and the pods on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kframework import NodeInfo, PodInfo, Status, unresolvable, unschedulable
from kframework.objects import (
    LabelSelector,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
)
from kframework.objects.label_selectors import Requirement, Selector, SelectorError, exact_selector, label_selector
from kframework.objects.node_selectors import required_node_affinity
from kframework.objects.taints import tolerates
from kframework.plugins.pod_topology_spread.plugin import PodTopologySpreadArgs
from kframework.state.cluster import ClusterState

__all__ = ["LARGE", "SKEWED", "UNLABELLED", "Constraint", "Frozen", "SlowSpread"]

SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
UNLABELLED = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
LARGE = 2**31 - 1

HOSTNAME = "kubernetes.io/hostname"
SYSTEM = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable="ScheduleAnyway"
    ),
)


class Constraint(NamedTuple):
    stated: TopologySpreadConstraint
    selector: Selector

    @property
    def key(self) -> str:
        return self.stated.topology_key


class SlowSpread:
    """The answers about one pod as the cluster is now."""

    def __init__(self, cluster: ClusterState, pod: Pod, args: PodTopologySpreadArgs) -> None:
        self.cluster = cluster
        self.pod = pod
        self.system = args.defaulting_type == "System"
        self.defaults: Sequence[TopologySpreadConstraint] = SYSTEM if self.system else args.default_constraints
        self.nodes: list[NodeInfo] = list(cluster.nodes)

    def constraints(self, action: str) -> list[Constraint]:
        own = self.pod.spec.topology_spread_constraints
        if own:
            return [Constraint(each, self.selector(each)) for each in own if each.when_unsatisfiable == action]
        wanted = [each for each in self.defaults if each.when_unsatisfiable == action]
        default = self.default_selector() if wanted else Selector(())
        return [] if default.empty else [Constraint(each, default) for each in wanted]

    def selector(self, constraint: TopologySpreadConstraint) -> Selector:
        stated = label_selector(constraint.label_selector)
        labels = self.pod.metadata.labels
        own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
        if not own or constraint.label_selector is None:
            return stated
        return Selector([*exact_selector(own).requirements, *stated.requirements])

    def default_selector(self) -> Selector:
        namespace, labels = self.pod.metadata.namespace, self.pod.metadata.labels
        merged: dict[str, str] = {}
        for service in self.cluster.objects(Service):
            wanted = service.spec.selector
            if (
                service.metadata.namespace == namespace
                and wanted is not None
                and exact_selector(wanted).matches(labels)
            ):
                merged |= wanted
        owner = self.pod.metadata.controlling_owner
        if owner is None:
            return exact_selector(merged)
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = self.cluster.objects(ReplicationController).get(owner.name, namespace)
            return exact_selector(merged | (controller.spec.selector if controller is not None else {}))
        selector: LabelSelector | None = None
        if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
            replicas = self.cluster.objects(ReplicaSet).get(owner.name, namespace)
            selector = replicas.spec.selector if replicas is not None else None
        if (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
            stateful = self.cluster.objects(StatefulSet).get(owner.name, namespace)
            selector = stateful.spec.selector if stateful is not None else None
        return Selector([*exact_selector(merged).requirements, *requirements(selector)])

    def count(self, node: NodeInfo, selector: Selector) -> int:
        if selector.empty:
            return 0
        return sum(self.is_of_kind(pod, selector) and not pod.terminating for pod in node.pods)

    def is_of_kind(self, pod: PodInfo, selector: Selector) -> bool:
        return pod.namespace == self.pod.metadata.namespace and selector.matches(pod.labels)

    def meets_policies(self, constraint: Constraint, node: NodeInfo) -> bool:
        if constraint.stated.node_affinity_policy in (None, "Honor"):
            required = required_node_affinity(self.pod.spec)
            if required is not None and not required(node.labels, node.name):
                return False
        if constraint.stated.node_taints_policy == "Honor":
            for taint in node.taints:
                if taint.effect in ("NoSchedule", "NoExecute"):
                    if not any(tolerates(toleration, taint) for toleration in self.pod.spec.tolerations):
                        return False
        return True

    def limits(self) -> list[Frozen]:
        """Count the pods of each domain; raises SelectorError."""
        constraints = self.constraints("DoNotSchedule")
        found = [Frozen(self, constraint, {}) for constraint in constraints]
        for node in self.nodes:
            if all(constraint.key in node.labels for constraint in constraints):
                for each in found:
                    if self.meets_policies(each.constraint, node):
                        domain = node.labels[each.constraint.key]
                        counted = self.count(node, each.constraint.selector)
                        each.domains[domain] = each.domains.get(domain, 0) + counted
        return found

    def add(self, limits: Sequence[Frozen], other: PodInfo, node: NodeInfo, more: int) -> None:
        if all(each.constraint.key in node.labels for each in limits):
            for each in limits:
                if self.is_of_kind(other, each.constraint.selector) and self.meets_policies(each.constraint, node):
                    each.domains[node.labels[each.constraint.key]] += more

    def rejection(self, limits: Sequence[Frozen], node: NodeInfo) -> Status | None:
        for each in limits:
            domain = node.labels.get(each.constraint.key)
            if domain is None:
                return UNLABELLED
            own = 1 if each.constraint.selector.matches(self.pod.metadata.labels) else 0
            if each.domains.get(domain, 0) + own - each.fewest() > each.constraint.stated.max_skew:
                return SKEWED
        return None

    def scores(self, feasible: Sequence[NodeInfo]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Score the feasible nodes, raw and normalized; None to skip, raises SelectorError."""
        constraints = self.constraints("ScheduleAnyway")
        if not constraints:
            return None
        needs_labels = bool(self.pod.spec.topology_spread_constraints) or not self.system

        def is_ignored(node: NodeInfo) -> bool:
            return needs_labels and not all(constraint.key in node.labels for constraint in constraints)

        compared = [node for node in feasible if not is_ignored(node)]
        counts = [
            {node.labels.get(constraint.key, ""): 0 for node in compared} if constraint.key != HOSTNAME else {}
            for constraint in constraints
        ]
        weights = [
            math.log((len(compared) if constraint.key == HOSTNAME else len(domains)) + 2)
            for constraint, domains in zip(constraints, counts, strict=True)
        ]
        for node in self.nodes:
            if is_ignored(node):
                continue
            for constraint, domains in zip(constraints, counts, strict=True):
                domain = node.labels.get(constraint.key, "")
                if domain in domains and self.meets_policies(constraint, node):
                    domains[domain] += self.count(node, constraint.selector)
        raw: dict[str, int] = {}
        for node in feasible:
            score = 0.0
            for constraint, domains, weight in zip(constraints, counts, weights, strict=True):
                if constraint.key in node.labels and not is_ignored(node):
                    own = constraint.key == HOSTNAME
                    pods = self.count(node, constraint.selector) if own else domains[node.labels[constraint.key]]
                    score += float(pods) * weight + float(constraint.stated.max_skew - 1)
            raw[node.name] = math.floor(score) + (score - math.floor(score) >= 0.5)
        low = min((raw[node.name] for node in compared), default=0)
        high = max((raw[node.name] for node in compared), default=0)
        evened = {name: 100 * (high + low - score) // high if high else 100 for name, score in raw.items()}
        return raw, evened | {node.name: 0 for node in feasible if is_ignored(node)}


class Frozen(NamedTuple):
    """The pods of each domain that counts, as they were found."""

    slow: SlowSpread
    constraint: Constraint
    domains: dict[str, int]

    def fewest(self) -> int:
        wanted = self.constraint.stated.min_domains
        if len(self.domains) < (1 if wanted is None else wanted):
            return 0
        return min(self.domains.values(), default=LARGE)


def requirements(selector: LabelSelector | None) -> Iterable[Requirement]:
    try:
        return label_selector(selector).requirements
    except SelectorError:
        return ()
