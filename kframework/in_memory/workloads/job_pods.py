"""The pods and indexes of a job, and whether they make it succeed or fail; pure functions.

Indexes are intervals: a job may have a hundred thousand, and a client may write more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kframework.clock import rfc3339, seconds_of
from kframework.in_memory.workloads.dependents import is_active
from kframework.objects import (
    Job,
    JobStatus,
    Pod,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    WorkloadCondition,
)

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

#: First and last, in order, and neither touching nor crossing.
Intervals = tuple[tuple[int, int], ...]


def completion_index(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() and len(text) < 11 else None


def parse_intervals(text: str, completions: int) -> Intervals:
    """Parse indexes below the number of completions; invalid parts are skipped."""
    intervals = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(first) < completions:
            intervals.append((int(first), min(int(last or first), completions - 1)))
    return merge_intervals(intervals)


def format_intervals(intervals: Intervals) -> str:
    """Format indexes: `0,2,4-7`."""
    marks = {0: "", 1: ","}
    return ",".join(
        str(first) if first == last else f"{first}{marks.get(last - first, '-')}{last}" for first, last in intervals
    )


def intervals_of_pods(pods: Iterable[Pod]) -> Intervals:
    return merge_intervals((index, index) for pod in pods if (index := completion_index(pod)) is not None)


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> Intervals:
    result: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if result and first <= result[-1][1] + 1:
            result[-1] = result[-1][0], max(last, result[-1][1])
        else:
            result.append((first, last))
    return tuple(result)


def count_indexes(intervals: Intervals) -> int:
    return sum(last - first + 1 for first, last in intervals)


def contains_index(intervals: Intervals, index: int) -> bool:
    return any(first <= index <= last for first, last in intervals)


def count_common(some: Intervals, others: Intervals) -> int:
    return count_indexes(some) + count_indexes(others) - count_indexes(merge_intervals(some + others))


def first_missing_indexes(intervals: Intervals, count: int, completions: int) -> list[int]:
    """List at most `count` of the lowest indexes that are not in these intervals."""
    missing: list[int] = []
    begin = 0
    for first, last in (*intervals, (completions, completions)):
        missing += range(begin, min(first, completions, begin + count - len(missing)))
        begin = last + 1
    return missing


class FailureMatch(NamedTuple):
    """The action of the pod failure policy for a failed pod, and the message if the job fails for it."""

    action: str
    message: str = ""

    @property
    def is_counted(self) -> bool:
        return self.action != "Ignore"


def match_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> FailureMatch:
    """Return the action of the first rule that matches a failed pod; without one it counts as a failure."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        reason = _match_rule(rule, pod)
        if reason:
            return FailureMatch(rule.action, f"{reason} matching {rule.action} rule at index {index}")
    return FailureMatch("Count")


