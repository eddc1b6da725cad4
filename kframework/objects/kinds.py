"""The registry of kinds: an object's apiVersion and kind follow from its struct, not from fields of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kframework.objects.event import CoreEvent, Event
from kframework.objects.lease import Lease
from kframework.objects.meta import ApiObject
from kframework.objects.node import Node
from kframework.objects.pod import Pod
from kframework.objects.policy import PodDisruptionBudget, PriorityClass
from kframework.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kframework.objects.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet

__all__ = ["KINDS", "Kind", "kind_named", "kind_of", "reference"]

T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of object: its names in the API, and the struct that holds it."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    struct: type[T]


KINDS: tuple[Kind[ApiObject], ...] = (
    Kind("Pod", "v1", "pods", True, Pod),
    Kind("Node", "v1", "nodes", False, Node),
    Kind("Namespace", "v1", "namespaces", False, Namespace),
    Kind("PersistentVolume", "v1", "persistentvolumes", False, PersistentVolume),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim),
    Kind("Service", "v1", "services", True, Service),
    Kind("ReplicationController", "v1", "replicationcontrollers", True, ReplicationController),
    Kind("ReplicaSet", "apps/v1", "replicasets", True, ReplicaSet),
    Kind("StatefulSet", "apps/v1", "statefulsets", True, StatefulSet),
    Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", False, StorageClass),
    Kind("CSINode", "storage.k8s.io/v1", "csinodes", False, CSINode),
    Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", False, CSIDriver),
    Kind("CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities", True, CSIStorageCapacity),
    Kind("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", False, VolumeAttachment),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True, PodDisruptionBudget),
    Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, PriorityClass),
    Kind("Lease", "coordination.k8s.io/v1", "leases", True, Lease),
    Kind("Event", "events.k8s.io/v1", "events", True, Event),
    Kind("Event", "v1", "events", True, CoreEvent),
)

_BY_STRUCT = {kind.struct: kind for kind in KINDS}
_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def kind_of(subject: T | type[T]) -> Kind[T]:
    """Find the kind of an object or of a struct; raises KeyError for a struct that is no kind."""
    struct = subject if isinstance(subject, type) else type(subject)
    return _BY_STRUCT[struct]  # type: ignore[return-value]  # a dict cannot say that key and value agree


def kind_named(api_version: str, kind: str) -> Kind[ApiObject] | None:
    """Find a kind by its names in the API, None when it is not known here."""
    return _BY_NAME.get((api_version, kind))


def reference(subject: ApiObject) -> str:
    """Name an object in a message: `Pod default/web-0`, `Node worker-1`."""
    kind, metadata = kind_of(subject), subject.metadata
    name = f"{metadata.namespace or 'default'}/{metadata.name}" if kind.namespaced else metadata.name
    return f"{kind.name} {name}"
