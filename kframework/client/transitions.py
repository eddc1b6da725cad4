"""What binding, deletion and new conditions make of a pod, as an API server does it; pure functions."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from typing import cast

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.clock import rfc3339, seconds_of
from kframework.objects import ApiObject, Namespace, Node, Pod, PodCondition
from kframework.objects.kinds import T

#: What a condition says.
_SAID = ("status", "reason", "message", "last_probe_time")
#: Finalizers of the garbage collector: what an object owns goes first, or is to lose its owner.
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
#: By propagation policy.
_FINALIZERS: dict[str, tuple[str, ...]] = {"Background": (), "Foreground": (FOREGROUND,), "Orphan": (ORPHAN,)}
#: Finalizers whose controllers are none here, unless they say so: who waited for them would wait for ever.
UNATTENDED = frozenset(
    {
        "batch.kubernetes.io/job-tracking",
        "kubernetes.io/pv-protection",
        "kubernetes.io/pvc-protection",
        "service.kubernetes.io/load-balancer-cleanup",
    }
)
_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def has_ended(pod: Pod) -> bool:
    """Return whether a pod has run to its end."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready; one that runs and says nothing of that is."""
    said = (condition.status for condition in pod.status.conditions if condition.type == "Ready")
    return next(said, "True" if pod.status.phase == "Running" else "") == "True"


def bound(pod: Pod, node_name: str, node: Node | None, now: str, version: str = "") -> Pod:
    """Bind a pod to a node, which need not be known; ClusterError 409 if it is being deleted, bound or gated.

    It gets this resource version, or keeps its own.
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
    node_labels = node.metadata.labels if node else {}
    topology = {key: node_labels[key] for key in _TOPOLOGY_LABELS if key in node_labels}
    conditions = with_condition(status.conditions, _SCHEDULED, now) if status.conditions else _scheduled_at(now)
    return replace(
        pod,
        metadata=replace(
            metadata,
            labels=metadata.labels | topology if topology else metadata.labels,
            resource_version=version or metadata.resource_version,
        ),
        spec=replace(pod.spec, node_name=node_name),
        status=replace(status, conditions=conditions, nominated_node_name=""),
    )


_SCHEDULED = PodCondition(type="PodScheduled", status="True")


@lru_cache(maxsize=4)  # the pods that are bound in one second share it
def _scheduled_at(now: str) -> tuple[PodCondition, ...]:
    return with_condition((), _SCHEDULED, now)


def is_over(deleted: ApiObject, unattended: Set[str] = UNATTENDED) -> bool:
    """Return whether an object that is being deleted has nothing to wait for any more but `unattended` finalizers."""
    metadata = deleted.metadata
    if metadata.deletion_grace_period_seconds or (isinstance(deleted, Namespace) and deleted.spec.finalizers):
        return False
    return all(each in unattended for each in metadata.finalizers)


def terminating(namespace: Namespace, now: float) -> Namespace:
    """Start the deletion of a namespace; it waits until it is empty."""
    metadata = replace(namespace.metadata, deletion_timestamp=rfc3339(now))
    return replace(namespace, metadata=metadata, status=replace(namespace.status, phase="Terminating"))


def emptied(namespace: Namespace) -> Namespace:
    """Take the finalizer away for which a namespace waited until nothing was left in it."""
    rest = tuple(each for each in namespace.spec.finalizers if each != "kubernetes")
    return replace(namespace, spec=replace(namespace.spec, finalizers=rest))


def propagating(subject: T, policy: str | None) -> T:
    """Have an object wait for what it owns, as the `propagationPolicy` of a deletion says; None leaves it as it is."""
    if policy is None:
        return subject
    wanted = _FINALIZERS[policy]
    rest = tuple(each for each in subject.metadata.finalizers if each not in (FOREGROUND, ORPHAN))
    return replace(subject, metadata=replace(subject.metadata, finalizers=rest + wanted))


def deleting(subject: T, grace: int | None, now: float, unattended: Set[str] = UNATTENDED) -> T | None:
    """Start the deletion of an object, or shorten the grace that a pod has left; None when it goes at once.

    `grace` is in seconds, None for what the pod's spec says; `now` is in seconds since 1970. What has finalizers stays
    until their controllers have taken them away, but for those that are `unattended`.
    """
    rest = _with_grace(subject, grace, now) if isinstance(subject, Pod) else None
    if rest is not None:
        return cast("T", rest)
    metadata = subject.metadata
    begun = metadata.deletion_timestamp or rfc3339(now)
    begun_subject = replace(
        subject, metadata=replace(metadata, deletion_timestamp=begun, deletion_grace_period_seconds=0)
    )
    if is_over(begun_subject, unattended):
        return None
    return subject if begun_subject == subject else begun_subject


def _with_grace(pod: Pod, grace: int | None, now: float) -> Pod | None:
    """Give a pod time to end; None if it needs none."""
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
