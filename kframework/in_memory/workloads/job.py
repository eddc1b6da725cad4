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
    controller_of,
    delete_pod,
    in_deletion_order,
    make_pod,
    makes_pods,
    pod_metadata,
    selector_of,
    set_status,
)
from kframework.in_memory.workloads.job_tally import (
    COMPLETION_INDEX,
    FAILURES,
    IGNORED,
    REACHED,
    TRACKING,
    Backoff,
    Tally,
    Verdict,
    belongs,
    consequence,
    failures_of,
    first_missing,
    index_of,
    is_failed,
    is_finished,
    is_indexed,
    merged,
    noted,
    single,
    tally,
    time_left,
    verdict,
    with_condition,
    written,
)
from kframework.objects import ApiObject, Job, JobStatus, Pod, UncountedTerminatedPods

#: The maximum number of pods created or deleted at a time.
_BURST = 500
#: The manager of jobs that name none.
_NAME = "kubernetes.io/job-controller"


class _Step(NamedTuple):
    """A step of a job: the deleted pods, and the number of created ones."""

    deleted: list[Pod]
    made: int = 0


class JobController(ControlLoop):
    """Creates the pods of jobs, counts those that have ended, and completes or fails the job."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        cluster.attend(TRACKING)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        self._backoffs: dict[Key, Backoff] = {}

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Job() as job:
                yield key_of(job)
            case Pod():
                yield from self._pods.touched(change, Job)

    def _reconcile(self, key: Key) -> None:
        job = self._cluster.find(Job, key[1], key[0])
        if job is None or is_finished(job):
            self._backoffs.pop(key, None)
            return
        selector = selector_of(job.spec.selector)
        if job.spec.managed_by not in (None, _NAME) or not makes_pods(job, job.spec.template, selector):
            return
        now = self._clock.now()
        if job.status.start_time is None and not job.spec.suspend:
            job = replace(job, status=replace(job.status, start_time=rfc3339(now)))
        pods = self._pods.claimed(job, selector, lambda pod: True, (TRACKING,))
        count = tally(job, pods)
        backoff = self._backoffs.get(key, Backoff()).after(count.new_succeeded, count.new_failed)
        self._backoffs[key] = backoff
        said = verdict(count, now)
        if said is not None:
            step = self._delete(count.active)
        elif job.metadata.deletion_timestamp is None:
            step = self._manage(count, backoff)
            if is_complete(count, step):
                said = REACHED
        else:
            step = _Step([])
        if said is None and (left := time_left(job, now)) is not None:
            self._queue.add_after(key, left)
        self._track(count, step, said)

    def _manage(self, count: Tally, backoff: Backoff) -> _Step:
        """Delete or create pods until the number of running ones is the wanted one."""
        job, active = count.job, len(count.active)
        wanted = _wanted(count)
        surplus = self._surplus(count, max(0, active - wanted))
        if surplus:
            for pod in surplus[:_BURST]:
                release(self._cluster, pod)
            return self._delete(surplus[:_BURST])
        ending = len(count.ending) if job.spec.pod_replacement_policy == "Failed" else 0
        missing = min(wanted - ending - active, _BURST)
        if missing <= 0:
            return _Step([])
        if is_indexed(job):
            return _Step([], self._make_indexed(count, missing, backoff))
        if (seconds := backoff.remaining(self._clock.now())) > 0:
            self._queue.add_after(key_of(job), seconds)
            return _Step([])
        for _ in range(missing):
            self._make(job)
        return _Step([], missing)

    def _surplus(self, count: Tally, at_least: int) -> list[Pod]:
        """List pods that are too many: those without an index of their own, then as many as it takes."""
        job, now = count.job, self._clock.now()
        kept, surplus = [], []
        seen: set[int | None] = set()
        for pod in reversed(in_deletion_order(count.active, (), now)):
            index = index_of(pod)
            if is_indexed(job) and (index in seen or not belongs(job, pod)):
                surplus.append(pod)
            else:
                kept.append(pod)
                seen.add(index)
        kept.reverse()
        return surplus + kept[: max(0, at_least - len(surplus))]

    def _make_indexed(self, count: Tally, missing: int, backoff: Backoff) -> int:
        job, now = count.job, self._clock.now()
        taken = [*count.active, *(count.ending if job.spec.pod_replacement_policy == "Failed" else ())]
        indexes = (index for pod in taken if (index := index_of(pod)) is not None)
        settled = merged(count.succeeded_indexes + count.failed_indexes + single(indexes))
        made, waits = 0, []
        for index in first_missing(settled, missing, job.spec.completions or 0):
            before = count.awaited.get(index)
            if job.spec.backoff_limit_per_index is not None:
                own = Backoff().after((), [before]) if before is not None else Backoff()
                backoff = own._replace(failures=failures_of(before) + 1 if before is not None else 0)
            if (seconds := backoff.remaining(now)) > 0:
                waits.append(seconds)
            else:
                self._make(job, index, before)
                made += 1
        if waits and not made:
            self._queue.add_after(key_of(job), min(waits))
        return made

    def _make(self, job: Job, index: int | None = None, before: Pod | None = None) -> None:
        """Create a pod, for an index as replacement of `before`."""
        template = job.spec.template
        finalizers = tuple(each for each in template.metadata.finalizers if each != TRACKING)
        settings: dict[str, object] = {"finalizers": (*finalizers, TRACKING)}
        spec = template.spec
        if index is not None:
            name, suffix = job.metadata.name, f"-{index}-"
            told = {COMPLETION_INDEX: str(index)}
            settings["generate_name"] = f"{name[: 58 - len(suffix)]}{suffix}"
            settings["labels"] = template.metadata.labels | told
            settings["annotations"] = template.metadata.annotations | told | _counts(job, before)
            spec = _with_index(spec) | {"hostname": f"{name}-{index}"}
        make_pod(self._cluster, pod_metadata(job, template, **settings), spec)

    def _delete(self, pods: list[Pod]) -> _Step:
        for pod in pods:
            delete_pod(self._cluster, pod)
        return _Step(pods)

    def _track(self, count: Tally, step: _Step, said: Verdict | None) -> None:
        """Count the pods that have ended, remove their finalizers, and update the job's status."""
        status = _counted(count, step, said)
        done = [pod for pod in count.pods if TRACKING in pod.metadata.finalizers and _is_settled(count, pod, said)]
        now = self._clock.now()
        if said is not None:
            conditions = with_condition(status.conditions, (said.first, "True", said.reason, said.message), now)
            status = replace(status, conditions=conditions)
        elif count.job.metadata.deletion_timestamp is None:
            status = _suspended(count.job, status, now)
        set_status(self._cluster, count.job, status)
        for pod in done:
            release(self._cluster, pod)
        if said is not None and not status.terminating:
            conditions = with_condition(status.conditions, (said.last, "True", said.reason, said.message), now)
            ended = replace(status, conditions=conditions, completion_time=rfc3339(now) if said.succeeds else None)
            set_status(self._cluster, count.job, ended)


