"""What runs to its end: jobs, and what makes them on a schedule (batch/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, LabelSelector, ObjectMeta
from kframework.objects.storage import ObjectReference
from kframework.objects.workloads import PodTemplate, WorkloadCondition


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
    """What follows from a failed pod; `action` is FailJob, FailIndex, Ignore or Count."""

    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: tuple[OnPodCondition, ...] = ()


class PodFailurePolicy(ApiStruct, frozen=True, kw_only=True):
    """What follows from failed pods: the first rule that fits counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(ApiStruct, frozen=True, kw_only=True):
    """Which indexes, written as `0-2,4`, or how many of them, make a job succeed."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct, frozen=True, kw_only=True):
    """When a job has succeeded though not all of its indexes have."""

    rules: tuple[SuccessPolicyRule, ...] = ()


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
    template: PodTemplate = PodTemplate()


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
    """What jobs are made of; their `spec` is as its author wrote it."""

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
    """Jobs that are made on a schedule."""

    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