def _match_rule(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return why a rule matches a pod; "" if it does not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        status = pod.status
        codes = rule.on_exit_codes
        for each in (*status.container_statuses, *status.init_container_statuses):
            ended = each.state.terminated if each.state is not None else None
            if ended is None or not ended.exit_code or codes.container_name not in (None, each.name):
                continue
            if (ended.exit_code in codes.values) == (codes.operator == "In"):
                return f"Container {each.name} for pod {name} failed with exit code {ended.exit_code}"
        return ""
    expected = {(each.type, each.status) for each in rule.on_pod_conditions}
    met = (each.type for each in pod.status.conditions if (each.type, each.status) in expected)
    return f"Pod {name} has condition {kind}" if (kind := next(met, "")) else ""


def match_success_policy(policy: SuccessPolicy | None, completions: int, succeeded: Intervals) -> str:
    """Return the message of the rule that the succeeded indexes satisfy; "" if there is none."""
    for index, rule in enumerate(policy.rules if policy is not None and succeeded else ()):
        required = None if rule.succeeded_indexes is None else parse_intervals(rule.succeeded_indexes, completions)
        if required == ():
            continue
        count = count_indexes(succeeded) if required is None else count_common(required, succeeded)
        enough = rule.succeeded_count is not None and count >= rule.succeeded_count
        if enough or (required is not None and count == count_indexes(required)):
            return f"Matched rules at index {index}"
    return ""


#: The backoff after one failure, and the maximum, in seconds; it doubles.
_BASE_DELAY, _MAX_DELAY = 10.0, 600.0


class JobBackoff(NamedTuple):
    """The number of a job's pods that have failed since one has succeeded, and the time of the last failure."""

    failures: int = 0
    failed_at: float = 0.0

    def with_ended_pods(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> JobBackoff:
        success = max(map(finished_at, succeeded), default=None)
        failures = sorted(at for at in map(finished_at, failed) if success is None or at > success)
        before = self if success is None else JobBackoff()
        return JobBackoff(before.failures + len(failures), failures[-1]) if failures else before

    def remaining(self, now: float) -> float:
        if not self.failures:
            return 0.0
        wait: float = min(_BASE_DELAY * 2 ** min(self.failures - 1, 32), _MAX_DELAY)
        return max(0.0, wait - (now - self.failed_at))


def finished_at(pod: Pod) -> float:
    ready = next((each for each in pod.status.conditions if (each.type, each.status) == ("Ready", "False")), None)
    if ready is not None and ready.last_transition_time:
        return seconds_of(ready.last_transition_time)
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        return seconds_of(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    return seconds_of(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0


#: The finalizer of pods that are not counted yet.
TRACKING = "batch.kubernetes.io/job-tracking"
#: Annotations of pods: how often their index has failed before, and how often that did not count.
FAILURES, IGNORED = (f"batch.kubernetes.io/job-index-{what}-count" for what in ("failure", "ignored-failure"))

_MAX_INT32 = 2**31 - 1


class JobOutcome(NamedTuple):
    """The outcome of a job, success or failure, and its reason."""

    succeeds: bool
    reason: str
    message: str

    @property
    def interim_condition(self) -> tuple[str, str, str, str]:
        """The condition while pods are still terminating."""
        return "SuccessCriteriaMet" if self.succeeds else "FailureTarget", "True", self.reason, self.message

    @property
    def final_condition(self) -> tuple[str, str, str, str]:
        """The condition once all pods have ended."""
        return "Complete" if self.succeeds else "Failed", "True", self.reason, self.message


#: The outcome of a job that has as many succeeded pods as it wants.
COMPLETIONS_REACHED = JobOutcome(True, "CompletionsReached", "Reached expected number of succeeded pods")


class ClassifiedPods(NamedTuple):
    """The pods of a job, which has all its defaults; those that are new are not in its status yet."""

    job: Job
    pods: list[Pod]
    active: list[Pod]
    new_succeeded: list[Pod]
    new_failed: list[Pod]
    succeeded_indexes: Intervals
    failed_indexes: Intervals
    #: By index, failed pods that are deleted only after they are replaced: the new pod copies their counts.
    delayed_by_index: dict[int | None, Pod]

    @property
    def succeeded(self) -> int:
        if is_indexed(self.job):
            return count_indexes(self.succeeded_indexes)
        return self.job.status.succeeded + len(self.new_succeeded)

    @property
    def failed(self) -> int:
        """The number of failed pods, except those that do not count."""
        policy = self.job.spec.pod_failure_policy
        return self.job.status.failed + sum(match_failure_policy(policy, pod).is_counted for pod in self.new_failed)

    @property
    def ending(self) -> list[Pod]:
        """The pods that have been deleted and still run."""
        ended = ("Succeeded", "Failed")
        return [pod for pod in self.pods if pod.metadata.deletion_timestamp and pod.status.phase not in ended]


def with_defaults(job: Job) -> Job:
    spec = job.spec
    only_failed = spec.pod_failure_policy is not None
    alone = spec.completions is None and spec.parallelism is None
    limit = 6 if spec.backoff_limit_per_index is None else _MAX_INT32
    return replace(
        job,
        spec=replace(
            spec,
            completions=1 if alone else spec.completions,
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            backoff_limit=limit if spec.backoff_limit is None else spec.backoff_limit,
            pod_replacement_policy="Failed" if only_failed else spec.pod_replacement_policy,
        ),
    )


def classify_pods(job: Job, pods: list[Pod]) -> ClassifiedPods:
    job, active = with_defaults(job), [pod for pod in pods if is_active(pod)]
    uncounted = [pod for pod in pods if TRACKING in pod.metadata.finalizers and is_countable(job, pod)]
    succeeded = [pod for pod in uncounted if pod.status.phase == "Succeeded"]
    failed = [pod for pod in uncounted if is_failed(job, pod)]
    completions = job.spec.completions or 0
    succeeded_indexes = merge_intervals(
        parse_intervals(job.status.completed_indexes, completions) + intervals_of_pods(succeeded)
    )
    failed_indexes: Intervals = ()
    delayed_by_index: dict[int | None, Pod] = {}
    if job.spec.backoff_limit_per_index is not None:
        lost = intervals_of_pods(pod for pod in failed if _fails_index(job, pod))
        failed_indexes = merge_intervals(parse_intervals(job.status.failed_indexes or "", completions) + lost)
        settled = merge_intervals(succeeded_indexes + failed_indexes + intervals_of_pods(active))
        # Of several the one that has the highest count, and of those the last.
        for pod in sorted(failed, key=lambda pod: (failure_count(pod), finished_at(pod))):
            index = completion_index(pod)
            if index is not None and not contains_index(settled, index):
                delayed_by_index[index] = pod
    return ClassifiedPods(job, pods, active, succeeded, failed, succeeded_indexes, failed_indexes, delayed_by_index)


def job_outcome(state: ClassifiedPods, now: float) -> JobOutcome | None:
    """Return the outcome of a job, None if it is not over; a job with enough succeeded pods is not decided here."""
    return next(_job_outcomes(state, now), None)


def _job_outcomes(state: ClassifiedPods, now: float) -> Iterator[JobOutcome]:
    job, spec = state.job, state.job.spec
    for type_name in ("SuccessCriteriaMet", "FailureTarget"):
        if (condition := find_condition(job.status, type_name)) is not None:
            yield JobOutcome(type_name == "SuccessCriteriaMet", condition.reason, condition.message)
    for pod in state.pods:
        if spec.pod_failure_policy is not None and is_failed(job, pod):
            match = match_failure_policy(spec.pod_failure_policy, pod)
            if match.action == "FailJob":
                yield JobOutcome(False, "PodFailurePolicy", match.message)
    if state.failed > (spec.backoff_limit or 0) or _exceeds_backoff_on_failure(job, state.pods):
        yield JobOutcome(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (left := time_left(job, now)) is not None and left <= 0:
        yield JobOutcome(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    if is_indexed(job):
        lost, completions = count_indexes(state.failed_indexes), spec.completions or 0
        if spec.max_failed_indexes is not None and lost > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            yield JobOutcome(False, "MaxFailedIndexesExceeded", message)
        if lost and lost + state.succeeded >= completions:
            yield JobOutcome(False, "FailedIndexes", "Job has failed indexes")
        if message := match_success_policy(spec.success_policy, completions, state.succeeded_indexes):
            yield JobOutcome(True, "SuccessPolicy", message)


def time_left(job: Job, now: float) -> float | None:
    """Return how many seconds a job may still be active; None without a deadline, or while it is suspended."""
    seconds, started = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or job.spec.suspend:
        return None
    return seconds - (now - seconds_of(started)) if started else float(seconds)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def is_finished(job: Job) -> bool:
    return find_condition(job.status, "Complete") is not None or find_condition(job.status, "Failed") is not None


def is_failed(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts as failed; a terminating one does, unless the replacement policy is Failed."""
    if pod.status.phase == "Failed" or job.spec.pod_replacement_policy == "Failed":
        return pod.status.phase == "Failed"
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def is_countable(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts: in an indexed job it needs a valid index."""
    index = completion_index(pod)
    return not is_indexed(job) or (index is not None and index < (job.spec.completions or 0))


def failure_count(pod: Pod) -> int:
    """Return how often the index of a pod has failed before, including ignored failures."""
    return annotated_count(pod, FAILURES) + annotated_count(pod, IGNORED)


def annotated_count(pod: Pod, annotation: str) -> int:
    """Return the number in an annotation of a pod, 0 if it is not a number."""
    text = pod.metadata.annotations.get(annotation, "")
    number = int(text) if text.isdecimal() and len(text) < 11 else 0
    return number if number <= _MAX_INT32 else 0


def find_condition(status: JobStatus, name: str) -> WorkloadCondition | None:
    return next((each for each in status.conditions if (each.type, each.status) == (name, "True")), None)


def with_job_condition(
    conditions: tuple[WorkloadCondition, ...], condition: tuple[str, str, str, str], now: float
) -> tuple[WorkloadCondition, ...]:
    """Set a condition (type, status, reason, message); a new one is not added with status False."""
    name, status, reason, message = condition
    old = next((each for each in conditions if each.type == name), None)
    if (old is None and status == "False") or (old and (old.type, old.status, old.reason, old.message) == condition):
        return conditions
    text = rfc3339(now)
    new = WorkloadCondition(
        type=name,
        status=status,
        last_probe_time=text,
        last_transition_time=text,
        reason=reason,
        message=message,
    )
    return (*conditions, new) if old is None else tuple(new if each is old else each for each in conditions)


def _fails_index(job: Job, pod: Pod) -> bool:
    match = match_failure_policy(job.spec.pod_failure_policy, pod)
    limit = job.spec.backoff_limit_per_index or 0
    return match.action == "FailIndex" or (match.is_counted and annotated_count(pod, FAILURES) >= limit)


def _exceeds_backoff_on_failure(job: Job, pods: Iterable[Pod]) -> bool:
    if job.spec.template.spec.get("restartPolicy") != "OnFailure":
        return False
    running = (pod.status for pod in pods if pod.status.phase in ("Running", "Pending"))
    restarts = sum(each.restart_count for status in running for each in status.container_statuses)
    return restarts > 0 and restarts >= (job.spec.backoff_limit or 0)
