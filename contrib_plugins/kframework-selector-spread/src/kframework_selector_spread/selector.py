"""Which pods belong together: the selector that a pod gets from its services and its controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kframework import Handle, PendingPod
from kframework.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    OwnerReference,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)


class LabelRequirement(NamedTuple):
    """A condition on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


#: Conditions that must all hold. Unlike in Kubernetes an empty selector is that of a pod to which nothing belongs.
Selector = frozenset[LabelRequirement]


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    for requirement in selector:  # quicker than all(), and this runs for every pod of a node that changed
        if not requirement.matches(labels):
            return False
    return True


class Selectors:
    """The selectors of pods, from the services and controllers that the scheduler sees."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        #: The selectors of services, by namespace and name: a pod looks only at those of its own namespace.
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        for service in handle.objects(Service):
            self._service_changed(None, service)
        handle.on_change(Service, self._service_changed)

    def for_pod(self, pod: PendingPod) -> Selector:
        """Merge the selectors of the services that match the pod, and of the controller that owns it."""
        labels: dict[str, str] = {}
        for service_selector in self._services.get(pod.namespace, {}).values():
            if service_selector.items() <= pod.labels.items():
                labels.update(service_selector)
        owner = pod.object.metadata.controlling_owner
        if owner is None:
            return _match_labels(labels)
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = self._handle.objects(ReplicationController).get(owner.name, pod.namespace)
            return _match_labels(labels | controller.spec.selector) if controller is not None else _match_labels(labels)
        return _match_labels(labels) | _requirements(self._workload_selector(owner, pod.namespace))

    def _workload_selector(self, owner: OwnerReference, namespace: str) -> LabelSelector | None:
        workload: ReplicaSet | StatefulSet | None = None
        if (owner.api_version, owner.kind) == ("apps/v1", "ReplicaSet"):
            workload = self._handle.objects(ReplicaSet).get(owner.name, namespace)
        elif (owner.api_version, owner.kind) == ("apps/v1", "StatefulSet"):
            workload = self._handle.objects(StatefulSet).get(owner.name, namespace)
        return workload.spec.selector if workload is not None else None

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is not None:
            self._services.get(old.metadata.namespace, {}).pop(old.metadata.name, None)
        if new is not None and new.spec.selector is not None:  # without a selector a service chooses no pods
            self._services.setdefault(new.metadata.namespace, {})[new.metadata.name] = new.spec.selector


def _match_labels(labels: Mapping[str, str]) -> Selector:
    return frozenset(LabelRequirement(key, "In", frozenset((value,))) for key, value in labels.items())


def _requirements(selector: LabelSelector | None) -> Selector:
    """Read a selector; one that is absent, or that Kubernetes would not accept, adds nothing."""
    if selector is None or not _valid(selector.match_expressions):
        return frozenset()
    expressions = (
        LabelRequirement(each.key, each.operator, frozenset(each.values)) for each in selector.match_expressions
    )
    return _match_labels(selector.match_labels) | frozenset(expressions)


def _valid(expressions: Iterable[LabelSelectorRequirement]) -> bool:
    wants_values = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
    return all(wants_values.get(each.operator) is bool(each.values) for each in expressions)
