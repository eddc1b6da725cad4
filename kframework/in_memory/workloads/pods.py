"""The pods of workloads: made of templates, told apart by how far they are, and which of them go first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import to_builtins

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.dependents import owner_reference
from kframework.objects import ApiObject, ObjectMeta, Pod, PodTemplate, kind_of
from kframework.objects.codec import convert

#: The annotation that says which pods a replica set deletes first: those with the lowest number.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pod_metadata(owner: ApiObject, template: PodTemplate, **settings: object) -> ObjectMeta:
    """Return the metadata of a pod that an object makes of a template; its name is generated unless it is given."""
    return ObjectMeta(
        namespace=owner.metadata.namespace,
        owner_references=(owner_reference(owner),),
        **{
            "generate_name": "" if "name" in settings else f"{owner.metadata.name}-",
            "labels": template.metadata.labels,
            "annotations": template.metadata.annotations,
            "finalizers": template.metadata.finalizers,
            **settings,
        },  # type: ignore[arg-type]  # the fields of metadata
    )


def make_pod(cluster: MemoryCluster, metadata: ObjectMeta, spec: Mapping[str, object]) -> Pod:
    """Create a pod that shows all that its spec says, also what no scheduler reads."""
    written = {"apiVersion": "v1", "kind": "Pod", "metadata": to_builtins(metadata), "spec": dict(spec)}
    return cluster.add(convert(written, kind_of(Pod)), written=written)


def delete_pod(cluster: MemoryCluster, pod: Pod) -> None:
    """Delete a pod, with the grace that it asks for."""
    metadata = pod.metadata
    cluster.remove(Pod, metadata.name, metadata.namespace, uid=metadata.uid)


def is_active(pod: Pod) -> bool:
    """Return whether a pod has neither ended nor been deleted."""
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


def available_at(pod: Pod, min_ready_seconds: int) -> float:
    """Return when a pod has been, or will be, ready for long enough; infinity if it is not ready."""
    if not is_ready(pod):
        return math.inf
    return ready_since(pod) + min_ready_seconds if min_ready_seconds else -math.inf


def ready_since(pod: Pod) -> float:
    """Return when a pod became ready, 0 if nobody has said so."""
    times = (each.last_transition_time for each in pod.status.conditions if each.type == "Ready")
    return seconds_of(text) if (text := next(times, None)) else 0.0


def in_deletion_order(pods: Iterable[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Sort pods, those first that are missed least: on no node, not ready, cheap, crowded, young."""
    crowds = Counter(pod.spec.node_name for pod in related if pod.spec.node_name)

    def key(pod: Pod) -> tuple[float, ...]:
        ready = is_ready(pod)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 2),
            ready,
            _deletion_cost(pod),
            -crowds[pod.spec.node_name],
            _age(ready_since(pod), now) if ready else 0,
            -max((each.restart_count for each in pod.status.container_statuses), default=0),
            _age(seconds_of(created), now) if (created := pod.metadata.creation_timestamp) else 0,
        )

    return sorted(pods, key=lambda pod: (key(pod), pod.metadata.uid))


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _age(since: float, now: float) -> int:
    """Return an age as its order of magnitude: what differs by less is told apart by uid."""
    return int(math.log2((now - since) * 1e9)) if now > since else -1
