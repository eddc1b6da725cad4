"""Jobs as Volcano's documents have them come to the end that those documents promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from kframework_batch.objects import Command, Job, Secret
from kframework_batch.scenario import BatchScenario, BatchScenarioResult
from kframework_batch.testing import make_hypernode
from msgspec.structs import replace

from kframework.engine import MemoryCluster
from kframework.objects import ApiObject, ObjectMeta, OwnerReference, Pod, convert, find_kind
from kframework.objects.manifest import read
from kframework.testing import make_node

EXAMPLE = Path(__file__).parents[2] / "examples" / "policies.yaml"

MNIST = """
minAvailable: 3
plugins: {env: [], svc: []}
queue: default
tasks:
- name: ps
  replicas: 1
  template: {spec: {restartPolicy: Never, containers: [{name: tensorflow, image: mnist}]}}
- name: worker
  replicas: 2
  policies: [{event: TaskCompleted, action: CompleteJob}]
  template:
    metadata: {annotations: {kframework.dev/run-seconds: "900"}}
    spec: {restartPolicy: Never, containers: [{name: tensorflow, image: mnist}]}
"""

SLEEPER = """
minAvailable: 1
ttlSecondsAfterFinished: 600
policies: [{event: PodEvicted, action: RestartJob}]
tasks:
- name: sleeper
  replicas: 1
  policies: [{event: TaskCompleted, action: CompleteJob}]
  template:
    metadata: {annotations: {kframework.dev/run-seconds: "5"}}
    spec: {restartPolicy: Never, containers: [{name: sleeper, image: debian}]}
"""

CHAIN = """
minAvailable: 1
tasks:
- name: third
  replicas: 5
  dependsOn: {name: [second]}
  template: {spec: {containers: [{name: nginx, image: nginx}]}}
- name: second
  replicas: 5
  dependsOn: {name: [first]}
  template: {spec: {containers: [{name: nginx, image: nginx}]}}
- name: first
  replicas: 1
  template: {spec: {containers: [{name: nginx, image: nginx}]}}
"""

PARTITIONS = """
minAvailable: 4
policies: [{event: PodFailed, action: RestartPartition}]
tasks:
- name: worker
  replicas: 6
  partitionPolicy:
    totalPartitions: 3
    partitionSize: 2
    minPartitions: 2
    networkTopology: {mode: hard, highestTierAllowed: 1}
  template: {spec: {containers: [{name: worker, image: nginx, resources: {requests: {cpu: 1}}}]}}
