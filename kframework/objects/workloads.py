"""Namespaces, services, workloads and disruption budgets."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, Condition, LabelSelector, ObjectMeta
from kframework.objects.pod import PodResourceClaim
from kframework.objects.pod_groups import DisruptionMode, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy
from kframework.objects.storage import ObjectReference


class NamespaceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a namespace: the finalizers to be removed before it is deleted."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a namespace: whether it is Active or Terminating."""

    phase: str = ""


class Namespace(ApiObject, frozen=True, kw_only=True):
    """A namespace; a scheduler reads its labels."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServiceAccount(ApiObject, frozen=True, kw_only=True):
    """The identity with which pods call the API."""


class ConfigMap(ApiObject, frozen=True, kw_only=True):
    """Texts by name."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


class ServicePort(ApiStruct, frozen=True, kw_only=True):
    """A port of a service; `target_port` is a number, or the name that containers have for it."""

    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str | None = None


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a service; no selector, unlike an empty one, selects nothing."""

    selector: dict[str, str] | None = None
    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(ApiObject, frozen=True, kw_only=True):
    """A set of pods that serve together."""

    spec: ServiceSpec = ServiceSpec()


class WorkloadPodTemplate(ApiStruct, frozen=True, kw_only=True):
    """A template from which a controller creates pods; `spec` is as its author wrote it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, object] = msgspec.field(default_factory=dict)


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replica set."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: WorkloadPodTemplate = WorkloadPodTemplate()


class WorkloadCondition(Condition, frozen=True, kw_only=True):
    """One observation of a workload."""

    last_probe_time: str | None = None
    last_update_time: str | None = None


class ReplicaSetStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a replica set, or replication controller: how many pods there are, and how far they are."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[WorkloadCondition, ...] = ()


class ReplicaSet(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods."""

    spec: WorkloadSpec = WorkloadSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replication controller."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: dict[str, str] = msgspec.field(default_factory=dict)
    template: WorkloadPodTemplate = WorkloadPodTemplate()


class ReplicationController(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods, chosen by plain labels."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdate(ApiStruct, frozen=True, kw_only=True):
    """The pods a rollout may have too many or too few (or percentages), and the first ordinal that it updates."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None


class DeploymentStrategy(ApiStruct, frozen=True, kw_only=True):
    """A strategy for replacing old pods; `type` is RollingUpdate or Recreate."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a deployment."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: WorkloadPodTemplate = WorkloadPodTemplate()
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a deployment: how far its rollout is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class Deployment(ApiObject, frozen=True, kw_only=True):
    """A replica set of today and those of before, one rolled out in place of the other."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class UpdateStrategy(ApiStruct, frozen=True, kw_only=True):
    """A strategy for updating pods to a new template; `type` is RollingUpdate or OnDelete."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class ClaimRetentionPolicy(ApiStruct, frozen=True, kw_only=True):
    """A policy for a stateful set's claims when it is deleted or scaled down: Retain or Delete."""

    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetOrdinals(ApiStruct, frozen=True, kw_only=True):
    """The first ordinal of a stateful set's pods."""

    start: int = 0


class StatefulSetSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a stateful set; its claims are as their author wrote them."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: WorkloadPodTemplate = WorkloadPodTemplate()
    volume_claim_templates: tuple[dict[str, object], ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a stateful set: the numbers of its pods, and their revisions."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class StatefulSet(ApiObject, frozen=True, kw_only=True):
    """A number of pods with identities of their own."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DaemonSetSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a daemon set."""

    selector: LabelSelector | None = None
    template: WorkloadPodTemplate = WorkloadPodTemplate()
    update_strategy: UpdateStrategy = UpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a daemon set: on how many nodes it runs, and on how many it should."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None
    conditions: tuple[WorkloadCondition, ...] = ()


class DaemonSet(ApiObject, frozen=True, kw_only=True):
    """A pod on each node that it fits."""

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(ApiObject, frozen=True, kw_only=True):
    """A former template of a stateful set or daemon set, as a patch that restores it."""

    data: dict[str, object] = msgspec.field(default_factory=dict)
    revision: int = 0


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a budget; a number of pods or a percentage."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a budget; `disrupted_pods` maps pods already counted out to the time that happened."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(ApiObject, frozen=True, kw_only=True):
    """A limit on how many of a set of pods may be evicted at once."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class OnExitCodes(ApiStruct, frozen=True, kw_only=True):
    """The exit codes that a rule is about; `operator` is In or NotIn."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


class OnPodCondition(ApiStruct, frozen=True, kw_only=True):
    """A condition of pods that a rule is about."""

    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(ApiStruct, frozen=True, kw_only=True):
    """A rule for a failed pod; `action` is FailJob, FailIndex, Ignore or Count."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(ApiStruct, frozen=True, kw_only=True):
    """Rules for failed pods; the first that matches applies."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(ApiStruct, frozen=True, kw_only=True):
    """Indexes, written as `0-2,4`, or a number of them, that make a job succeed."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct, frozen=True, kw_only=True):
    """Rules by which a job succeeds before all of its indexes have."""

    rules: tuple[SuccessPolicyRule, ...] = ()


class JobScheduling(ApiStruct, frozen=True, kw_only=True):
    """How the pods of a job are scheduled as a group; without a policy, as a basic one."""

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class JobSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a job."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = ""
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str = ""
    success_policy: SuccessPolicy | None = None
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None
    selector: LabelSelector | None = None
    manual_selector: bool = False
    managed_by: str | None = None
    scheduling: JobScheduling | None = None
    template: WorkloadPodTemplate = WorkloadPodTemplate()


class UncountedTerminatedPods(ApiStruct, frozen=True, kw_only=True):
    """The uids of pods that have ended and are not counted yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a job: how many of its pods run and have ended, and whether it is over."""

    conditions: tuple[WorkloadCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: int | None = None


class Job(ApiObject, frozen=True, kw_only=True):
    """Pods that run until enough of them have succeeded."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(ApiStruct, frozen=True, kw_only=True):
    """A template from which jobs are created; `spec` is as its author wrote it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, object] = msgspec.field(default_factory=dict)


class CronJobSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a cron job; `concurrency_policy` is Allow, Forbid or Replace."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a cron job: which of its jobs run, and when the last was due and the last succeeded."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(ApiObject, frozen=True, kw_only=True):
    """Jobs that are created on a schedule."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
