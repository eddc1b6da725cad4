"""Cluster events: changes in the cluster that may let a waiting pod be scheduled.

Names and bit values are kube-scheduler's. A plugin registers the events that can resolve its own rejections
(`events_to_register`); when one happens, the pods that this plugin rejected leave the unschedulable pool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum, IntFlag, StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kframework.objects import ApiObject, Kind, Node
    from kframework.state.pods import PodInfo
    from kframework.values.feature_gates import FeatureGates


class ActionType(IntFlag):
    """The change of an object; several bits may be registered at once."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    #: Any update; registered alone it matches every kind of update.
    UPDATE = (1 << 13) - 4
    ALL = (1 << 13) - 1


class EventResource(StrEnum):
    """The kinds of objects that events are about.

    All others are written `<plural>.<version>.<group>`, custom resources among them.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    #: A pending pod whose nomination ends or is moved, with `ActionType.DELETE`; kube-scheduler has no such event.
    NOMINATED_POD = "NominatedPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    ANY = "*"


_RESOURCES = frozenset(EventResource)
_POD_KINDS = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD, EventResource.TARGET_POD)


def event_resource(kind: Kind[ApiObject]) -> str:
    """Return the name under which events on a kind are registered."""
    group, _, version = kind.api_version.rpartition("/")
    name = f"{group}/{kind.name}" if group else kind.name
    return name if name in _RESOURCES else f"{kind.plural}.{version}.{group}"


class QueueingHint(Enum):
    """The answer of a hint: whether an event makes another attempt of this pod worthwhile."""

    SKIP = 0
    QUEUE = 1


def queue_if(helps: object) -> QueueingHint:
    """Return QUEUE if `helps` is true, else SKIP."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


#: `hint(pod, old, new)`: the waiting PendingPod, and the object of the event before (None: added) and after (None:
#: deleted). The objects are PodInfos for pods on nodes, PendingPods for pending pods, else API objects.
Hint = Callable[..., QueueingHint]


#: `affects(old, new)`: the uids of the only pods that the event may help, None for any.
AffectedPods = Callable[..., Collection[str] | None]


class ClusterEvent(msgspec.Struct, frozen=True):
    """An event that a plugin registers: a resource, one or more actions, and an optional queueing hint.

    `resource` is an `EventResource`, or `<plural>.<version>.<group>`. Without a hint the pod is always queued. If many
    pods wait and each event affects few of them, `affects` returns these, and the hint is not called for others.
    """

    resource: str
    action: ActionType
    hint: Hint | None = None
    affects: AffectedPods | None = None

    def matches(self, event: ObservedEvent) -> bool:
        """Return whether this registration covers an event (kube-scheduler's matching rule, quirks included)."""
        if self.resource == EventResource.ANY and self.action == ActionType.ALL:
            return True
        is_same_resource = self.resource in (EventResource.ANY, event.resource) or (
            self.resource == EventResource.POD and event.resource in _POD_KINDS
        )
        return is_same_resource and bool(self.action & event.action) and event.action <= self.action


def with_implied_events(events: tuple[ClusterEvent, ...], gates: FeatureGates) -> tuple[ClusterEvent, ...]:
    """Add what a plugin's registrations imply: in 1.36 new nodes also imply changes of taints, in 1.37 nothing."""
    actions = [event.action for event in events if event.resource == EventResource.NODE]
    adds, taints = (any(each & bit for each in actions) for bit in (ActionType.ADD, ActionType.UPDATE_NODE_TAINT))
    if gates.is_1_36 and adds and not taints:
        return (*events, ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT))
    return events


class ObservedEvent(msgspec.Struct, frozen=True):
    """An event that happened, with the object before and after it.

    `label` is the name under which metrics and logs count it, e.g. `NodeAdd` or `AssignedPodDelete`.
    """

    resource: str
    action: ActionType
    old: object = None
    new: object = None
    name: str = ""

    @property
    def label(self) -> str:
        """Spell the event as kube-scheduler's metrics do."""
        return self.name or _label(self.resource, self.action)

    @property
    def is_wildcard(self) -> bool:
        """Return whether the event affects every waiting pod, whatever rejected it."""
        return self.resource == EventResource.ANY and self.action == ActionType.ALL


@lru_cache(maxsize=1024)
def _label(resource: str, action: ActionType) -> str:
    return resource + "".join(word.capitalize() for word in (action.name or "Update").split("_"))


#: The events of a plugin without `events_to_register`: kube-scheduler's default registration.
DEFAULT_EVENTS: tuple[ClusterEvent, ...] = tuple(
    ClusterEvent(resource, ActionType.ALL)
    for resource in (
        EventResource.POD,
        EventResource.NODE,
        EventResource.PERSISTENT_VOLUME,
        EventResource.PERSISTENT_VOLUME_CLAIM,
        EventResource.CSI_NODE,
        EventResource.CSI_DRIVER,
        EventResource.CSI_STORAGE_CAPACITY,
        EventResource.STORAGE_CLASS,
        EventResource.RESOURCE_CLAIM,
        EventResource.DEVICE_CLASS,
    )
)


def node_updates(old: Node, new: Node) -> Iterator[ActionType]:
    """Yield the changes between two Node objects, in kube-scheduler's order; none for a heartbeat."""
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield ActionType.UPDATE_NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        yield ActionType.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield ActionType.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield ActionType.UPDATE_NODE_TAINT
    if _condition_statuses(old) != _condition_statuses(new):
        yield ActionType.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield ActionType.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        yield ActionType.UPDATE_NODE_DECLARED_FEATURE


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_updates(old: PodInfo, new: PodInfo) -> Iterator[ActionType]:
    """Yield the changes between two versions of a pod, in kube-scheduler's order; at least a general update."""
    yield from list(_pod_changes(old, new)) or [ActionType.UPDATE]


def _pod_changes(old: PodInfo, new: PodInfo) -> Iterator[ActionType]:
    if old.labels != new.labels:
        yield ActionType.UPDATE_POD_LABEL
    if old.on_node != new.on_node:
        requests = dict(new.on_node)
        if any(requests.get(name, -1) < amount for name, amount in old.on_node):
            yield ActionType.UPDATE_POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield ActionType.UPDATE_POD_TOLERATION
    if old.claim_statuses != new.claim_statuses:
        yield ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
