"""The Job controller: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import is_ready
from kframework.clock import Clock, rfc3339, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    can_create_pods,
    create_pod,
    sort_for_deletion,
    update_status,
)
from kframework.in_memory.workloads.job_pods import (
    COMPLETION_INDEX,
    COMPLETIONS_REACHED,
    FAILURES,
    IGNORED,
    TRACKING,
    ClassifiedPods,
    JobBackoff,
    JobOutcome,
    annotated_count,
    classify_pods,
    completion_index,
    failure_count,
    first_missing_indexes,
    format_intervals,
    intervals_of_pods,
    is_countable,
    is_failed,
    is_finished,
    is_indexed,
    job_outcome,
    match_failure_policy,
    merge_intervals,
    time_left,
    with_job_condition,
)
from kframework.in_memory.workloads.replica_set import BURST
from kframework.objects import (
    ApiObject,
    Job,
    JobStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    UncountedTerminatedPods,
    Workload,
)
from kframework.objects.kinds import owner_reference
from kframework.objects.pod_groups import (
    CHOSEN,
    GangSchedulingPolicy,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    TypedLocalObjectReference,
    WorkloadReference,
    WorkloadTemplates,
)
from kframework.objects.workloads import JobScheduling

#: The manager of jobs that name none.
_MANAGER = "kubernetes.io/job-controller"


class _PodChanges(NamedTuple):
    """The pods deleted in one reconciliation, and the number of created ones."""

    deleted: list[Pod]
    created: int = 0


class JobController(ControlLoop):
    """Creates the pods of jobs, counts those that have ended, and completes or fails the job."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        cluster.honor_finalizer(TRACKING)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        self._backoffs: dict[Key, JobBackoff] = {}

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Job() as job:
                yield key_of(job)
            case Pod():
                yield from self._pods.affected_keys(change, Job)

    def _reconcile(self, key: Key) -> None:
        job = self._cluster.find(Job, key[1], key[0])
        if job is None or is_finished(job):
            self._backoffs.pop(key, None)
            return
        if job.spec.managed_by not in (None, _MANAGER) or not can_create_pods(job):
            return
        now = self._clock.now()
        if job.status.start_time is None and not job.spec.suspend:
            job = replace(job, status=replace(job.status, start_time=rfc3339(now)))
        pods = self._pods.claim(job, finalizers=(TRACKING,))
        state = classify_pods(job, pods)
        backoff = self._backoffs.get(key, JobBackoff()).with_ended_pods(state.new_succeeded, state.new_failed)
        self._backoffs[key] = backoff
        outcome = job_outcome(state, now)
        if outcome is not None:
            changes = self._delete_pods(state.active)
        elif job.metadata.deletion_timestamp is None:
            changes = self._manage_pods(state, backoff)
            if is_complete(state, changes):
                outcome = COMPLETIONS_REACHED
        else:
            changes = _PodChanges([])
        if outcome is None and (left := time_left(job, now)) is not None:
            self._queue.add_after(key, left)
        self._track_status(state, changes, outcome)

    def _manage_pods(self, state: ClassifiedPods, backoff: JobBackoff) -> _PodChanges:
        job, active = state.job, len(state.active)
        wanted = _wanted_active(state)
        surplus = self._surplus(state, max(0, active - wanted))
        if surplus:
            for pod in surplus[:BURST]:
                remove_tracking_finalizer(self._cluster, pod)
            return self._delete_pods(surplus[:BURST])
        ending = len(state.ending) if job.spec.pod_replacement_policy == "Failed" else 0
        missing = min(wanted - ending - active, BURST)
        if missing <= 0:
            return _PodChanges([])
        if is_indexed(job):
            return _PodChanges([], self._create_indexed_pods(state, missing, backoff))
        if (seconds := backoff.remaining(self._clock.now())) > 0:
            self._queue.add_after(key_of(job), seconds)
            return _PodChanges([])
        for _ in range(missing):
            self._create_pod(job)
        return _PodChanges([], missing)

    def _surplus(self, state: ClassifiedPods, at_least: int) -> list[Pod]:
        """List at least `at_least` surplus pods, those without a valid index of their own first."""
        job, now = state.job, self._clock.now()
        kept, surplus = [], []
        seen: set[int | None] = set()
        for pod in reversed(sort_for_deletion(state.active, (), now)):
            index = completion_index(pod)
            if is_indexed(job) and (index in seen or not is_countable(job, pod)):
                surplus.append(pod)
            else:
                kept.append(pod)
                seen.add(index)
        kept.reverse()
        return surplus + kept[: max(0, at_least - len(surplus))]

    def _create_indexed_pods(self, state: ClassifiedPods, missing: int, backoff: JobBackoff) -> int:
        job, now = state.job, self._clock.now()
        taken = [*state.active, *(state.ending if job.spec.pod_replacement_policy == "Failed" else ())]
        settled = merge_intervals(state.succeeded_indexes + state.failed_indexes + intervals_of_pods(taken))
        created, waits = 0, []
        for index in first_missing_indexes(settled, missing, job.spec.completions or 0):
            before = state.delayed_by_index.get(index)
            if job.spec.backoff_limit_per_index is not None:
                own = JobBackoff().with_ended_pods((), [before]) if before is not None else JobBackoff()
                backoff = own._replace(failures=failure_count(before) + 1 if before is not None else 0)
            if (seconds := backoff.remaining(now)) > 0:
                waits.append(seconds)
            else:
                self._create_pod(job, index, before)
                created += 1
        if waits and not created:
            self._queue.add_after(key_of(job), min(waits))
        return created

    def _create_pod(self, job: Job, index: int | None = None, before: Pod | None = None) -> None:
        template = job.spec.template
        finalizers = tuple(each for each in template.metadata.finalizers if each != TRACKING)
        settings: dict[str, object] = {"finalizers": (*finalizers, TRACKING)}
        spec = template.spec
        if self._cluster.feature_gates.is_enabled("WorkloadWithJob") and "schedulingGroup" not in spec:
            self._create_group(job)
            spec = spec | {"schedulingGroup": {"podGroupName": job.metadata.name}}
        if index is not None:
            name, suffix = job.metadata.name, f"-{index}-"
            index_labels = {COMPLETION_INDEX: str(index)}
            settings["generate_name"] = f"{name[: 58 - len(suffix)]}{suffix}"
            settings["labels"] = template.metadata.labels | index_labels
            settings["annotations"] = template.metadata.annotations | index_labels | _failure_annotations(job, before)
            spec = _with_index_variable(spec) | {"hostname": f"{name}-{index}"}
        create_pod(self._cluster, job, template, spec, **settings)

    def _create_group(self, job: Job) -> None:
        """Create the job's PodGroup, and the Workload that it comes from, unless there is one of its name."""
        name, namespace = job.metadata.name, job.metadata.namespace
        if self._cluster.find(PodGroup, name, namespace) is not None:
            return
        metadata = ObjectMeta(name=name, namespace=namespace, owner_references=(owner_reference(job),))
        group = _group_template(job)
        if self._cluster.find(Workload, name, namespace) is None:
            controller = TypedLocalObjectReference(api_group="batch", kind="Job", name=name)
            templates = WorkloadTemplates(controller_ref=controller, pod_group_templates=(group,))
            self._cluster.add(Workload(metadata=metadata, spec=templates))
        fields = {field: getattr(group, field) for field in group.__struct_fields__ if field != "name"}
        reference = WorkloadReference(workload_name=name, template_name=group.name)
        self._cluster.add(PodGroup(metadata=metadata, spec=PodGroupSpec(workload_ref=reference, **fields)))

    def _delete_pods(self, pods: list[Pod]) -> _PodChanges:
        for pod in pods:
            self._cluster.remove_object(pod)
        return _PodChanges(pods)

    def _track_status(self, state: ClassifiedPods, changes: _PodChanges, outcome: JobOutcome | None) -> None:
        """Count the pods that have ended, remove their finalizers, and update the job's status."""
        status = _updated_status(state, changes, outcome)
        done = [pod for pod in state.pods if TRACKING in pod.metadata.finalizers and _is_settled(state, pod, outcome)]
        now = self._clock.now()
        if outcome is not None:
            conditions = with_job_condition(status.conditions, outcome.interim_condition, now)
            status = replace(status, conditions=conditions)
        elif state.job.metadata.deletion_timestamp is None:
            status = _with_suspended_condition(state.job, status, now)
        update_status(self._cluster, state.job, status)
        for pod in done:
            remove_tracking_finalizer(self._cluster, pod)
        if outcome is not None and not status.terminating:
            conditions = with_job_condition(status.conditions, outcome.final_condition, now)
            ended = replace(status, conditions=conditions, completion_time=rfc3339(now) if outcome.succeeds else None)
            update_status(self._cluster, state.job, ended)


