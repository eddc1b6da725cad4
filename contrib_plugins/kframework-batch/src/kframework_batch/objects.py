"""The kinds of Volcano's API, and the pod groups of other projects that are read as well."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kframework.objects import (
    ApiObject,
    ApiStruct,
    LabelSelector,
    OwnerReference,
    PrinterColumn,
    ResourceList,
    ServiceSpec,
    kind,
)
from kframework.objects import ConfigMap as ConfigMap
from kframework.objects import SigsPodGroup as SigsPodGroup
from kframework.objects import SigsPodGroupSpec as SigsPodGroupSpec
from kframework.objects import SigsPodGroupStatus as SigsPodGroupStatus
from kframework_batch.pod_templates import PodTemplateSpec


class ExactMatch(ApiStruct, frozen=True, kw_only=True):
    """The one of this name."""

    name: str = ""


class RegexMatch(ApiStruct, frozen=True, kw_only=True):
    """The nodes in whose names this is found."""

    pattern: str = ""


class MemberSelector(ApiStruct, frozen=True, kw_only=True):
    """A selector of nodes, or of a hypernode, in one of three ways; hypernodes go by their exact name alone."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(ApiStruct, frozen=True, kw_only=True):
    """A member of a hypernode; `type` is Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The members of a hypernode, and their closeness: the lower the tier, the faster they reach each other."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The findings of the hypernode controller, which sessions ignore."""

    node_count: int = 0
    conditions: tuple[dict[str, object], ...] = ()


