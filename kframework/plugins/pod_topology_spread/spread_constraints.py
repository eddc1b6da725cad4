"""Topology spread constraints, compiled: a pod's own, or the default ones about the pods of its services and owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kframework.objects import (
    LabelSelector,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    TopologySpreadConstraint,
)
from kframework.objects.label_selectors import (
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    exact_selector,
    label_selector,
)
from kframework.state.objects import ObjectStore, Stores
from kframework.state.pod_counts import LabelClass, Selection
from kframework.state.pods import PendingPod, PodInfo

#: The actions for a pod that would skew the spread.
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

_OWNERS: Mapping[tuple[str, str], type[ReplicationController | ReplicaSet | StatefulSet]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}


class SpreadConstraint(NamedTuple):
    """A limit on how unevenly the selected pods of a namespace may be spread over the values of a node label.

    `counted` are the pods that count; node affinity and taints, if honored, determine on which nodes.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    counted: Selection
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def leeway(self, pod: PodInfo) -> int:
        """Return how many more pods than the minimum a domain may have before the pod joins it."""
        return self.max_skew - self.selector.matches(pod.labels)


def topology_keys(constraints: Iterable[SpreadConstraint]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(constraint.topology_key for constraint in constraints))


def own_constraints(pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
    """Return the constraints with this action that a pod itself has; raises SelectorError."""
    # Pods share a template only if their namespace and the labels that the constraints name are the same.
    return pod.template.cached(
        (own_constraints, action),
        lambda spec: tuple(
            _compile(constraint, _selector(constraint, pod.labels), pod.namespace)
            for constraint in spec.topology_spread_constraints
            if constraint.when_unsatisfiable == action
        ),
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = label_selector(constraint.label_selector)
    own = [Requirement(key, "=", (labels[key],)) for key in constraint.match_label_keys if key in labels]
    return selector if not own or selector is NOTHING else Selector((*own, *selector.requirements))


def _compile(constraint: TopologySpreadConstraint, selector: Selector, namespace: str) -> SpreadConstraint:
    # kube-scheduler counts no pod for a selector that is empty, though every pod matches it.
    counted = NOTHING if selector.empty else selector
    return SpreadConstraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        Selection(frozenset((namespace,)), counted, terminating=False),
        1 if constraint.min_domains is None else constraint.min_domains,
        constraint.node_affinity_policy in (None, "Honor"),
        constraint.node_taints_policy == "Honor",
    )


class DefaultConstraints:
    """The constraints of pods without their own.

    They apply to the pods selected by the pod's services, and by the ReplicationController, ReplicaSet or StatefulSet
    that controls it; a pod with neither has no constraints.
    """

    def __init__(self, constraints: Sequence[TopologySpreadConstraint], stores: Stores) -> None:
        self._constraints = {
            action: [constraint for constraint in constraints if constraint.when_unsatisfiable == action]
            for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        }
        self._stores = stores
        #: The results for pods with the same labels, with the inputs they were derived from.
        self._known: WeakKeyDictionary[LabelClass, tuple[object, Mapping[str, tuple[SpreadConstraint, ...]]]] = (
            WeakKeyDictionary()
        )

    def for_pod(self, pod: PendingPod, action: str) -> tuple[SpreadConstraint, ...]:
        return self._compute(pod)[action] if self._constraints[action] else ()

    def apply_to(self, pod: PendingPod) -> bool:
        return any(self._constraints.values()) and any(self._compute(pod).values())

    def _compute(self, pod: PendingPod) -> Mapping[str, tuple[SpreadConstraint, ...]]:
        services = self._stores.objects(Service).index(_ServiceSelectors)
        owned = self._owner_selector(pod)
        inputs = (services.version(pod.namespace), owned)
        known = self._known.get(pod.label_class)
        if known is None or known[0] != inputs:
            selector = _default_selector(services.selecting_labels(pod.namespace, pod.labels), owned)
            compiled = {
                action: tuple(_compile(each, selector, pod.namespace) for each in constraints if not selector.empty)
                for action, constraints in self._constraints.items()
            }
            known = self._known[pod.label_class] = (inputs, compiled)
        return known[1]

    def _owner_selector(self, pod: PendingPod) -> Mapping[str, str] | LabelSelector | None:
        owner = pod.object.metadata.controlling_owner
        kind = _OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
        if owner is None or kind is None:
            return None
        owner_object = self._stores.objects(kind).get(owner.name, pod.namespace)
        return owner_object.spec.selector if owner_object is not None else None


def _default_selector(labels: Mapping[str, str], owned: Mapping[str, str] | LabelSelector | None) -> Selector:
    """Combine the labels of service selectors with the selector of the owner; an invalid one is ignored."""
    if owned is None:
        return exact_selector(labels)
    if not isinstance(owned, LabelSelector):
        return exact_selector({**labels, **owned})
    try:
        return Selector((*exact_selector(labels).requirements, *label_selector(owned).requirements))
    except SelectorError:
        return exact_selector(labels)


class _ServiceSelectors:
    """The selectors of all services, indexed by namespace and one label."""

    def __init__(self, store: ObjectStore[Service]) -> None:
        self._by_label: dict[tuple[str, str, str], dict[str, Mapping[str, str]]] = {}
        self._changes = 0
        #: The version of each namespace that has services, and the number of services with selectors there.
        self._versions: dict[str, int] = {}
        self._selecting: Counter[str] = Counter()
        store.follow(self._on_change)

    def version(self, namespace: str) -> int:
        """Return the number of the last change in a namespace, 0 without services; a key for cached results."""
        return self._versions.get(namespace, 0)

    def selecting_labels(self, namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Return the labels by which the services of a pod with these labels select it, all taken together."""
        result: dict[str, str] = {}
        for key, value in labels.items():
            for selector in self._by_label.get((namespace, key, value), {}).values():
                if selector.items() <= labels.items():
                    result.update(selector)
        return result

    def _on_change(self, old: Service | None, new: Service | None) -> None:
        before, after = (service.spec.selector if service is not None else None for service in (old, new))
        service = new or old
        if before == after or service is None:
            return
        namespace, name = service.metadata.namespace, service.metadata.name
        self._changes += 1
        self._versions[namespace] = self._changes
        self._selecting[namespace] += bool(after) - bool(before)
        if not self._selecting[namespace]:
            del self._versions[namespace], self._selecting[namespace]
        if before:
            selectors = self._by_label[_index_key(namespace, before)]
            del selectors[name]
            if not selectors:
                del self._by_label[_index_key(namespace, before)]
        if after:
            self._by_label.setdefault(_index_key(namespace, after), {})[name] = after


def _index_key(namespace: str, selector: Mapping[str, str]) -> tuple[str, str, str]:
    key = min(selector)
    return (namespace, key, selector[key])