class OrphanedJobPodController(ControlLoop):
    """Removes the tracking finalizer from pods whose job is deleted or finished."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Job() as job:
                if change.new is None or is_finished(job):
                    yield from map(key_of, self._pods.owned_by(job))
            case Pod() as pod:
                self._pods.index(change)
                if change.new is not None and TRACKING in pod.metadata.finalizers:
                    yield key_of(pod)

    def _reconcile(self, key: Key) -> None:
        pod = self._cluster.find(Pod, key[1], key[0])
        if pod is None or TRACKING not in pod.metadata.finalizers:
            return
        owner = pod.metadata.controlling_owner
        if owner is not None:
            if (owner.api_version, owner.kind) != ("batch/v1", "Job"):
                return
            job = self._cluster.find(Job, owner.name, key[0])
            if job is not None and job.metadata.uid == owner.uid and not is_finished(job):
                return
        remove_tracking_finalizer(self._cluster, pod)


class TtlAfterFinishedController(ControlLoop):
    """Deletes finished jobs after their TTL in seconds."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job,)

    def _affected_keys(self, change: Change) -> Iterable[Key]:
        return [key_of(change.subject)] if change.new is not None else ()

    def _reconcile(self, key: Key) -> None:
        job = self._cluster.find(Job, key[1], key[0])
        seconds = job.spec.ttl_seconds_after_finished if job is not None else None
        if job is None or seconds is None or job.metadata.deletion_timestamp is not None:
            return
        ends = [each for each in job.status.conditions if each.type in ("Complete", "Failed") and each.status == "True"]
        if ends and ends[0].last_transition_time:
            left = seconds_of(ends[0].last_transition_time) + seconds - self._clock.now()
            if left > 0:
                self._queue.add_after(key, left)
            else:
                self._cluster.remove_object(job, policy="Foreground")