@kind(
    "topology.volcano.sh/v1alpha1",
    "hypernodes",
    namespaced=False,
    short_names=("hn",),
    columns=(
        PrinterColumn(name="Tier", json_path=".spec.tier"),
        PrinterColumn(name="TierName", json_path=".spec.tierName"),
        PrinterColumn(name="NodeCount", type="integer", json_path=".status.nodeCount"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    ),
)
class HyperNode(ApiObject, frozen=True, kw_only=True):
    """Nodes that are close to each other."""

    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()


_AGE = PrinterColumn(name="AGE", type="date", json_path=".metadata.creationTimestamp")
_QUEUE = PrinterColumn(name="QUEUE", json_path=".spec.queue", priority=1)


def _count(title: str, json_path: str) -> PrinterColumn:
    return PrinterColumn(name=title, type="integer", json_path=json_path)


class Guarantee(ApiStruct, frozen=True, kw_only=True):
    """The guaranteed resources of a queue."""

    resource: ResourceList = msgspec.field(default_factory=dict)


class QueueSpec(ApiStruct, frozen=True, kw_only=True):
    """The limits of a queue, and what it deserves; `affinity`, `extend_clusters` and `type` are ignored."""

    weight: int = 1
    capability: ResourceList = msgspec.field(default_factory=dict)
    reclaimable: bool | None = None
    guarantee: Guarantee = Guarantee()
    deserved: ResourceList = msgspec.field(default_factory=dict)
    parent: str = ""
    priority: int = 0
    dequeue_strategy: str = ""
    affinity: dict[str, object] | None = None
    extend_clusters: tuple[dict[str, object], ...] = ()
    type: str = ""


class QueueStatus(ApiStruct, frozen=True, kw_only=True):
    """The resources that a queue holds; `state` is Open, Closed, Closing or Unknown."""

    preserve_unknown_fields: ClassVar[bool] = True

    state: str = ""
    pending: int = 0
    running: int = 0
    unknown: int = 0
    inqueue: int = 0
    completed: int = 0
    allocated: ResourceList = msgspec.field(default_factory=dict)


@kind(
    "scheduling.volcano.sh/v1beta1",
    "queues",
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
    columns=(PrinterColumn(name="PARENT", json_path=".spec.parent"),),
)
class Queue(ApiObject, frozen=True, kw_only=True):
    """A queue, which jobs share."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(ApiStruct, frozen=True, kw_only=True):
    """The required closeness of a group's pods; `mode` is hard or soft."""

    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(ApiStruct, frozen=True, kw_only=True):
    """A gang within the gang."""

    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """Pods that are to run together, or not at all."""

    min_member: int = 0
    min_task_member: dict[str, int] = msgspec.field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(ApiStruct, frozen=True, kw_only=True):
    """A result of a session for a pod group; `transition_id` is the session's uid, in the API `transitionID`."""

    type: str = ""
    status: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a pod group; `phase` is Pending, Inqueue, Running, Unknown or Completed."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: int = 0
    succeeded: int = 0
    failed: int = 0


@kind(
    "scheduling.volcano.sh/v1beta1",
    "podgroups",
    short_names=("pg", "podgroup-v1beta1"),
    columns=(
        PrinterColumn(name="STATUS", json_path=".status.phase"),
        _count("minMember", ".spec.minMember"),
        _count("RUNNINGS", ".status.running"),
        _AGE,
        _QUEUE,
    ),
)
class PodGroup(ApiObject, frozen=True, kw_only=True):
    """Volcano's pod group."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class JobPolicy(ApiStruct, frozen=True, kw_only=True):
    """An action for an event of a pod, or for an exit code; at once or after a `timeout` ("10m")."""

    event: str = ""
    events: tuple[str, ...] = ()
    action: str = ""
    exit_code: int | None = None
    timeout: str = ""


class DependsOn(ApiStruct, frozen=True, kw_only=True):
    """The tasks that must run before another begins: `any` of them, or `all`, which is meant by nothing too."""

    name: tuple[str, ...] = ()
    iteration: str = ""


class PartitionPolicy(ApiStruct, frozen=True, kw_only=True):
    """The division of a task's pods, by their numbers, into gangs; the job needs `min_partitions` of them."""

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(ApiStruct, frozen=True, kw_only=True):
    """Pods of one role; `topology_policy` is ignored."""

    name: str = ""
    replicas: int = 1
    min_available: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    policies: tuple[JobPolicy, ...] = ()
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None
    topology_policy: str = ""


class JobSpec(ApiStruct, frozen=True, kw_only=True):
    """Pods of several roles that make up one piece of work; `plugins` have arguments by their names.

    `volumes` are decoded and ignored.
    """

    scheduler_name: str = ""
    min_available: int = 0
    queue: str = ""
    priority_class_name: str = ""
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[JobPolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    max_retry: int = 3
    min_success: int | None = None
    ttl_seconds_after_finished: int | None = None
    running_estimate: str = ""
    network_topology: NetworkTopology | None = None
    volumes: tuple[dict[str, object], ...] = ()


class JobState(ApiStruct, frozen=True, kw_only=True):
    """The phase of a job."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a job: its state, the numbers of its pods by state, and the plugins that have made its objects."""

    preserve_unknown_fields: ClassVar[bool] = True

    state: JobState = JobState()
    min_available: int = 0
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    controlled_resources: dict[str, str] = msgspec.field(default_factory=dict)


@kind(
    "batch.volcano.sh/v1alpha1",
    "jobs",
    short_names=("vcjob", "vj"),
    columns=(
        PrinterColumn(name="STATUS", json_path=".status.state.phase"),
        _count("minAvailable", ".status.minAvailable"),
        _count("RUNNINGS", ".status.running"),
        _AGE,
        _QUEUE,
    ),
)
class Job(ApiObject, frozen=True, kw_only=True):
    """Volcano's job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


@kind("bus.volcano.sh/v1alpha1", "commands")
class Command(ApiObject, frozen=True, kw_only=True):
    """An order to a job or a queue, which is deleted when it is carried out."""

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


# -- pod groups of others ------------------------------------------------------------------------------------------


class ObjectCondition(ApiStruct, frozen=True, kw_only=True):
    """A condition as metav1 has it."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class KubeGang(ApiStruct, frozen=True, kw_only=True):
    """A gang policy: at least this number of pods or none."""

    min_count: int = 1


class KubeSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """Either a gang, or each pod for itself (`basic`)."""

    basic: dict[str, str] | None = None
    gang: KubeGang | None = None


class KubeTopologyConstraint(ApiStruct, frozen=True, kw_only=True):
    """All pods within one domain of this node label."""

    key: str = ""


class KubeSchedulingConstraints(ApiStruct, frozen=True, kw_only=True):
    """The required closeness of a group's pods."""

    topology: tuple[KubeTopologyConstraint, ...] = ()


class KubePodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """A pod group of Kubernetes 1.36 (KEP-4671); only its policy, its constraints and its priority are read."""

    scheduling_policy: KubeSchedulingPolicy = KubeSchedulingPolicy()
    scheduling_constraints: KubeSchedulingConstraints = KubeSchedulingConstraints()
    priority_class_name: str = ""
    priority: int | None = None
    pod_group_template_ref: dict[str, object] | None = None
    resource_claims: tuple[dict[str, object], ...] = ()
    disruption_mode: str | None = None


class KubePodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The status with the condition PodGroupScheduled."""

    preserve_unknown_fields: ClassVar[bool] = True

    conditions: tuple[ObjectCondition, ...] = ()


@kind("scheduling.k8s.io/v1alpha2", "podgroups", name="PodGroup")
class KubePodGroup(ApiObject, frozen=True, kw_only=True):
    """The pod group of Kubernetes itself."""

    spec: KubePodGroupSpec = KubePodGroupSpec()
    status: KubePodGroupStatus = KubePodGroupStatus()


# -- what jobs have made for them: how their pods find each other, and what they mount ---------------------------------


@kind("v1", "secrets")
class Secret(ApiObject, frozen=True, kw_only=True):
    """Confidential texts by name, in base64."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    type: str = ""

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.namespace}/{self.metadata.name}>"


class HeadlessServiceSpec(ServiceSpec, frozen=True, kw_only=True):
    """The `spec` of a service which gives each pod a name in DNS, and has no address of its own."""

    cluster_ip: str = msgspec.field(name="clusterIP")
    publish_not_ready_addresses: bool = False


class NetworkPolicyPeer(ApiStruct, frozen=True, kw_only=True):
    """A peer that may connect."""

    pod_selector: LabelSelector | None = None


class NetworkPolicyIngressRule(ApiStruct, frozen=True, kw_only=True):
    """From where connections are let in; `from` in the API."""

    peers: tuple[NetworkPolicyPeer, ...] = msgspec.field(default=(), name="from")


class NetworkPolicySpec(ApiStruct, frozen=True, kw_only=True):
    """The isolated pods, and the peers that may still connect."""

    pod_selector: LabelSelector = LabelSelector()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    policy_types: tuple[str, ...] = ()


@kind("networking.k8s.io/v1", "networkpolicies", short_names=("netpol",))
class NetworkPolicy(ApiObject, frozen=True, kw_only=True):
    """The permission to connect to pods."""

    spec: NetworkPolicySpec = NetworkPolicySpec()
