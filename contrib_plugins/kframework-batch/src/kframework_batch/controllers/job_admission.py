"""Volcano's admission of a Job: defaults, and checks such as sums that cannot be met."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kframework.engine import Duration
from kframework.objects import QuantityError
from kframework_batch.controllers.inheritance import min_resources
from kframework_batch.controllers.job_plugins.installed import INSTALLED, UNSUPPORTED_PLUGINS
from kframework_batch.controllers.job_plugins.ssh import Ssh
from kframework_batch.controllers.job_pods import is_acyclic, pod_name
from kframework_batch.objects import Job, JobPolicy, NetworkTopology, TaskSpec
from kframework_batch.queue import DEFAULT_QUEUE

#: The annotation of a job that says which tasks make its minimum, and its value.
MINIMUM, SMALLEST = "kframework.dev/minimum", "smallest"

#: The default of a job's maxRetry.
_MAX_RETRY = 3

_EVENTS = frozenset(
    {"*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
_ACTIONS = frozenset(
    {
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    }
)
#: A name of pods goes into their labels, too.
_POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def with_defaults(job: Job, scheduler_name: str, queue: str = DEFAULT_QUEUE) -> Job:
    tasks = []
    for index, task in enumerate(job.spec.tasks):
        policy, least = task.partition_policy, task.min_available
        if least is None and policy is not None and policy.min_partitions > 0:
            least = policy.min_partitions * policy.partition_size
        least = task.replicas if least is None else least
        tasks.append(replace(task, name=task.name or f"default{index}", min_available=least))
    spec = replace(
        job.spec,
        tasks=tuple(tasks),
        scheduler_name=job.spec.scheduler_name or scheduler_name,
        queue=job.spec.queue or queue,
        max_retry=job.spec.max_retry or _MAX_RETRY,
        min_available=job.spec.min_available or sum(task.min_available or 0 for task in tasks),
    )
    return replace(job, spec=spec)


def find_problems(job: Job) -> str:
    """Return all errors of a job with defaults, "" if there are none."""
    return "; ".join(_problems(job))


def _problems(job: Job) -> Iterator[str]:
    spec = job.spec
    if not spec.tasks:
        yield "No task specified in job spec"
    least = {
        "minAvailable": (spec.min_available, 0),
        "maxRetry": (spec.max_retry, 0),
        "minSuccess": (spec.min_success, 1),
        "ttlSecondsAfterFinished": (spec.ttl_seconds_after_finished, 0),
    }
    for field, (number, floor) in least.items():
        if number is not None and number < floor:
            yield f"job '{field}' must be >= {floor}"
    names = [task.name for task in spec.tasks]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"duplicated task name {name}"
    for task in spec.tasks:
        yield from _task_problems(job, task)
    minimum = job.metadata.annotations.get(MINIMUM, SMALLEST)
    if minimum != SMALLEST:
        yield f"annotation {MINIMUM} is {minimum!r}, valid is {SMALLEST}"
    if spec.min_available > sum(task.replicas for task in spec.tasks):
        yield "job 'minAvailable' should not be greater than total replicas in tasks"
    if not is_acyclic(spec.tasks):
        yield "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"
    yield from _policy_problems(spec.policies, "spec.policies")
    yield from _topology_problems(spec.network_topology)
    for name, texts in spec.plugins.items():
        if name not in INSTALLED and name not in UNSUPPORTED_PLUGINS:
            yield f"unable to find job plugin: {name}"
        elif name == "ssh" and (missing := Ssh.missing_package(texts)):
            yield missing


def _task_problems(job: Job, task: TaskSpec) -> Iterator[str]:
    least = task.min_available or 0
    if task.replicas < 0:
        yield f"'replicas' must be >= 0 in task: {task.name}"
    if least < 0:
        yield f"'minAvailable' must be >= 0 in task: {task.name}"
    if least > task.replicas:
        yield f"'minAvailable' is greater than 'replicas' in task: {task.name}"
    longest = pod_name(job, task, max(task.replicas - 1, 0))
    if not _POD_NAME.fullmatch(longest):
        yield f"{longest!r} is no name for a pod: at most 63 lower case letters, digits and '-' (task: {task.name})"
    try:
        min_resources([(task.template.spec, 1)])
    except QuantityError as error:
        yield f"{error} (task: {task.name})"
    yield from _policy_problems(task.policies, f"spec.tasks[{task.name}].policies")
    policy = task.partition_policy
    if policy is None:
        return
    if policy.total_partitions <= 0:
        yield f"'TotalPartitions' must be greater than 0 in task: {task.name}"
    elif policy.partition_size <= 0:
        yield f"'PartitionSize' must be greater than 0 in task: {task.name}"
    elif task.replicas != policy.total_partitions * policy.partition_size:
        yield f"'Replicas' are not equal to TotalPartitions*PartitionSize in task: {task.name}"
    elif policy.min_partitions > 0 and policy.min_partitions * policy.partition_size != task.min_available:
        yield f"'MinAvailable' is not equal to MinPartitions*PartitionSize in task: {task.name}"
    yield from _topology_problems(policy.network_topology)


def _topology_problems(topology: NetworkTopology | None) -> Iterator[str]:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def _policy_problems(policies: Iterable[JobPolicy], path: str) -> Iterator[str]:
    events: list[str] = []
    codes: list[int] = []
    for policy in policies:
        if policy.exit_code == 0:
            yield f"{path}: 0 is not a valid error code"
        if policy.exit_code is not None:
            if policy.exit_code in codes:
                yield f"{path}: duplicate exitCode {policy.exit_code}"
            codes.append(policy.exit_code)
        try:
            Duration.parse(policy.timeout or "0")
        except ValueError as error:
            yield f"{path}: timeout: {error}"
        if policy.action not in _ACTIONS:
            yield f"{path}: invalid policy action {policy.action!r}, valid are {', '.join(sorted(_ACTIONS))}"
        mine = events_of(policy)
        if mine and policy.exit_code is not None:
            yield f"{path}: must not specify event and exitCode simultaneously"
        if not mine and policy.exit_code is None:
            yield f"{path}: either event or exitCode should be specified"
        for event in mine:
            if event not in _EVENTS:
                yield f"{path}: invalid policy event {event!r}, valid are {', '.join(sorted(_EVENTS))}"
            if event in events:
                yield f"{path}: duplicate event {event} across different policies"
        events += mine
    if "*" in events and len(events) > 1:
        yield f"{path}: beside the event * there can be no other"


def events_of(policy: JobPolicy) -> list[str]:
    return list(dict.fromkeys((*policy.events, policy.event) if policy.event else policy.events))