def remove_tracking_finalizer(cluster: MemoryCluster, pod: Pod) -> None:
    current = cluster.find(Pod, pod.metadata.name, pod.metadata.namespace)
    if current is not None and current.metadata.uid == pod.metadata.uid:
        rest = tuple(each for each in current.metadata.finalizers if each != TRACKING)
        cluster.replace(replace(current, metadata=replace(current.metadata, finalizers=rest)))


def is_complete(state: ClassifiedPods, changes: _PodChanges) -> bool:
    active, wanted = len(state.active) - len(changes.deleted) + changes.created, state.job.spec.completions
    return not active and (state.succeeded > 0 if wanted is None else state.succeeded >= wanted)


def _wanted_active(state: ClassifiedPods) -> int:
    """Return how many pods should be active; without `completions`, none is created after the first success."""
    spec = state.job.spec
    parallelism = spec.parallelism or 0
    if spec.suspend:
        return 0
    if spec.completions is None:
        return len(state.active) if state.succeeded else parallelism
    return max(0, min(spec.completions - state.succeeded, parallelism))


def _is_settled(state: ClassifiedPods, pod: Pod, outcome: JobOutcome | None) -> bool:
    if outcome is not None or state.job.metadata.deletion_timestamp is not None or pod.status.phase == "Succeeded":
        return True
    return is_failed(state.job, pod) and state.delayed_by_index.get(completion_index(pod)) is not pod


