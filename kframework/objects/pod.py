"""Pods as the scheduler reads them (core/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, Condition, LabelSelector, ResourceList
from kframework.objects.node import NodeSelector, NodeSelectorTerm
from kframework.objects.storage import (
    ImageSource,
    OpaqueSource,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimTemplate,
    VolumeSources,
)


class Resources(ApiStruct, frozen=True, kw_only=True):
    """The resources of a container or a pod: `requests`, and at most `limits`."""

    requests: ResourceList = msgspec.field(default_factory=dict)
    limits: ResourceList = msgspec.field(default_factory=dict)


class ContainerPort(ApiStruct, frozen=True, kw_only=True):
    """A port of a container; `host_port` 0 means none on the node."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(ApiStruct, frozen=True, kw_only=True):
    """A rule for the exit of a container; a scheduler reads only the action."""

    action: str = ""


class Container(ApiStruct, frozen=True, kw_only=True):
    """A container; an init container with restart policy Always is a sidecar."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = Resources()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True, kw_only=True):
    """A node preference and its weight, 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiStruct, frozen=True, kw_only=True):
    """The nodes a pod must or would rather run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A set of pods (namespaces and labels) and the topology in which to be, or not to be, with them."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True, kw_only=True):
    """A pod affinity preference and its weight, 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(ApiStruct, frozen=True, kw_only=True):
    """The pods to be placed with."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(ApiStruct, frozen=True, kw_only=True):
    """The pods to be kept away from."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True, kw_only=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(ApiStruct, frozen=True, kw_only=True):
    """The taints that a pod tolerates; an empty effect or key means any, an empty operator Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True, kw_only=True):
    """A limit on how unevenly matching pods may be spread over the values of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True, kw_only=True):
    """A gate that keeps a pod from being scheduled until it is removed."""

    name: str = ""


class PodSchedulingGroup(ApiStruct, frozen=True, kw_only=True):
    """The PodGroup a pod is a member of."""

    pod_group_name: str | None = None


class PodResourceClaim(ApiStruct, frozen=True, kw_only=True):
    """A ResourceClaim of the pod, named or created from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class EphemeralSource(ApiStruct, frozen=True, kw_only=True):
    """A volume whose claim lives as long as the pod and is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(VolumeSources, frozen=True, kw_only=True):
    """A volume of a pod; at most one source is set, none when it is of a kind no scheduler reads."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    config_map: OpaqueSource | None = None
    secret: OpaqueSource | None = None
    projected: OpaqueSource | None = None
    empty_dir: OpaqueSource | None = None
    downward_api: OpaqueSource | None = msgspec.field(default=None, name="downwardAPI")
    image: ImageSource | None = None


class PodSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a pod; `resources` are the pod-level ones."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: ResourceList = msgspec.field(default_factory=dict)
    resources: Resources | None = None
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None
    hostname: str = ""
    service_account_name: str = ""

    @property
    def profile_name(self) -> str:
        """The name of the pod's scheduler, which is that of a profile; one that is not named is the default one."""
        return self.scheduler_name or "default-scheduler"


class PodCondition(Condition, frozen=True, kw_only=True):
    """One observation of a pod."""

    observed_generation: int = 0
    last_probe_time: str | None = None


class ContainerStateTerminated(ApiStruct, frozen=True, kw_only=True):
    """The end of a container."""

    exit_code: int = 0


class ContainerState(ApiStruct, frozen=True, kw_only=True):
    """The state of a container; only its end is read."""

    terminated: ContainerStateTerminated | None = None


class ActualResources(ApiStruct, frozen=True, kw_only=True):
    """The resources that a container or pod has; None and an empty mapping differ during an in-place resize."""

    limits: ResourceList | None = None
    requests: ResourceList | None = None


class ContainerStatus(ApiStruct, frozen=True, kw_only=True):
    """The status of a container; the last two fields differ from the spec during an in-place resize."""

    name: str = ""
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState | None = None
    resources: ActualResources | None = None
    allocated_resources: ResourceList | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The ResourceClaim that was created for a claim template."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct, frozen=True, kw_only=True):
    """The request of a claim that corresponds to an extended resource requested by a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The ResourceClaim that the scheduler created for the pod's extended resources."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a pod."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ActualResources | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(ApiObject, frozen=True, kw_only=True):
    """The unit of scheduling."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
