"""Pods as the scheduler stores them: in a few words each, beside the parts that they share (`pod_templates`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from kframework.objects import (
    OwnerReference,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
)
from kframework.objects.requests import (
    non_zero_requests,
    on_node_requests,
    reports_other_requests,
)
from kframework.state.pod_counts import LabelClass
from kframework.state.pod_templates import PodKind, PodTemplate, Requests, TemplateInterner

P = TypeVar("P", bound="PodInfo")

_encode = msgspec.json.Encoder(order="deterministic").encode


class PodInfo:
    """A pod on a node, or about to be: all data that decisions about other pods need.

    `row` is its node's row, -1 while it is on none; `group` is the name of its PodGroup, "" without one; `claims` names
    the claims of its volumes of the kind `persistentVolumeClaim`, in order; `on_node` and `non_zero` are the amounts of
    its template, others if its status shows an in-place resize; times are RFC 3339 text. `disrupted`: some scheduler
    has chosen the pod as a victim of preemption (condition DisruptionTarget). `previous` is the PodInfo before this
    version of the pod, which most likely has the same template.
    """

    __slots__ = (
        *("claim_statuses", "claims", "disrupted", "generation", "group", "label_class", "name", "node_name"),
        *("nominated_node_name", "non_zero", "on_node", "priority", "row"),
        *("start_time", "template", "terminating", "uid"),
    )

    def __init__(self, pod: Pod, interner: TemplateInterner, previous: PodInfo | None = None) -> None:
        metadata, spec = pod.metadata, pod.spec
        self.group: str = "" if spec.scheduling_group is None else spec.scheduling_group.pod_group_name or ""
        self.uid: str = metadata.uid
        self.name: str = metadata.name
        self.generation: int = metadata.generation
        self.template: PodTemplate = interner.template(spec, metadata, None if previous is None else previous.template)
        self.terminating: bool = metadata.deletion_timestamp is not None
        self.label_class: LabelClass = interner.label_class(metadata.namespace, metadata.labels, self.terminating)
        self.node_name: str = spec.node_name
        self.row: int = -1
        self.priority: int = spec.priority or 0
        self.start_time: str | None = pod.status.start_time
        self.disrupted: bool = any(map(_is_preemption, pod.status.conditions))
        self.nominated_node_name: str = pod.status.nominated_node_name
        self.claim_statuses: tuple[PodResourceClaimStatus, ...] = pod.status.resource_claim_statuses
        self.claims: tuple[str, ...] = _claim_names(spec) if spec.volumes else ()
        self.on_node: Requests = self.template.on_node
        self.non_zero: tuple[int, int] = self.template.non_zero
        if reports_other_requests(pod):
            actual = tuple(on_node_requests(pod, interner.usage).items()), non_zero_requests(pod, interner.usage)
            if actual != (self.on_node, self.non_zero):
                self.on_node, self.non_zero = actual

    def with_status(self, status: PodStatus) -> PodInfo:
        """Return the pod with another status, which reports no resources; itself if nothing relevant changed."""
        facts = (
            status.start_time,
            any(map(_is_preemption, status.conditions)),
            status.nominated_node_name,
            status.resource_claim_statuses,
        )
        if facts == (self.start_time, self.disrupted, self.nominated_node_name, self.claim_statuses):
            return self
        pod = self._copy_to(PodInfo.__new__(PodInfo))
        pod.start_time, pod.disrupted, pod.nominated_node_name, pod.claim_statuses = facts
        return pod

    def _copy_to(self, pod: P) -> P:
        pod.uid, pod.name, pod.generation = self.uid, self.name, self.generation
        pod.template, pod.label_class, pod.terminating = self.template, self.label_class, self.terminating
        pod.node_name, pod.row, pod.priority = self.node_name, self.row, self.priority
        pod.start_time, pod.disrupted = self.start_time, self.disrupted
        pod.on_node, pod.non_zero = self.on_node, self.non_zero
        pod.claim_statuses, pod.claims = self.claim_statuses, self.claims
        pod.nominated_node_name, pod.group = self.nominated_node_name, self.group
        return pod

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.label_class.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The pod's labels."""
        return self.label_class.labels

    @property
    def key(self) -> str:
        """The pod's `namespace/name`."""
        return f"{self.label_class.namespace}/{self.name}"

    @property
    def spec(self) -> PodSpec:
        """The pod's spec, as far as all pods of its template share it."""
        return self.template.spec

    @property
    def is_resized(self) -> bool:
        """Whether the pod uses other amounts than those of its template."""
        return self.non_zero is not self.template.non_zero  # both are set together

    def has_same_requests(self, other: PodInfo) -> bool:
        """Return whether the pod uses the same amounts as another; their labels may count differently."""
        return (
            self.template is other.template
            and self.namespace == other.namespace
            and self.claims == other.claims
            and self.on_node == other.on_node
            and self.non_zero == other.non_zero
        )

    def is_equivalent(self, other: PodInfo) -> bool:
        """Return whether all facts of the pod equal another's, wherever the two are."""
        # Compared first, as they are what usually differs.
        alike = self.label_class is other.label_class and self.start_time == other.start_time
        return alike and bool(_facts(self) == _facts(other))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key}{' on ' + self.node_name if self.node_name else ''}>"


