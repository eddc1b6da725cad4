"""How an API server changes a pod on binding, deletion and new conditions, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Set
from sys import intern
from typing import cast

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.clock import rfc3339, seconds_of
from kframework.objects import ApiObject, Namespace, Node, Pod, PodCondition, PodStatus
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T

#: The fields in which two conditions may differ for kube-scheduler.
_COMPARED_FIELDS = ("status", "reason", "message", "last_probe_time")
#: Finalizers of the garbage collector: wait until owned objects are deleted, or orphaned.
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
#: By propagation policy.
_FINALIZERS: dict[str, tuple[str, ...]] = {"Background": (), "Foreground": (FOREGROUND,), "Orphan": (ORPHAN,)}
#: Finalizers of controllers that do not run here; an object would keep them forever.
IGNORED_FINALIZERS = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "scheduling.k8s.io/podgroup-protection",
        "service.kubernetes.io/load-balancer-cleanup",
    }
)
_REGION, _ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready; a running pod without a Ready condition is."""
    statuses = (condition.status for condition in pod.status.conditions if condition.type == "Ready")
    return next(statuses, "True" if pod.status.phase == "Running" else "") == "True"


def bind_pod(pod: Pod, node_name: str, node: Node | None, now: str, version: str = "") -> Pod:
    """Bind a pod to a node, which need not be known; ClusterError 409 if it is being deleted, bound or gated.

    An empty `version` keeps the resource version.
    """
    metadata, status = pod.metadata, pod.status
    name = metadata.name
    why = ""
    if metadata.deletion_timestamp is not None:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod.spec.node_name:
        why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
    elif pod.spec.scheduling_gates:
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise api_errors.conflict("pods/binding", name, why)
    labels = metadata.labels if node is None else _labels_on_node(metadata.labels, node.metadata.labels)
    return replace(
        pod,
        metadata=replace(metadata, labels=labels, resource_version=version or metadata.resource_version),
        spec=replace(pod.spec, node_name=node_name),
        status=_mark_scheduled(status, now),
    )


_SCHEDULED = PodCondition(type="PodScheduled", status="True")


@cached_by_identity
def _mark_scheduled(status: PodStatus, now: str) -> PodStatus:
    return replace(status, conditions=with_condition(status.conditions, _SCHEDULED, now), nominated_node_name="")


def _labels_on_node(labels: dict[str, str], node_labels: Mapping[str, str]) -> dict[str, str]:
    region, zone = node_labels.get(_REGION), node_labels.get(_ZONE)
    if region is None and zone is None:
        return labels
    return _with_topology(labels, region and intern(region), zone and intern(zone))


@cached_by_identity
def _with_topology(labels: dict[str, str], region: str | None, zone: str | None) -> dict[str, str]:
    return labels | {key: value for key, value in ((_REGION, region), (_ZONE, zone)) if value is not None}


def is_over(deleted: ApiObject, ignored: Set[str] = IGNORED_FINALIZERS) -> bool:
    """Return whether an object that is being deleted has no finalizers left but `ignored` ones."""
    metadata = deleted.metadata
    if metadata.deletion_grace_period_seconds or (isinstance(deleted, Namespace) and deleted.spec.finalizers):
        return False
    return all(each in ignored for each in metadata.finalizers)


def terminate_namespace(namespace: Namespace, now: float) -> Namespace:
    """Start the deletion of a namespace, which lasts until it is empty."""
    metadata = replace(namespace.metadata, deletion_timestamp=rfc3339(now))
    return replace(namespace, metadata=metadata, status=replace(namespace.status, phase="Terminating"))


def remove_namespace_finalizer(namespace: Namespace) -> Namespace:
    rest = tuple(each for each in namespace.spec.finalizers if each != "kubernetes")
    return replace(namespace, spec=replace(namespace.spec, finalizers=rest))


def with_propagation_policy(subject: T, policy: str | None) -> T:
    """Set the finalizers of a deletion's `propagationPolicy`; None leaves the object unchanged."""
    if policy is None:
        return subject
    wanted = _FINALIZERS[policy]
    rest = tuple(each for each in subject.metadata.finalizers if each not in (FOREGROUND, ORPHAN))
    return replace(subject, metadata=replace(subject.metadata, finalizers=rest + wanted))


def start_deletion(subject: T, grace: int | None, now: float, ignored: Set[str] = IGNORED_FINALIZERS) -> T | None:
    """Start the deletion of an object, or shorten a pod's grace period; None if it is deleted at once.

    `grace` is in seconds, None for the pod's own; `now` is in seconds since 1970. An object with finalizers stays until
    their controllers remove them, except for `ignored` ones.
    """
    rest = _with_grace_period(subject, grace, now) if isinstance(subject, Pod) else None
    if rest is not None:
        return cast("T", rest)
    metadata = subject.metadata
    started = metadata.deletion_timestamp or rfc3339(now)
    deleted = replace(subject, metadata=replace(metadata, deletion_timestamp=started, deletion_grace_period_seconds=0))
    if is_over(deleted, ignored):
        return None
    return subject if deleted == subject else deleted


def _with_grace_period(pod: Pod, grace: int | None, now: float) -> Pod | None:
    """Start or shorten a pod's grace period; None if it needs none."""
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None and grace is None:
        return pod
    if grace is None:
        grace = pod.spec.termination_grace_period_seconds or 0
    if grace == 0 or not pod.spec.node_name or has_ended(pod):
        return None
    begin, generation = now, metadata.generation + 1
    if metadata.deletion_timestamp is not None:
        granted = metadata.deletion_grace_period_seconds or 0
        if grace >= granted:
            return pod
        begin, generation = seconds_of(metadata.deletion_timestamp) - granted, metadata.generation
    metadata = replace(
        metadata,
        deletion_timestamp=rfc3339(begin + grace),
        deletion_grace_period_seconds=grace,
        generation=generation,
    )
    return replace(pod, metadata=metadata)


def is_equivalent(old: PodCondition, new: PodCondition) -> bool:
    """Return whether two conditions are equal for kube-scheduler, which ignores times and generation."""
    return all(getattr(old, field) == getattr(new, field) for field in _COMPARED_FIELDS)


def with_condition(conditions: tuple[PodCondition, ...], condition: PodCondition, now: str) -> tuple[PodCondition, ...]:
    """Set the condition of this type; its transition time changes only with its status."""
    for index, old in enumerate(conditions):
        if old.type == condition.type:
            changed = condition.last_transition_time or now
            since = changed if old.status != condition.status else old.last_transition_time
            new = replace(condition, last_transition_time=since)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, replace(condition, last_transition_time=condition.last_transition_time or now))