"""

DENIED = """
minAvailable: 1
tasks: [{name: task-1, replicas: 2, template: {spec: {containers: [{name: nginx, image: nginx}]}}}]
policies: [{event: PodFailed, action: RestartJob}, {event: PodFailed, action: AbortJob}]
"""


def job(spec: str, **more: object) -> Job:
    data = {"metadata": {"name": "j", "namespace": "default", "uid": "u"}, "spec": yaml.safe_load(spec) | more}
    kind = find_kind("batch.volcano.sh/v1alpha1", "Job")
    assert kind is not None
    made = convert(data, kind)
    assert isinstance(made, Job)
    return made


def with_policies(spec: str, task: str, *policies: dict[str, object]) -> Job:
    """Give a task of a job other policies."""
    made = yaml.safe_load(spec)
    for each in made["tasks"]:
        if each["name"] == task:
            each["policies"] = list(policies)
    return job(yaml.safe_dump(made))


Blow = Callable[[MemoryCluster], None]


def fail(name: str) -> Blow:
    def blow(cluster: MemoryCluster) -> None:
        pod = cluster.read(Pod, name, "default")
        cluster.set_status(pod, replace(pod.status, phase="Failed"))

    return blow


def evict(name: str) -> Blow:
    return lambda cluster: cluster.remove(Pod, name, "default", grace=0)


def order(action: str) -> Blow:
    target = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="j", uid="u")
    metadata = ObjectMeta(generate_name="j-", namespace="default")

    def blow(cluster: MemoryCluster) -> None:
        cluster.add(Command(metadata=metadata, action=action, target=target))

    return blow


class Story(NamedTuple):
    """A job, what happens to it when, and its phase and retries at some seconds; a job that is gone is ""."""

    job: Job
    blows: dict[float, Blow]
    phases: dict[float, str]
    retries: int = 0


PS_POLICIES: tuple[dict[str, object], ...] = (
    {"events": ["PodFailed"], "action": "RestartPod"},
    {"event": "PodEvicted", "action": "RestartJob", "timeout": "10m"},
)
STORIES = {
    # how_to_use_job_policy, example 1
    "a task completes and so does the job": Story(job(MNIST), {}, {60: "Running", 899: "Running", 940: "Completed"}),
    "any pod is evicted and the job restarts": Story(
        job(MNIST, policies=[{"event": "PodEvicted", "action": "RestartJob"}]),
        {60: evict("j-worker-1")},
        {61: "Restarting", 120: "Running", 930: "Running", 1030: "Completed"},
        1,
    ),
    # example 2
    "a pod of the task fails and the job restarts": Story(
        with_policies(MNIST, "ps", {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}),
        {60: fail("j-ps-0")},
        {61: "Restarting", 120: "Running"},
        1,
    ),
    "a pod of another task fails and nothing happens": Story(
        with_policies(MNIST, "ps", {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}),
        {60: fail("j-worker-0")},
        {61: "Running", 120: "Running"},
    ),
    # example 3
    "a pod fails and is restarted alone": Story(
        with_policies(MNIST, "ps", *PS_POLICIES), {60: fail("j-ps-0")}, {120: "Running", 940: "Completed"}, 1
    ),
    "an evicted pod runs again in time": Story(
        with_policies(MNIST, "ps", *PS_POLICIES), {60: evict("j-ps-0")}, {120: "Running", 940: "Completed"}
    ),
    # how_to_use_job_ttl
    "a finished job goes after its time": Story(
        job(SLEEPER), {}, {3: "Running", 30: "Completed", 590: "Completed", 620: ""}
    ),
    # the invalid examples
    "one event has two actions": Story(job(DENIED), {}, {5: "Failed"}),
    # suspend and resume
    "a job is suspended and resumed": Story(
        job(MNIST),
        {60: order("AbortJob"), 600: order("ResumeJob")},
        {599: "Aborted", 660: "Running", 1540: "Completed"},
        1,
    ),
    "a job is terminated and cannot be resumed": Story(
        job(MNIST), {60: order("TerminateJob"), 200: order("ResumeJob")}, {199: "Terminated", 400: "Terminated"}
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_job_ends_as_volcano_documents(name: str) -> None:
    story = STORIES[name]
    scenario = BatchScenario(nodes=[make_node("n", cpu=16)], jobs=[story.job])
    seen: dict[float, str] = {}
    retries: list[int] = []

    def look(second: float, cluster: MemoryCluster) -> None:
        found = cluster.find(Job, "j", "default")
        seen[second] = found.status.state.phase if found is not None else ""
        retries.extend([found.status.retry_count] if found is not None else [])

    for second, blow in story.blows.items():
        scenario.at(second, blow)
    for second in story.phases:
        scenario.at(second, partial(look, second))
    scenario.run(max(story.phases) + 1)
    assert (seen, retries[-1]) == (story.phases, story.retries)


def test_tasks_start_in_order_of_dependencies() -> None:
    record = BatchScenario(nodes=[make_node("n", cpu=16)], jobs=[job(CHAIN)]).run(60)
    first, second, third = (
        {record.bound[f"j-{task}-{index}"][0] for index in range(count)}
        for task, count in (("first", 1), ("second", 5), ("third", 5))
    )
    assert max(first) < min(second) <= max(second) < min(third)


def test_partitions_have_one_rack_each_and_restart_separately() -> None:
    """Three racks have room for two workers, two and one: two partitions of three run, which is what the job needs."""
    nodes = [make_node(name, cpu=1) for name in ("a0", "a1", "b0", "b1", "c0")]
    racks = [make_hypernode("a", 1, "a0", "a1"), make_hypernode("b", 1, "b0", "b1"), make_hypernode("c", 1, "c0")]
    scenario = BatchScenario(nodes=nodes, objects=racks, jobs=[job(PARTITIONS)])
    uids: dict[float, dict[str, str]] = {}

    def look(second: float, cluster: MemoryCluster) -> None:
        bound = [pod for pod in cluster.objects(Pod) if pod.spec.node_name]
        uids[second] = {pod.metadata.name: pod.metadata.uid for pod in bound}

    scenario.at(60, fail("j-worker-2"))
    for second in (30.0, 200.0):
        scenario.at(second, partial(look, second))
    record = scenario.run(201)
    (found,) = record.cluster.objects(Job)
    assert (found.status.state.phase, found.status.retry_count) == ("Running", 1)
    assert uids[30].keys() == uids[200].keys() == {f"j-worker-{index}" for index in range(4)}
    restarted = {name for name, uid in uids[200].items() if uid != uids[30][name]}
    assert restarted == {"j-worker-2", "j-worker-3"}
    racks_of = {pod.metadata.name: pod.spec.node_name[:1] for pod in record.cluster.objects(Pod) if pod.spec.node_name}
    assert racks_of["j-worker-0"] == racks_of["j-worker-1"] != racks_of["j-worker-2"] == racks_of["j-worker-3"]


def example(until: float, *blows: tuple[float, Blow]) -> BatchScenarioResult:
    objects: list[ApiObject] = read([str(EXAMPLE)]).objects
    scenario = BatchScenario(objects=objects)
    for second, blow in blows:
        scenario.at(second, blow)
    return scenario.run(until)


def phases(record: BatchScenarioResult) -> dict[str, str]:
    return {each.metadata.name: each.status.state.phase for each in record.cluster.objects(Job)}


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (50, {"mnist": "Running", "flaky": "Running", "enough": "Running", "mpi": "Running"}),
        (400, {"mnist": "Running", "flaky": "Failed", "enough": "Completed", "mpi": "Completed"}),
        (700, {"mnist": "Completed", "flaky": "Failed", "enough": "Completed", "mpi": "Completed"}),
    ],
)
def test_jobs_of_the_example_end_as_its_comments_say(until: float, expected: dict[str, str]) -> None:
    record = example(until)
    assert phases(record) == expected
    if until == 700:
        retries = {each.metadata.name: each.status.retry_count for each in record.cluster.objects(Job)}
        assert retries == {"mnist": 0, "flaky": 3, "enough": 0, "mpi": 0}
        left = {pod.metadata.name for pod in record.cluster.objects(Pod)}
        assert not left & {"mnist-ps-0", "enough-cache-0", "mpi-worker-0", "mpi-worker-1"}


def test_simulated_ssh_keys_are_reproducible() -> None:
    first, second = ([each.data for each in example(50).cluster.objects(Secret)] for _ in range(2))
    assert first == second != []