def bound_note(pod: PodInfo, node_name: str) -> str:
    """Return the note of the Event for a bound pod."""
    return f"Successfully assigned {pod.key} to {node_name}"


_facts = attrgetter(*(name for name in PodInfo.__slots__ if name != "row"))


def _is_preemption(condition: PodCondition) -> bool:
    facts = (condition.type, condition.status, condition.reason)
    return facts == ("DisruptionTarget", "True", "PreemptionByScheduler")


class PendingPod(PodInfo):
    """A pod to be scheduled: the read-only view that hooks receive, with its whole object."""

    __slots__ = ("kind", "object")

    def __init__(self, pod: Pod, interner: TemplateInterner, previous: PodInfo | None = None) -> None:
        super().__init__(pod, interner, previous)
        self.object: Pod = _share_parts(pod, self.template.spec, self.label_class)
        owners = pod.metadata.owner_references
        self.kind: PodKind = (
            PodKind() if self.is_resized else interner.kind(self.template, self.label_class, owners, self.group)
        )

    def to_bound(self, label_class: LabelClass) -> PodInfo:
        """Return the PodInfo of the pod on its node, which may have added labels."""
        pod = self._copy_to(PodInfo.__new__(PodInfo))
        pod.label_class, pod.nominated_node_name = label_class, ""
        return pod

    def twin(self, kind: PodKind) -> PendingPod:
        """Return the pod for another engine on the same tables, where it is of this kind, and on no node."""
        pod = self._copy_to(PendingPod.__new__(PendingPod))
        pod.node_name, pod.row, pod.object, pod.kind = "", -1, self.object, kind
        return pod

    @property
    def spec(self) -> PodSpec:
        return self.object.spec

    @property
    def status(self) -> PodStatus:
        """The pod's status."""
        return self.object.status

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return self.object.metadata.annotations

    @property
    def owner_references(self) -> tuple[OwnerReference, ...]:
        """The pod's owners."""
        return self.object.metadata.owner_references

    @property
    def scheduler_name(self) -> str:
        """The profile that the pod names."""
        return self.template.profile_name

    @property
    def signature_fields(self) -> Hashable:
        """Everything of the pod but its own names, uid and times: the signature of a plugin without `sign`.

        Its own names are name, hostname and those of its projected volumes; every pod gets one of these.
        """
        return (self.template, self.label_class, self._own_fields)

    @property
    def fields_hash(self) -> int:
        """A hash of the same that outlives the objects that pods share."""
        return hash((self.template.content_hash, self.namespace, frozenset(self.labels.items()), self._own_fields))

    @property
    def _own_fields(self) -> bytes:
        metadata, spec, status = self.object.metadata, self.object.spec, self.object.status
        claims = [volume.persistent_volume_claim for volume in spec.volumes]
        own = (metadata.annotations, metadata.owner_references, spec.node_name, claims, spec.affinity, self.group)
        return _encode((own, status.nominated_node_name, status.resource_claim_statuses))


