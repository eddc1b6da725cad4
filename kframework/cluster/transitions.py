"""What binding, deletion and new conditions make of a pod, as an API server does it; pure functions."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.clock import rfc3339, seconds_of
from kframework.cluster import api_errors
from kframework.errors import ClusterError
from kframework.objects import Node, Pod, PodCondition
from kframework.objects.kinds import T
from kframework.objects.resource_claims import DELETE_PROTECTION

#: What a condition says.
_SAID = ("status", "reason", "message", "last_probe_time")
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def has_ended(pod: Pod) -> bool:
    """Return whether a pod has run to its end."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready; one that runs and says nothing of that is."""
    said = (condition.status for condition in pod.status.conditions if condition.type == "Ready")
    return next(said, "True" if pod.status.phase == "Running" else "") == "True"


def bound(pod: Pod, node_name: str, node: Node | None, now: str) -> Pod:
    """Bind a pod to a node, which need not be known; ClusterError 409 if it is being deleted, bound or gated."""
    name = pod.metadata.name
    if pod.metadata.deletion_timestamp is not None:
        raise _not_bindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod.spec.node_name:
        raise _not_bindable(name, f'pod {name} is already assigned to node "{pod.spec.node_name}"')
    if pod.spec.scheduling_gates:
        raise _not_bindable(name, f"pod {name} has non-empty .spec.schedulingGates")
    node_labels = node.metadata.labels if node else {}
    topology = {key: node_labels[key] for key in _TOPOLOGY_LABELS if key in node_labels}
    conditions = with_condition(pod.status.conditions, PodCondition(type="PodScheduled", status="True"), now)
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=pod.metadata.labels | topology) if topology else pod.metadata,
        spec=replace(pod.spec, node_name=node_name),
        status=replace(pod.status, conditions=conditions, nominated_node_name=""),
    )


def _not_bindable(name: str, why: str) -> ClusterError:
    return api_errors.conflict("pods/binding", name, why)


def protected(subject: T, now: float) -> T | None:
    """Start the deletion of what may not go before its devices are given back; None for what goes at once."""
    metadata = subject.metadata
    if DELETE_PROTECTION not in metadata.finalizers:
        return None
    if metadata.deletion_timestamp is not None:
        return subject
    metadata = replace(metadata, deletion_timestamp=rfc3339(now), deletion_grace_period_seconds=0)
    return replace(subject, metadata=metadata)


def deleting(pod: Pod, grace: int | None, now: float) -> Pod | None:
    """Start the deletion of a pod, or shorten the grace it has left; None when it goes at once.

    `grace` is in seconds, None for what the pod's spec says; `now` is in seconds since 1970.
    """
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


def says_the_same(old: PodCondition, new: PodCondition) -> bool:
    """Return whether a condition would be nothing new, to kube-scheduler; when and of which generation do not count."""
    return all(getattr(old, field) == getattr(new, field) for field in _SAID)


def with_condition(conditions: tuple[PodCondition, ...], condition: PodCondition, now: str) -> tuple[PodCondition, ...]:
    """Set the condition of this type; its transition time moves only when its status does."""
    for index, old in enumerate(conditions):
        if old.type == condition.type:
            moved = condition.last_transition_time or now
            since = moved if old.status != condition.status else old.last_transition_time
            new = replace(condition, last_transition_time=since)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, replace(condition, last_transition_time=condition.last_transition_time or now))
