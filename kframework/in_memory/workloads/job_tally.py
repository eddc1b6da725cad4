"""The progress of a job: its pods and indexes, and whether they make it succeed or fail; pure functions.

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


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod, None if it has none."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() and len(text) < 11 else None


def read(text: str, completions: int) -> Intervals:
    """Read indexes below the number of completions; anything but an interval is skipped."""
    intervals = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(first) < completions:
            intervals.append((int(first), min(int(last or first), completions - 1)))
    return merged(intervals)


def written(intervals: Intervals) -> str:
    """Write indexes: `0,2,4-7`."""
    marks = {0: "", 1: ","}
    return ",".join(
        str(first) if first == last else f"{first}{marks.get(last - first, '-')}{last}" for first, last in intervals
    )


def single(indexes: Iterable[int]) -> Intervals:
    """Convert indexes to intervals."""
    return merged((index, index) for index in indexes)


def merged(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Merge adjacent and overlapping intervals."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return tuple(found)


def total(intervals: Intervals) -> int:
    """Count indexes."""
    return sum(last - first + 1 for first, last in intervals)


def has(intervals: Intervals, index: int) -> bool:
    """Return whether an index is among these."""
    return any(first <= index <= last for first, last in intervals)


def in_common(some: Intervals, others: Intervals) -> int:
    """Count the indexes that are in both."""
    return total(some) + total(others) - total(merged(some + others))


def first_missing(intervals: Intervals, count: int, completions: int) -> list[int]:
    """List at most `count` of the lowest indexes that are not in these intervals."""
    missing: list[int] = []
    begin = 0
    for first, last in (*intervals, (completions, completions)):
        missing += range(begin, min(first, completions, begin + count - len(missing)))
        begin = last + 1
    return missing


class Consequence(NamedTuple):
    """The consequence of a failed pod, and the message if the job fails for it."""

    action: str
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts against the job's limit."""
        return self.action != "Ignore"


def consequence(policy: PodFailurePolicy | None, pod: Pod) -> Consequence:
    """Return the consequence of a failed pod."""
    for place, rule in enumerate(policy.rules if policy is not None else ()):
        reason = _reason(rule, pod)
        if reason:
            return Consequence(rule.action, f"{reason} matching {rule.action} rule at index {place}")
    return Consequence("Count")


def _reason(rule: PodFailurePolicyRule, pod: Pod) -> str:
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
    wanted = {(each.type, each.status) for each in rule.on_pod_conditions}
    met = (each.type for each in pod.status.conditions if (each.type, each.status) in wanted)
    return f"Pod {name} has condition {kind}" if (kind := next(met, "")) else ""


def is_success(policy: SuccessPolicy | None, completions: int, succeeded: Intervals) -> str:
    """Return the rule by which a job succeeds with the succeeded indexes; "" if there is none."""
    for place, rule in enumerate(policy.rules if policy is not None and succeeded else ()):
        required = None if rule.succeeded_indexes is None else read(rule.succeeded_indexes, completions)
        if required == ():
            continue
        count = total(succeeded) if required is None else in_common(required, succeeded)
        enough = rule.succeeded_count is not None and count >= rule.succeeded_count
        if enough or (required is not None and count == total(required)):
            return f"Matched rules at index {place}"
    return ""


#: The backoff after one failure, and the maximum, in seconds; it doubles.
_FIRST, _LONGEST = 10.0, 600.0


class Backoff(NamedTuple):
    """The number of a job's pods that have failed since one has succeeded, and the time of the last failure."""

    failures: int = 0
    failed_at: float = 0.0

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
        """Return the backoff after these newly ended pods."""
        success = max(map(ended_at, succeeded), default=None)
        failures = sorted(at for at in map(ended_at, failed) if success is None or at > success)
        before = self if success is None else Backoff()
        return Backoff(before.failures + len(failures), failures[-1]) if failures else before

    def remaining(self, now: float) -> float:
        """Return how many seconds are still to be waited."""
        if not self.failures:
            return 0.0
        wait: float = min(_FIRST * 2 ** min(self.failures - 1, 32), _LONGEST)
        return max(0.0, wait - (now - self.failed_at))