def _share_parts(pod: Pod, shared: PodSpec, label_class: LabelClass) -> Pod:
    """Return the pod, rebuilt from its shared and its own parts.

    A decoded pod shares nothing: 44 MB for 20,000 waiting pods of one template.
    """
    metadata, spec = pod.metadata, pod.spec
    if spec is shared and metadata.labels is label_class.labels:
        return pod
    metadata = msgspec.structs.replace(metadata, namespace=label_class.namespace, labels=label_class.labels)
    if shared != spec:
        own = {"node_name": spec.node_name, "hostname": spec.hostname, "scheduling_group": spec.scheduling_group}
        shared = msgspec.structs.replace(shared, **own, volumes=spec.volumes, affinity=spec.affinity)
    return msgspec.structs.replace(pod, metadata=metadata, spec=shared)


def _claim_names(spec: PodSpec) -> tuple[str, ...]:
    sources = (volume.persistent_volume_claim for volume in spec.volumes)
    return tuple(source.claim_name for source in sources if source is not None)


#: That no plugin rejected a pod: every `frozenset()` is another, of 216 bytes.
NO_PLUGINS: Final[frozenset[str]] = frozenset()


class QueuedPod:
    """A pod in the queue, and the history of its attempts; times are seconds since 1970.

    `timestamp` is when it was last (re)queued after an attempt, or first added, `flushed_at` when it was last retried
    without an event; `initial_attempt` is when it first entered the active queue, after its gates. `attempts` counts
    pops, `unschedulable_count` rejections and `consecutive_errors` the errors since the last rejection: one of the two
    sets the backoff. `unschedulable_plugins` and `pending_plugins` rejected the last attempt; `gating_plugin` holds the
    pod back before any, and `gate_message` is its reason. `requeued_by` is the label of the event that caused the next
    attempt: `UnscheduledPodAdd` for the first.
    """

    __slots__ = (
        *("attempts", "backoff_expiry", "consecutive_errors", "flushed_at", "gate_message", "gating_plugin"),
        *("initial_attempt", "pending_plugins", "pod", "requeued_by", "skipped_at", "skips", "sort_key", "timestamp"),
        *("unschedulable_count", "unschedulable_plugins"),
    )

    def __init__(self, pod: PendingPod, timestamp: float) -> None:
        self.pod: PendingPod = pod
        self.timestamp: float = timestamp
        self.flushed_at: float = 0.0
        self.attempts: int = 0
        self.unschedulable_count: int = 0
        self.consecutive_errors: int = 0
        self.initial_attempt: float | None = None
        self.backoff_expiry: float | None = None
        #: How often the pod skipped its backoff in this second of the clock.
        self.skips: int = 0
        self.skipped_at: int = 0
        self.unschedulable_plugins: frozenset[str] = NO_PLUGINS
        self.pending_plugins: frozenset[str] = NO_PLUGINS
        self.gating_plugin: str = ""
        self.gate_message: str = ""
        self.requeued_by: str = ""
        #: The key that `queue_sort` gave; frozen while the pod is queued.
        self.sort_key: Hashable = None

    @property
    def priority(self) -> int:
        """The priority in the queue: that of the pod, or of its group."""
        return self.pod.priority

    @property
    def pods(self) -> tuple[PendingPod, ...]:
        """The pod, or all that wait with it as a group."""
        return (self.pod,)

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins that rejected the pod; empty if the attempt ended with an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def __repr__(self) -> str:
        return f"<QueuedPod {self.pod.key} after {self.attempts} attempts>"
