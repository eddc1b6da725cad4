"""Groups of pods that are scheduled together (scheduling.k8s.io), and the workloads whose templates they come from."""

from __future__ import annotations

from kframework.objects.meta import ApiObject, ApiStruct, Condition
from kframework.objects.pod import PodResourceClaim

#: The condition that says whether a group was ever scheduled; it never goes back to False.
INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"

#: The condition, not one of Kubernetes, that is true while a gang may be bound in part.
BINDING = "kframework.dev/Binding"


class WithoutFields(ApiStruct, frozen=True, kw_only=True):
    """A choice of a union that has no fields of its own, written as `{}`."""


CHOSEN = WithoutFields()


class GangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """All or nothing: at least `min_count` pods are scheduled at the same time; the count may be changed."""

    min_count: int = 0


class PodGroupSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """How pods of a group are scheduled: exactly one of the fields is set."""

    basic: WithoutFields | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct, frozen=True, kw_only=True):
    """All pods of a group run on nodes with the same value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct, frozen=True, kw_only=True):
    """Constraints that hold for a group as a whole."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(ApiStruct, frozen=True, kw_only=True):
    """Whether preemption evicts pods of a group one by one, or all or none: exactly one of the fields is set."""

    single: WithoutFields | None = None
    all: WithoutFields | None = None


class WorkloadReference(ApiStruct, frozen=True, kw_only=True):
    """The template of a workload from which a group was made."""

    workload_name: str = ""
    template_name: str = ""


class PodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a group; without a parent it is scheduled on its own."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroupCondition(Condition, frozen=True, kw_only=True):
    """A condition with the generation of the group that it is about."""

    observed_generation: int = 0


class PodGroupResourceClaimStatus(ApiStruct, frozen=True, kw_only=True):
    """The claim that was created for a template in `spec.resourceClaims`."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a group."""

    conditions: tuple[PodGroupCondition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(ApiObject, frozen=True, kw_only=True):
    """Pods that are scheduled together; they name it in `spec.schedulingGroup`."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """All or nothing: at least `min_group_count` of the groups below are scheduled."""

    min_group_count: int = 0


class CompositePodGroupSchedulingPolicy(ApiStruct, frozen=True, kw_only=True):
    """How the groups below are scheduled: exactly one of the fields is set."""

    basic: WithoutFields | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class CompositePodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a group of groups."""

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a group of groups."""

    conditions: tuple[PodGroupCondition, ...] = ()


class CompositePodGroup(ApiObject, frozen=True, kw_only=True):
    """Groups that are scheduled together; they name it as their parent."""

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: CompositePodGroupStatus = CompositePodGroupStatus()


#: A node of a tree of groups: a leaf, with pods, or a group of groups.
GenericPodGroup = PodGroup | CompositePodGroup


def minimum_of(group: GenericPodGroup) -> int:
    """Return how many of its pods, or of the groups below it, a group needs."""
    gang = group.spec.scheduling_policy.gang
    match gang:
        case None:
            return 1
        case GangSchedulingPolicy():
            return gang.min_count
        case CompositeGangSchedulingPolicy():
            return gang.min_group_count


class PodGroupTemplate(ApiStruct, frozen=True, kw_only=True):
    """A template of groups, with the fields that its groups will have."""

    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroupTemplate(ApiStruct, frozen=True, kw_only=True):
    """A template of groups of groups, with the templates of the groups below."""

    name: str = ""
    scheduling_policy: CompositePodGroupSchedulingPolicy = CompositePodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] = ()


class TypedLocalObjectReference(ApiStruct, frozen=True, kw_only=True):
    """An object in the same namespace, such as the Job that a workload belongs to."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadTemplates(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a workload: exactly one of the lists of templates is set."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()
    composite_pod_group_templates: tuple[CompositePodGroupTemplate, ...] = ()


class Workload(ApiObject, frozen=True, kw_only=True):
    """The groups of pods that a controller creates; no scheduler reads it."""

    spec: WorkloadTemplates = WorkloadTemplates()