def ended_at(pod: Pod) -> float:
    """Return when a pod ended, as far as its status shows."""
    said = [each for each in pod.status.conditions if (each.type, each.status) == ("Ready", "False")]
    if said and (text := said[0].last_transition_time):
        return seconds_of(text)
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        return seconds_of(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    return seconds_of(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0


#: The finalizer of pods that are not counted yet.
TRACKING = "batch.kubernetes.io/job-tracking"
#: Annotations of pods: how often their index has failed before, and how often that did not count.
FAILURES, IGNORED = (f"batch.kubernetes.io/job-index-{what}-count" for what in ("failure", "ignored-failure"))

_MOST = 2**31 - 1


class Verdict(NamedTuple):
    """The reason why a job is over: it succeeds, or it fails."""

    succeeds: bool
    reason: str
    message: str

    @property
    def first(self) -> str:
        """The condition while pods are still ending."""
        return "SuccessCriteriaMet" if self.succeeds else "FailureTarget"

    @property
    def last(self) -> str:
        """The final condition."""
        return "Complete" if self.succeeds else "Failed"


#: The verdict on a job that has as many succeeded pods as it wants.
REACHED = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")


class Tally(NamedTuple):
    """The pods of a job, which has all its defaults; those that are new are not in its status yet."""

    job: Job
    pods: list[Pod]
    active: list[Pod]
    new_succeeded: list[Pod]
    new_failed: list[Pod]
    succeeded_indexes: Intervals
    failed_indexes: Intervals
    #: By index, failed pods that stay until there is one in their place, which takes over their counts.
    awaited: dict[int | None, Pod]

    @property
    def succeeded(self) -> int:
        """The number of pods, or indexes, that have succeeded."""
        if is_indexed(self.job):
            return total(self.succeeded_indexes)
        return self.job.status.succeeded + len(self.new_succeeded)

    @property
    def failed(self) -> int:
        """The number of failed pods, except those that do not count."""
        policy = self.job.spec.pod_failure_policy
        return self.job.status.failed + sum(consequence(policy, pod).counts for pod in self.new_failed)

    @property
    def ending(self) -> list[Pod]:
        """The pods that have been deleted and still run."""
        ended = ("Succeeded", "Failed")
        return [pod for pod in self.pods if pod.metadata.deletion_timestamp and pod.status.phase not in ended]


def filled(job: Job) -> Job:
    """Return a job with defaults for all optional fields."""
    spec = job.spec
    only_failed = spec.pod_failure_policy is not None
    alone = spec.completions is None and spec.parallelism is None
    limit = 6 if spec.backoff_limit_per_index is None else _MOST
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


def tally(job: Job, pods: list[Pod]) -> Tally:
    """Classify the pods of a job."""
    job, active = filled(job), [pod for pod in pods if is_active(pod)]
    uncounted = [pod for pod in pods if TRACKING in pod.metadata.finalizers and belongs(job, pod)]
    succeeded = [pod for pod in uncounted if pod.status.phase == "Succeeded"]
    failed = [pod for pod in uncounted if is_failed(job, pod)]
    completions = job.spec.completions or 0
    succeeded_indexes = merged(read(job.status.completed_indexes, completions) + single(_indexes(succeeded)))
    failed_indexes: Intervals = ()
    awaited: dict[int | None, Pod] = {}
    if job.spec.backoff_limit_per_index is not None:
        lost = single(_indexes(pod for pod in failed if _loses_index(job, pod)))
        failed_indexes = merged(read(job.status.failed_indexes or "", completions) + lost)
        settled = merged(succeeded_indexes + failed_indexes + single(_indexes(active)))
        # Of several the one that has the highest count, and of those the last.
        for pod in sorted(failed, key=lambda pod: (failures_of(pod), ended_at(pod))):
            index = index_of(pod)
            if index is not None and not has(settled, index):
                awaited[index] = pod
    return Tally(job, pods, active, succeeded, failed, succeeded_indexes, failed_indexes, awaited)


def verdict(count: Tally, now: float) -> Verdict | None:
    """Return why a job is over, None if it is not, or not but for having enough succeeded pods."""
    return next(_verdicts(count, now), None)


def _verdicts(count: Tally, now: float) -> Iterator[Verdict]:
    job, spec = count.job, count.job.spec
    for type_name in ("SuccessCriteriaMet", "FailureTarget"):
        if (said := condition(job.status, type_name)) is not None:
            yield Verdict(type_name == "SuccessCriteriaMet", said.reason, said.message)
    for pod in count.pods:
        if spec.pod_failure_policy is not None and is_failed(job, pod):
            follows = consequence(spec.pod_failure_policy, pod)
            if follows.action == "FailJob":
                yield Verdict(False, "PodFailurePolicy", follows.message)
    if count.failed > (spec.backoff_limit or 0) or _restarts_too_often(job, count.pods):
        yield Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if (left := time_left(job, now)) is not None and left <= 0:
        yield Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    if is_indexed(job):
        lost, completions = total(count.failed_indexes), spec.completions or 0
        if spec.max_failed_indexes is not None and lost > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            yield Verdict(False, "MaxFailedIndexesExceeded", message)
        if lost and lost + count.succeeded >= completions:
            yield Verdict(False, "FailedIndexes", "Job has failed indexes")
        if message := is_success(spec.success_policy, completions, count.succeeded_indexes):
            yield Verdict(True, "SuccessPolicy", message)


def time_left(job: Job, now: float) -> float | None:
    """Return how many seconds a job may still be active; None if any number, or while it is suspended."""
    seconds, started = job.spec.active_deadline_seconds, job.status.start_time
    if seconds is None or job.spec.suspend:
        return None
    return seconds - (now - seconds_of(started)) if started else float(seconds)


def is_indexed(job: Job) -> bool:
    """Return whether each pod of a job has an index of its own."""
    return job.spec.completion_mode == "Indexed"


def is_finished(job: Job) -> bool:
    """Return whether a job has succeeded or failed, and all its pods have ended."""
    return condition(job.status, "Complete") is not None or condition(job.status, "Failed") is not None


def is_failed(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts as failed: one that is deleted does, unless only what has ended is replaced."""
    if pod.status.phase == "Failed" or job.spec.pod_replacement_policy == "Failed":
        return pod.status.phase == "Failed"
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def belongs(job: Job, pod: Pod) -> bool:
    """Return whether a pod counts: where there are indexes it needs one."""
    index = index_of(pod)
    return not is_indexed(job) or (index is not None and index < (job.spec.completions or 0))


def failures_of(pod: Pod) -> int:
    """Return how often the index of a pod has failed before it, whether that counts or not."""
    return noted(pod, FAILURES) + noted(pod, IGNORED)


def noted(pod: Pod, annotation: str) -> int:
    """Return a number in an annotation of a pod, 0 if it is none."""
    text = pod.metadata.annotations.get(annotation, "")
    number = int(text) if text.isdecimal() and len(text) < 11 else 0
    return number if number <= _MOST else 0


def condition(status: JobStatus, name: str) -> WorkloadCondition | None:
    """Find a condition that holds."""
    return next((each for each in status.conditions if (each.type, each.status) == (name, "True")), None)


def with_condition(
    conditions: tuple[WorkloadCondition, ...], said: tuple[str, str, str, str], now: float
) -> tuple[WorkloadCondition, ...]:
    """Set a condition of this type, status, reason and message; what never held need not be denied."""
    name, status, reason, message = said
    old = next((each for each in conditions if each.type == name), None)
    if (old is None and status == "False") or (old and (old.type, old.status, old.reason, old.message) == said):
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


def _indexes(pods: Iterable[Pod]) -> Iterator[int]:
    return (index for pod in pods if (index := index_of(pod)) is not None)


def _loses_index(job: Job, pod: Pod) -> bool:
    """Return whether a failed pod was the last that its index may have."""
    follows = consequence(job.spec.pod_failure_policy, pod)
    limit = job.spec.backoff_limit_per_index or 0
    return follows.action == "FailIndex" or (follows.counts and noted(pod, FAILURES) >= limit)


def _restarts_too_often(job: Job, pods: Iterable[Pod]) -> bool:
    if job.spec.template.spec.get("restartPolicy") != "OnFailure":
        return False
    running = (pod.status for pod in pods if pod.status.phase in ("Running", "Pending"))
    restarts = sum(each.restart_count for status in running for each in status.container_statuses)
    return restarts > 0 and restarts >= (job.spec.backoff_limit or 0)