class OrphanedJobPods(ControlLoop):
    """Removes the finalizer of jobs from pods that no job counts any more."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job, Pod)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case Job() as job:
                if change.new is None or is_finished(job):
                    yield from map(key_of, self._pods.of(job))
            case Pod() as pod:
                self._pods.file(change)
                if change.new is not None and TRACKING in pod.metadata.finalizers:
                    yield key_of(pod)

    def _reconcile(self, key: Key) -> None:
        pod = self._cluster.find(Pod, key[1], key[0])
        if pod is None or TRACKING not in pod.metadata.finalizers:
            return
        owner = controller_of(pod)
        if owner is not None:
            if (owner.api_version, owner.kind) != ("batch/v1", "Job"):
                return
            job = self._cluster.find(Job, owner.name, key[0])
            if job is not None and job.metadata.uid == owner.uid and not is_finished(job):
                return
        release(self._cluster, pod)


class FinishedJobs(ControlLoop):
    """Deletes finished jobs after their TTL in seconds."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Job,)

    def _touched(self, change: Change) -> Iterable[Key]:
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
                self._cluster.remove(Job, key[1], key[0], uid=job.metadata.uid, policy="Foreground")


def release(cluster: MemoryCluster, pod: Pod) -> None:
    """Take the finalizer of jobs from a pod."""
    current = cluster.find(Pod, pod.metadata.name, pod.metadata.namespace)
    if current is not None and current.metadata.uid == pod.metadata.uid:
        rest = tuple(each for each in current.metadata.finalizers if each != TRACKING)
        cluster.replace(replace(current, metadata=replace(current.metadata, finalizers=rest)))


