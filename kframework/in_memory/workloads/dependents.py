"""Objects owned by controllers, indexed by the owner's uid, adopted and released by its selector; pods of workloads."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from msgspec import to_builtins
from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    DaemonSet,
    Deployment,
    Job,
    ObjectMeta,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    WorkloadPodTemplate,
    kind_of,
    reference,
)
from kframework.objects.codec import convert
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T, owner_reference
from kframework.objects.label_selectors import NOTHING, Selector, SelectorError, label_selector
from kframework.objects.meta import LabelSelector

_log = logging.getLogger(__name__)

#: Kinds that own objects by a selector.
Workload = DaemonSet | Deployment | Job | ReplicaSet | ReplicationController | StatefulSet
Owner = TypeVar("Owner", bound=ApiObject)


class Dependents(Generic[T]):
    """The objects of a kind by their controller, and those without one by namespace."""

    def __init__(self, cluster: MemoryCluster, kind: type[T]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._keys: dict[str, dict[Key, None]] = {}  # by the uid of the controller, or the namespace of orphans

    def index(self, change: Change) -> None:
        for subject in (change.old, change.new):
            if subject is not None:
                owner, key = subject.metadata.controlling_owner, key_of(subject)
                index_key = owner.uid if owner is not None else subject.metadata.namespace
                if subject is change.new:
                    self._keys.setdefault(index_key, {})[key] = None
                elif index_key in self._keys:
                    self._keys[index_key].pop(key, None)
                    if not self._keys[index_key]:
                        del self._keys[index_key]

    def affected_keys(self, change: Change, owners: type[Workload]) -> Iterator[Key]:
        """Record the current controller of an object; yield its owners before and now, and those that may adopt it."""
        self.index(change)
        yield from owner_keys(change, kind_of(owners).name)
        if change.new is not None and is_orphan(change.new):
            metadata = change.new.metadata
            for each in self._cluster.objects(owners, metadata.namespace):
                if workload_selector(each).matches(metadata.labels):
                    yield key_of(each)

    def owned_by(self, owner: ApiObject) -> list[T]:
        return list(self._find_indexed(owner.metadata.uid))

    def claim(
        self,
        owner: Workload,
        may_be_adopted: Callable[[T], bool] = lambda subject: True,
        finalizers: tuple[str, ...] = (),
    ) -> list[T]:
        """Adopt objects that the owner's selector matches, release those it does not, and list the controlled ones.

        Adopted objects get its finalizers.
        """
        mine, selector = [], workload_selector(owner)
        deleted = owner.metadata.deletion_timestamp is not None
        for each in self.owned_by(owner):
            metadata = each.metadata
            if selector.matches(metadata.labels) or deleted:
                mine.append(each)
            else:
                others = tuple(other for other in metadata.owner_references if other.uid != owner.metadata.uid)
                self._cluster.replace(replace(each, metadata=replace(metadata, owner_references=others)))
        if deleted:
            return mine
        for each in list(self._find_indexed(owner.metadata.namespace)):
            adoptable = each.metadata.deletion_timestamp is None and may_be_adopted(each)
            if adoptable and selector.matches(each.metadata.labels):
                mine.append(self._cluster.replace(_adopt(each, owner, finalizers)))
        return mine

    def _find_indexed(self, index_key: str) -> Iterator[T]:
        for namespace, name in [*self._keys.get(index_key, ())]:
            result = self._cluster.find(self._kind, name, namespace)
            if result is not None:
                yield result


def owner_keys(change: Change, kind: str) -> Iterator[Key]:
    for subject in (change.old, change.new):
        owner = subject.metadata.controlling_owner if subject is not None else None
        if subject is not None and owner is not None and owner.kind == kind:
            yield subject.metadata.namespace, owner.name


def is_orphan(subject: ApiObject | None) -> bool:
    return subject is not None and subject.metadata.controlling_owner is None


@cached_by_identity
def workload_selector(workload: Workload) -> Selector:
    """Compile the selector of a workload; one that is absent, empty or invalid matches nothing."""
    if isinstance(workload, ReplicationController):
        labels = workload.spec.selector or workload.spec.template.metadata.labels
        selector: LabelSelector | None = LabelSelector(match_labels=labels)
    else:
        selector = workload.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return NOTHING
    try:
        return label_selector(selector)
    except SelectorError:
        return NOTHING


def can_create_pods(workload: Workload) -> bool:
    """Return whether a workload has a template and selects its pods; otherwise it would create pods endlessly."""
    template = workload.spec.template
    if not template.spec:
        return False
    if not workload_selector(workload).matches(template.metadata.labels):
        _log.warning("skipping %s: its selector does not match the labels of its template", reference(workload))
        return False
    return True


def _adopt(subject: T, owner: ApiObject, finalizers: tuple[str, ...]) -> T:
    metadata = subject.metadata
    owners = (*metadata.owner_references, owner_reference(owner))
    added = tuple(each for each in finalizers if each not in metadata.finalizers)
    return replace(subject, metadata=replace(metadata, owner_references=owners, finalizers=metadata.finalizers + added))


#: The annotation by which a replica set chooses the pods to delete first: those with the lowest number.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def mapping(data: Mapping[str, object], field: str) -> dict[str, object]:
    result = data.get(field)
    return cast("dict[str, object]", result) if isinstance(result, dict) else {}


def create_pod(
    cluster: MemoryCluster,
    owner: ApiObject,
    template: WorkloadPodTemplate,
    spec: Mapping[str, object],
    **settings: object,
) -> Pod:
    """Create a pod from a template, with all fields of its spec; its name is generated unless the settings give one."""
    metadata = ObjectMeta(
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
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": to_builtins(metadata), "spec": dict(spec)}
    return cluster.add(convert(document, kind_of(Pod)), document=document)


def update_status(cluster: MemoryCluster, owner: Owner, status: object) -> None:
    """Store the status of an object, unless it has been deleted, as after the removal of a finalizer."""
    current = cluster.find(type(owner), owner.metadata.name, owner.metadata.namespace)
    if current is not None and current.metadata.uid == owner.metadata.uid:
        cluster.replace(replace(current, status=status))


def is_active(pod: Pod) -> bool:
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


def available_at(pod: Pod, min_ready_seconds: int) -> float:
    """Return when a pod has been, or will be, ready for long enough; infinity if it is not ready."""
    if not is_ready(pod):
        return math.inf
    return ready_since(pod) + min_ready_seconds if min_ready_seconds else -math.inf


def ready_since(pod: Pod) -> float:
    """Return when a pod became ready, 0 if it has no such time."""
    times = (each.last_transition_time for each in pod.status.conditions if each.type == "Ready")
    return seconds_of(text) if (text := next(times, None)) else 0.0


def sort_for_deletion(pods: Iterable[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Sort pods by who is deleted first: unassigned, not ready, cheap, on crowded nodes, young."""
    crowds = Counter(pod.spec.node_name for pod in related if pod.spec.node_name)

    def key(pod: Pod) -> tuple[float, ...]:
        ready = is_ready(pod)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 2),
            ready,
            _deletion_cost(pod),
            -crowds[pod.spec.node_name],
            _rank_age(ready_since(pod), now) if ready else 0,
            -max((each.restart_count for each in pod.status.container_statuses), default=0),
            _rank_age(seconds_of(created), now) if (created := pod.metadata.creation_timestamp) else 0,
        )

    return sorted(pods, key=lambda pod: (key(pod), pod.metadata.uid))


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _rank_age(since: float, now: float) -> int:
    """Return an age as its order of magnitude: pods that differ by less are ordered by uid."""
    return int(math.log2((now - since) * 1e9)) if now > since else -1
