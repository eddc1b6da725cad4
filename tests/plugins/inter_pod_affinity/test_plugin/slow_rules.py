"""The rules of inter-pod affinity once more, slowly: plain objects, and loops over all nodes and pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from kframework import Status, unresolvable, unschedulable
from kframework.objects import LabelSelector, Node, Pod, PodAffinity, PodAntiAffinity
from kframework.objects.pod import PodAffinityTerm, WeightedPodAffinityTerm
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinityArgs

__all__ = ["ALONE", "EXISTING_ANTI_AFFINITY", "REFUSED", "SlowCycle"]

ALONE = unresolvable("node(s) didn't match pod affinity rules")
REFUSED = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

Labels = Mapping[str, str]
#: A topology key and the value of a node.
Domain = tuple[str, str]


def matches(selector: LabelSelector | None, labels: Labels) -> bool:
    """Return whether a selector matches: an absent one nothing, an empty one everything."""
    if selector is None:
        return False
    for expression in selector.match_expressions:
        key, values = expression.key, expression.values
        holds = {
            "In": key in labels and labels[key] in values,
            "NotIn": key not in labels or labels[key] not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not holds[expression.operator]:
            return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items())


def near(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity and pod.spec.affinity.pod_affinity) or PodAffinity()


def away(pod: Pod) -> PodAntiAffinity:
    return (pod.spec.affinity and pod.spec.affinity.pod_anti_affinity) or PodAntiAffinity()


def required(part: PodAffinity | PodAntiAffinity) -> tuple[PodAffinityTerm, ...]:
    return part.required_during_scheduling_ignored_during_execution


def preferred(part: PodAffinity | PodAntiAffinity) -> tuple[WeightedPodAffinityTerm, ...]:
    return part.preferred_during_scheduling_ignored_during_execution


class SlowCycle:
    """The answers about one pod; `pods` are those on the nodes, `namespaces` the labels by name."""

    def __init__(
        self,
        pod: Pod,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        namespaces: Mapping[str, Labels],
        args: InterPodAffinityArgs,
    ) -> None:
        self.pod = pod
        self.nodes = {node.metadata.name: node for node in nodes}
        self.pods = [pod for pod in pods if pod.spec.node_name in self.nodes]
        self.namespaces = namespaces
        self.args = args

    def wants(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Return whether a term of the pod is about another pod."""
        names = set(term.namespaces)
        if not term.namespaces and term.namespace_selector is None:
            names.add(self.pod.metadata.namespace)
        names |= {name for name, labels in self.namespaces.items() if matches(term.namespace_selector, labels)}
        everywhere = matches(term.namespace_selector, {})
        return (other.metadata.namespace in names or everywhere) and matches(term.label_selector, other.metadata.labels)

    def wanted(self, term: PodAffinityTerm, holder: Pod) -> bool:
        """Return whether a term of another pod is about the pod."""
        namespace = self.pod.metadata.namespace
        names = set(term.namespaces)
        if not term.namespaces and term.namespace_selector is None:
            names.add(holder.metadata.namespace)
        selected = matches(term.namespace_selector, self.namespaces.get(namespace, {}))
        return (namespace in names or selected) and matches(term.label_selector, self.pod.metadata.labels)

    def wants_all(self, other: Pod) -> bool:
        """Return whether another pod satisfies every required affinity term of the pod."""
        terms = required(near(self.pod))
        return bool(terms) and all(self.wants(term, other) for term in terms)

    def domain(self, key: str, other: Pod) -> list[Domain]:
        """Return where another pod is in a topology; nowhere if its node has no such label."""
        labels = self.nodes[other.spec.node_name].metadata.labels
        return [(key, labels[key])] if key in labels else []

    @cached_property
    def affinity(self) -> Counter[Domain]:
        return Counter(
            domain
            for other in self.pods
            if self.wants_all(other)
            for term in required(near(self.pod))
            for domain in self.domain(term.topology_key, other)
        )

    @cached_property
    def anti_affinity(self) -> Counter[Domain]:
        return Counter(
            domain
            for other in self.pods
            for term in required(away(self.pod))
            if self.wants(term, other)
            for domain in self.domain(term.topology_key, other)
        )

    @cached_property
    def existing(self) -> Counter[Domain]:
        return Counter(
            domain
            for other in self.pods
            for term in required(away(other))
            if self.wanted(term, other)
            for domain in self.domain(term.topology_key, other)
        )

    @property
    def skips_filter(self) -> bool:
        """Whether PreFilter has nothing for Filter to do."""
        return not self.existing and not required(near(self.pod)) and not required(away(self.pod))

    def rejections(self) -> dict[str, Status]:
        """Return the rejections by node."""
        rejections = {name: self.rejection(node) for name, node in self.nodes.items()}
        return {name: rejection for name, rejection in rejections.items() if rejection is not None}

    def rejection(self, node: Node) -> Status | None:
        labels = node.metadata.labels
        keys = [term.topology_key for term in required(near(self.pod))]
        if any(key not in labels for key in keys):
            return ALONE
        first = not self.affinity and self.wants_all(self.pod)
        if not first and any(not self.affinity[key, labels[key]] for key in keys):
            return ALONE
        refused_in = {term.topology_key for term in required(away(self.pod))}
        if any(self.anti_affinity[key, value] for key, value in labels.items() if key in refused_in):
            return REFUSED
        return EXISTING_ANTI_AFFINITY if any(self.existing[domain] for domain in labels.items()) else None

    @cached_property
    def worth(self) -> dict[Domain, int]:
        """Return what each domain is worth."""
        worth: dict[Domain, int] = {}
        for other in self.pods:
            for key, weight in self.opinions(other):
                for domain in self.domain(key, other):
                    worth[domain] = worth.get(domain, 0) + weight
        return worth

    def opinions(self, other: Pod) -> Iterable[tuple[str, int]]:
        """List the topologies in which the pod and another one want, or do not want, to be near, and how much."""
        for part, sign in ((near, 1), (away, -1)):
            for each in preferred(part(self.pod)):
                if self.wants(each.pod_affinity_term, other):
                    yield each.pod_affinity_term.topology_key, sign * each.weight
            for each in preferred(part(other)):
                if self.wanted(each.pod_affinity_term, other):
                    yield each.pod_affinity_term.topology_key, sign * each.weight
        for term in required(near(other)):
            if self.args.hard_pod_affinity_weight and self.wanted(term, other):
                yield term.topology_key, self.args.hard_pod_affinity_weight

    @property
    def skips_score(self) -> bool:
        """Whether PreScore has nothing for Score to do."""
        prefers = preferred(near(self.pod)) or preferred(away(self.pod))
        return (self.args.ignore_preferred_terms_of_existing_pods and not prefers) or not self.worth

    def scores(self) -> dict[str, int]:
        """Return the raw scores by node."""
        worth = self.worth
        return {
            name: sum(worth.get(domain, 0) for domain in node.metadata.labels.items())
            for name, node in self.nodes.items()
        }