def _updated_status(state: ClassifiedPods, changes: _PodChanges, outcome: JobOutcome | None) -> JobStatus:
    job, status, policy = state.job, state.job.status, state.job.spec.pod_failure_policy
    # When a job fails, its remaining pods count as failed.
    lost = changes.deleted if outcome is not None and not outcome.succeeds else []
    failed = [pod for pod in (*state.new_failed, *lost) if _is_settled(state, pod, outcome) and is_countable(job, pod)]
    deleted = {pod.metadata.uid for pod in changes.deleted}
    left = [pod for pod in state.active if pod.metadata.uid not in deleted]
    per_index = job.spec.backoff_limit_per_index is not None
    return replace(
        status,
        active=len(left) + changes.created,
        ready=sum(map(is_ready, left)),
        terminating=len(state.ending) + len(changes.deleted),
        succeeded=state.succeeded,
        failed=status.failed + sum(match_failure_policy(policy, pod).is_counted for pod in failed),
        completed_indexes=format_intervals(state.succeeded_indexes) if is_indexed(job) else "",
        failed_indexes=format_intervals(state.failed_indexes) if per_index else status.failed_indexes,
        uncounted_terminated_pods=UncountedTerminatedPods(),
    )


def _with_suspended_condition(job: Job, status: JobStatus, now: float) -> JobStatus:
    """Set whether a job is suspended; its deadline counts from when it is resumed."""
    condition = (
        ("True", "JobSuspended", "Job suspended") if job.spec.suspend else ("False", "JobResumed", "Job resumed")
    )
    conditions = with_job_condition(status.conditions, ("Suspended", *condition), now)
    if conditions == status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=None if job.spec.suspend else rfc3339(now))


def _group_template(job: Job) -> PodGroupTemplate:
    """Return the template of a job's group, which has the priority of its pods; a gang needs all pods by default."""
    scheduling, pod = job.spec.scheduling or JobScheduling(), job.spec.template.spec
    policy = scheduling.scheduling_policy or PodGroupSchedulingPolicy(basic=CHOSEN)
    if policy.gang is not None and not policy.gang.min_count:
        policy = replace(policy, gang=GangSchedulingPolicy(min_count=job.spec.parallelism or 1))
    return PodGroupTemplate(
        name="pods",
        scheduling_policy=policy,
        scheduling_constraints=scheduling.scheduling_constraints,
        disruption_mode=scheduling.disruption_mode,
        resource_claims=scheduling.resource_claims,
        priority_class_name=str(pod.get("priorityClassName", "")),
    )


def _failure_annotations(job: Job, before: Pod | None) -> dict[str, str]:
    if job.spec.backoff_limit_per_index is None:
        return {}
    if before is None:
        return {FAILURES: "0"}
    counts = match_failure_policy(job.spec.pod_failure_policy, before).is_counted
    failures, ignored = annotated_count(before, FAILURES) + counts, annotated_count(before, IGNORED) + (not counts)
    return {FAILURES: str(failures)} | ({IGNORED: str(ignored)} if ignored else {})


def _with_index_variable(spec: dict[str, object]) -> dict[str, object]:
    """Pass the index to containers in a variable, unless they have one of that name."""
    return spec | {
        field: [_add_index_variable(each) for each in containers]
        for field in ("initContainers", "containers")
        if isinstance(containers := spec.get(field), list)
    }


def _add_index_variable(container: object) -> object:
    if not isinstance(container, dict):
        return container
    variables = container.get("env") or []
    if any(isinstance(each, dict) and each.get("name") == _INDEX_VARIABLE["name"] for each in variables):
        return container
    return container | {"env": [*variables, _INDEX_VARIABLE]}


_INDEX_VARIABLE: dict[str, object] = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
}