def is_complete(count: Tally, step: _Step) -> bool:
    """Return whether enough pods have succeeded, and none runs any more."""
    active, wanted = len(count.active) - len(step.deleted) + step.made, count.job.spec.completions
    return not active and (count.succeeded > 0 if wanted is None else count.succeeded >= wanted)


def _wanted(count: Tally) -> int:
    """Return how many pods are to run now: without a number of completions, no new ones after the first success."""
    spec = count.job.spec
    parallelism = spec.parallelism or 0
    if spec.suspend:
        return 0
    if spec.completions is None:
        return len(count.active) if count.succeeded else parallelism
    return max(0, min(spec.completions - count.succeeded, parallelism))


def _is_settled(count: Tally, pod: Pod, said: Verdict | None) -> bool:
    """Return whether a pod needs no finalizer any more once it is counted."""
    if said is not None or count.job.metadata.deletion_timestamp is not None or pod.status.phase == "Succeeded":
        return True
    return is_failed(count.job, pod) and count.awaited.get(index_of(pod)) is not pod


def _counted(count: Tally, step: _Step, said: Verdict | None) -> JobStatus:
    job, status, policy = count.job, count.job.status, count.job.spec.pod_failure_policy
    # Of a job that fails every pod has failed that has not ended.
    lost = step.deleted if said is not None and not said.succeeds else []
    failed = [pod for pod in (*count.new_failed, *lost) if _is_settled(count, pod, said) and belongs(job, pod)]
    deleted = {pod.metadata.uid for pod in step.deleted}
    left = [pod for pod in count.active if pod.metadata.uid not in deleted]
    per_index = job.spec.backoff_limit_per_index is not None
    return replace(
        status,
        active=len(left) + step.made,
        ready=sum(map(is_ready, left)),
        terminating=len(count.ending) + len(step.deleted),
        succeeded=count.succeeded,
        failed=status.failed + sum(consequence(policy, pod).counts for pod in failed),
        completed_indexes=written(count.succeeded_indexes) if is_indexed(job) else "",
        failed_indexes=written(count.failed_indexes) if per_index else status.failed_indexes,
        uncounted_terminated_pods=UncountedTerminatedPods(),
    )


def _suspended(job: Job, status: JobStatus, now: float) -> JobStatus:
    """Set whether a job is suspended; its deadline counts from when it is resumed."""
    said = ("True", "JobSuspended", "Job suspended") if job.spec.suspend else ("False", "JobResumed", "Job resumed")
    conditions = with_condition(status.conditions, ("Suspended", *said), now)
    if conditions == status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=None if job.spec.suspend else rfc3339(now))


def _counts(job: Job, before: Pod | None) -> dict[str, str]:
    """Return annotations with the failures of an index, for the pod that replaces the last."""
    if job.spec.backoff_limit_per_index is None:
        return {}
    if before is None:
        return {FAILURES: "0"}
    counts = consequence(job.spec.pod_failure_policy, before).counts
    failures, ignored = noted(before, FAILURES) + counts, noted(before, IGNORED) + (not counts)
    return {FAILURES: str(failures)} | ({IGNORED: str(ignored)} if ignored else {})


def _with_index(spec: dict[str, object]) -> dict[str, object]:
    """Pass the index to containers in a variable, unless they have one of that name."""
    return spec | {
        field: [_with_variable(each) for each in containers]
        for field in ("initContainers", "containers")
        if isinstance(containers := spec.get(field), list)
    }


def _with_variable(container: object) -> object:
    if not isinstance(container, dict):
        return container
    variables = container.get("env") or []
    if any(isinstance(each, dict) and each.get("name") == _VARIABLE["name"] for each in variables):
        return container
    return container | {"env": [*variables, _VARIABLE]}


_VARIABLE: dict[str, object] = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
}
