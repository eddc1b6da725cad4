"""The registry of kinds: an object's apiVersion and kind follow from its struct, not from fields of its own.

A plugin that is about a kind of its own declares it, and from then on it is a kind like any other:

    @kind("scheduling.x-k8s.io/v1alpha1", "podgroups")
    class PodGroup(ApiObject):
        spec: PodGroupSpec = PodGroupSpec()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar, cast

import msgspec

from kframework.errors import ConfigError
from kframework.objects.endpoints import Endpoints, EndpointSlice
from kframework.objects.event import CoreEvent, Event
from kframework.objects.lease import Lease
from kframework.objects.meta import ApiObject, ApiStruct, OwnerReference
from kframework.objects.node import Node
from kframework.objects.pod import Pod
from kframework.objects.pod_groups import CompositePodGroup, PodGroup, Workload
from kframework.objects.policies import LimitRange, PriorityClass, RuntimeClass
from kframework.objects.resource_claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from kframework.objects.resource_slices import DeviceTaintRule, ResourceSlice
from kframework.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kframework.objects.workloads import (
    ConfigMap,
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    ServiceAccount,
    StatefulSet,
)

T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)


class PrinterColumn(ApiStruct, frozen=True, kw_only=True):
    """A column that `kubectl get` prints after the name, as a CustomResourceDefinition describes it.

    `type` is one of string, integer, number, boolean and date; a `priority` above 0 shows the column with `-o wide`
    only.
    """

    name: str = ""
    type: str = "string"
    json_path: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A kind of object: its names in the API, the struct that holds it, and how `kubectl get` prints a declared one."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    struct: type[T_co]
    short_names: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()


#: The built-in kinds.
KINDS: tuple[Kind[ApiObject], ...] = (
    Kind("Pod", "v1", "pods", True, Pod),
    Kind("Node", "v1", "nodes", False, Node),
    Kind("Namespace", "v1", "namespaces", False, Namespace),
    Kind("PersistentVolume", "v1", "persistentvolumes", False, PersistentVolume),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, PersistentVolumeClaim),
    Kind("ServiceAccount", "v1", "serviceaccounts", True, ServiceAccount),
    Kind("ConfigMap", "v1", "configmaps", True, ConfigMap),
    Kind("Service", "v1", "services", True, Service),
    Kind("Endpoints", "v1", "endpoints", True, Endpoints),
    Kind("EndpointSlice", "discovery.k8s.io/v1", "endpointslices", True, EndpointSlice),
    Kind("ReplicationController", "v1", "replicationcontrollers", True, ReplicationController),
    Kind("ReplicaSet", "apps/v1", "replicasets", True, ReplicaSet),
    Kind("Deployment", "apps/v1", "deployments", True, Deployment),
    Kind("StatefulSet", "apps/v1", "statefulsets", True, StatefulSet),
    Kind("DaemonSet", "apps/v1", "daemonsets", True, DaemonSet),
    Kind("ControllerRevision", "apps/v1", "controllerrevisions", True, ControllerRevision),
    Kind("Job", "batch/v1", "jobs", True, Job),
    Kind("CronJob", "batch/v1", "cronjobs", True, CronJob),
    Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", False, StorageClass),
    Kind("CSINode", "storage.k8s.io/v1", "csinodes", False, CSINode),
    Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", False, CSIDriver),
    Kind("CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities", True, CSIStorageCapacity),
    Kind("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", False, VolumeAttachment),
    Kind("DeviceClass", "resource.k8s.io/v1", "deviceclasses", False, DeviceClass),
    Kind("DeviceTaintRule", "resource.k8s.io/v1", "devicetaintrules", False, DeviceTaintRule),
    Kind("ResourceSlice", "resource.k8s.io/v1", "resourceslices", False, ResourceSlice),
    Kind("ResourceClaimTemplate", "resource.k8s.io/v1", "resourceclaimtemplates", True, ResourceClaimTemplate),
    Kind("ResourceClaim", "resource.k8s.io/v1", "resourceclaims", True, ResourceClaim),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True, PodDisruptionBudget),
    Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, PriorityClass),
    Kind("PodGroup", "scheduling.k8s.io/v1beta1", "podgroups", True, PodGroup),
    Kind("CompositePodGroup", "scheduling.k8s.io/v1alpha3", "compositepodgroups", True, CompositePodGroup),
    Kind("Workload", "scheduling.k8s.io/v1beta1", "workloads", True, Workload),
    Kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", False, RuntimeClass),
    Kind("LimitRange", "v1", "limitranges", True, LimitRange),
    Kind("Lease", "coordination.k8s.io/v1", "leases", True, Lease),
    Kind("Event", "events.k8s.io/v1", "events", True, Event),
    Kind("Event", "v1", "events", True, CoreEvent),
)

_BY_STRUCT = {known.struct: known for known in KINDS}
_BY_NAME = {(known.api_version, known.name): known for known in KINDS}


def kind(
    api_version: str,
    plural: str,
    *,
    namespaced: bool = True,
    name: str = "",
    short_names: Sequence[str] = (),
    columns: Sequence[PrinterColumn] = (),
) -> Callable[[type[T]], type[T]]:
    """Declare a struct to be a kind of the API; the name of the kind is that of the class unless it is given.

    `short_names` and `columns` are those of its CustomResourceDefinition, for the fake API; without columns the age is
    printed. Raises ConfigError when another struct is that kind, or is served under that plural, already.
    """

    def declare(struct: type[T]) -> type[T]:
        names = name or struct.__name__, api_version, plural
        declared: Kind[ApiObject] = Kind(*names, namespaced, struct, tuple(short_names), tuple(columns))
        for known in _BY_NAME.values():
            if _shares_name(known, declared):
                # In this order, whichever of them was loaded first.
                pair = sorted([(_source(known), known.name), (_source(declared), declared.name)])
                (first, one), (second, other) = pair
                what = one if one == other else f"{one} and {other} ({plural})"
                raise ConfigError(f"two structs for the kind {api_version} {what}: {first} and {second}; keep one")
        _BY_STRUCT[struct] = _BY_NAME[api_version, declared.name] = declared
        return struct

    return declare


def foreign_kind(api_version: str, name: str, plural: str, *, namespaced: bool) -> Kind[ApiObject]:
    """Create a kind whose objects are read only for their metadata.

    `kind_of` finds it, `find_kind` does not: a plugin that reads more may still declare it.
    """
    made = _create_foreign_kind(api_version, name, plural, namespaced)
    return _BY_STRUCT.setdefault(made.struct, made)


@cache
def _create_foreign_kind(api_version: str, name: str, plural: str, namespaced: bool) -> Kind[ApiObject]:
    struct = cast("type[ApiObject]", msgspec.defstruct(name, [], bases=(ApiObject,), frozen=True, kw_only=True))
    return Kind(name, api_version, plural, namespaced, struct)


def _shares_name(known: Kind[ApiObject], declared: Kind[ApiObject]) -> bool:
    """Return whether two kinds have a name in common; a reloaded module may declare its own kinds again."""
    in_common = known.name == declared.name or known.plural == declared.plural
    return known.api_version == declared.api_version and in_common and _source(known) != _source(declared)


def _source(declared: Kind[ApiObject]) -> str:
    return f"{declared.struct.__module__}.{declared.struct.__qualname__}"


def all_kinds() -> tuple[Kind[ApiObject], ...]:
    """List the built-in kinds, then the declared ones, by apiVersion and name."""
    declared = (known for known in _BY_NAME.values() if known not in KINDS)
    return *KINDS, *sorted(declared, key=lambda known: (known.api_version, known.name))


def kind_of(subject: T | type[T]) -> Kind[T]:
    """Find the kind of an object or of a struct; raises KeyError for a struct that is no kind."""
    struct = subject if isinstance(subject, type) else type(subject)
    return _BY_STRUCT[struct]  # type: ignore[return-value]  # a dict cannot express that key and value agree


def find_kind(api_version: str, name: str) -> Kind[ApiObject] | None:
    """Find a kind by its names in the API, None when it is not known here."""
    return _BY_NAME.get((api_version, name))


def reference(subject: ApiObject) -> str:
    """Name an object in a message: `Pod default/web-0`, `Node worker-1`."""
    known, metadata = kind_of(subject), subject.metadata
    name = f"{metadata.namespace or 'default'}/{metadata.name}" if known.namespaced else metadata.name
    return f"{known.name} {name}"


def object_reference(subject: ApiObject) -> ObjectReference:
    known, metadata = kind_of(subject), subject.metadata
    return ObjectReference(
        api_version=known.api_version,
        kind=known.name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def owner_reference(controller: ApiObject) -> OwnerReference:
    known, metadata = kind_of(controller), controller.metadata
    return OwnerReference(
        api_version=known.api_version,
        kind=known.name,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
