"""A job runs pods until enough have succeeded, or too many have failed; what it says of that, second by second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kframework.clock import VirtualTimeLoop, rfc3339
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.job_pods import TRACKING, JobBackoff, finished_at
from kframework.objects import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Job,
    JobStatus,
    ObjectMeta,
    OnExitCodes,
    OnPodCondition,
    Pod,
    PodCondition,
    PodFailurePolicy,
    PodFailurePolicyRule,
    PodStatus,
    SuccessPolicy,
    SuccessPolicyRule,
    WorkloadPodTemplate,
)
from kframework.testing import make_pod
from tests.in_memory.workloads.workload_cluster import job, pods, run_controllers


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


INDEXED: dict[str, Any] = {"completion_mode": "Indexed"}
FAILED = ("FailureTarget", "Failed")
SUCCEEDED = ("SuccessCriteriaMet", "Complete")


def status(memory: MemoryCluster) -> JobStatus:
    return memory.read(Job, "work").status


def numbers(memory: MemoryCluster) -> tuple[int, int, int]:
    result = status(memory)
    return result.active, result.succeeded, result.failed


def holding(memory: MemoryCluster) -> tuple[str, ...]:
    return tuple(each.type for each in status(memory).conditions if each.status == "True")


def reason(memory: MemoryCluster) -> str:
    return next(each.reason for each in status(memory).conditions if each.type in ("Complete", "Failed"))


async def end(memory: MemoryCluster, name: str, phase: str = "Failed", code: int = 1, **more: object) -> None:
    """Have the first running pod end whose name begins so."""
    pod = next(
        each
        for each in memory.objects(Pod)
        if each.metadata.name.startswith(name)
        and each.status.phase == "Running"
        and not each.metadata.deletion_timestamp
    )
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=code))
    ready = PodCondition(type="Ready", status="False", last_transition_time=memory.timestamp())
    new = replace(
        pod.status,
        phase=phase,
        conditions=(ready,),
        container_statuses=(ContainerStatus(name="app", state=ended),),
    )
    memory.set_status(pod, replace(new, **more))
    await asyncio.sleep(2)


@pytest.mark.parametrize(
    ("spec", "runs", "timeline", "said", "why"),
    [
        pytest.param({}, 20, {10: (1, 0, 0), 30: (0, 1, 0)}, SUCCEEDED, "CompletionsReached", id="one pod"),
        pytest.param(
            {"parallelism": 2, "completions": 5},
            20,
            {10: (2, 0, 0), 30: (2, 2, 0), 50: (1, 4, 0), 70: (0, 5, 0)},
            SUCCEEDED,
            "CompletionsReached",
            id="two at a time",
        ),
        pytest.param(
            {"parallelism": 3},
            20,
            {10: (3, 0, 0), 30: (0, 3, 0)},
            SUCCEEDED,
            "CompletionsReached",
            id="a queue that pods empty",
        ),
        pytest.param(
            {"active_deadline_seconds": 15}, 20, {10: (1, 0, 0), 30: (0, 0, 1)}, FAILED, "DeadlineExceeded", id="late"
        ),
        pytest.param({"completions": 0}, 20, {10: (0, 0, 0)}, SUCCEEDED, "CompletionsReached", id="nothing to do"),
    ],
)
async def test_job_runs_until_it_is_complete(
    spec: dict[str, Any],
    runs: float,
    timeline: Mapping[int, tuple[int, int, int]],
    said: tuple[str, ...],
    why: str,
) -> None:
    async with run_controllers(job(runs, **spec)) as memory:
        at = 5
        for second, expected in timeline.items():
            await asyncio.sleep(second - at)
            at = second
            assert numbers(memory) == expected, second
        await asyncio.sleep(5)
        assert (holding(memory), reason(memory)) == (said, why)
        assert bool(status(memory).completion_time) == (said == SUCCEEDED)
        assert not any(TRACKING in pod.metadata.finalizers for pod in memory.objects(Pod))


async def test_failed_pods_are_replaced_with_backoff_up_to_the_limit() -> None:
    async with run_controllers(job(0, code=3, backoff_limit=3)) as memory:
        began = memory.read(Job, "work").metadata.creation_timestamp
        await asyncio.sleep(200)
        created = [pod.metadata.creation_timestamp for pod in memory.objects(Pod)]
        assert [_seconds(began, each) for each in created] == [0, 10, 30, 70]
        assert (numbers(memory), holding(memory), reason(memory)) == ((0, 0, 4), FAILED, "BackoffLimitExceeded")


def _seconds(began: str | None, text: str | None) -> int:
    def seconds(time: str | None) -> int:
        assert time is not None
        hours, minutes, rest = time[11:-1].split(":")
        return (int(hours) * 60 + int(minutes)) * 60 + int(rest)

    return seconds(text) - seconds(began)


async def test_running_pods_of_a_failed_job_count_as_failed() -> None:
    async with run_controllers(job(parallelism=3, completions=3, backoff_limit=0)) as memory:
        await end(memory, "work")
        assert (numbers(memory), holding(memory)) == ((0, 0, 3), FAILED)
        assert len(pods(memory)) == 1


async def test_success_resets_the_backoff() -> None:
    async with run_controllers(job(parallelism=2, completions=3)) as memory:
        await end(memory, "work")
        await end(memory, "work", "Succeeded", code=0)
        assert numbers(memory) == (2, 1, 1)


async def test_indexed_pods_receive_their_index() -> None:
    async with run_controllers(job(parallelism=2, completions=3, **INDEXED)) as memory:
        first, second = memory.objects(Pod)
        index = "batch.kubernetes.io/job-completion-index"
        for number, pod in enumerate((first, second)):
            assert pod.metadata.name.startswith(f"work-{number}-")
            assert pod.metadata.labels[index] == pod.metadata.annotations[index] == str(number)
            assert pod.spec.hostname == f"work-{number}"
        await end(memory, "work-1", "Succeeded", code=0)
        assert (status(memory).completed_indexes, numbers(memory)) == ("1", (2, 1, 0))
        await end(memory, "work-2", "Succeeded", code=0)
        await end(memory, "work-0", "Succeeded", code=0)
        assert (status(memory).completed_indexes, holding(memory)) == ("0-2", SUCCEEDED)


@pytest.mark.parametrize(
    ("spec", "failing", "failed_indexes", "succeeds", "why"),
    [
        pytest.param({}, ["0", "0"], "0", ["1", "2"], "FailedIndexes", id="the others go on"),
        pytest.param({"max_failed_indexes": 0}, ["0", "0"], "0", [], "MaxFailedIndexesExceeded", id="none may fail"),
        pytest.param({}, ["0"], "", ["0", "1", "2"], "CompletionsReached", id="one failure is nothing"),
    ],
)
async def test_each_index_has_its_backoff_limit(
    spec: dict[str, Any], failing: list[str], failed_indexes: str, succeeds: list[str], why: str
) -> None:
    async with run_controllers(
        job(parallelism=3, completions=3, backoff_limit_per_index=1, **INDEXED, **spec)
    ) as memory:
        for index in failing:
            await end(memory, f"work-{index}")
            await asyncio.sleep(30)
        assert status(memory).failed_indexes == failed_indexes
        record_replica_counts = {
            pod.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] for pod in memory.objects(Pod)
        }
        assert record_replica_counts == {"0", "1"}
        for index in succeeds:
            await end(memory, f"work-{index}", "Succeeded", code=0)
        await asyncio.sleep(10)
        assert reason(memory) == why


@pytest.mark.parametrize(
    ("rules", "code", "failed", "said"),
    [
        ([("FailJob", "In", (42,))], 42, 1, FAILED),
        ([("FailJob", "In", (42,))], 1, 1, ()),
        ([("Ignore", "NotIn", (42,))], 1, 0, ()),
        ([("Count", "In", (1,)), ("FailJob", "NotIn", (9,))], 1, 1, ()),
    ],
)
async def test_failure_policy_matches_exit_codes(
    rules: list[tuple[str, str, tuple[int, ...]]], code: int, failed: int, said: tuple[str, ...]
) -> None:
    policy = PodFailurePolicy(
        rules=tuple(
            PodFailurePolicyRule(action=action, on_exit_codes=OnExitCodes(operator=operator, values=values))
            for action, operator, values in rules
        )
    )
    async with run_controllers(job(pod_failure_policy=policy)) as memory:
        name = pods(memory)[0]
        await end(memory, "work", code=code)
        assert (status(memory).failed, holding(memory)) == (failed, said)
        if said:
            message = f"Container app for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
            assert {each.message for each in status(memory).conditions} == {message}


async def test_failure_policy_can_ignore_disruptions() -> None:
    rule = PodFailurePolicyRule(action="Ignore", on_pod_conditions=(OnPodCondition(type="DisruptionTarget"),))
    async with run_controllers(job(backoff_limit=0, pod_failure_policy=PodFailurePolicy(rules=(rule,)))) as memory:
        disrupted = PodCondition(type="DisruptionTarget", status="True")
        await end(memory, "work", conditions=(disrupted,))
        await asyncio.sleep(10)
        assert numbers(memory) == (1, 0, 0)


@pytest.mark.parametrize(
    ("rule", "succeeds"),
    [
        (SuccessPolicyRule(succeeded_indexes="0,2"), ["0", "2"]),
        (SuccessPolicyRule(succeeded_count=1), ["1"]),
        (SuccessPolicyRule(succeeded_indexes="1-2", succeeded_count=1), ["2"]),
    ],
)
async def test_success_policy_accepts_some_indexes(rule: SuccessPolicyRule, succeeds: list[str]) -> None:
    policy = SuccessPolicy(rules=(rule,))
    async with run_controllers(job(parallelism=3, completions=3, success_policy=policy, **INDEXED)) as memory:
        for index in succeeds:
            assert holding(memory) == ()
            await end(memory, f"work-{index}", "Succeeded", code=0)
        assert (holding(memory), reason(memory)) == (SUCCEEDED, "SuccessPolicy")
        assert numbers(memory) == (0, len(succeeds), 0)


async def test_suspended_job_has_no_pods_and_no_deadline() -> None:
    async with run_controllers(job(20, suspend=True, active_deadline_seconds=30)) as memory:
        assert (pods(memory), holding(memory), status(memory).start_time) == ([], ("Suspended",), None)
        await asyncio.sleep(100)
        for suspended, active in ((False, 1), (True, 0)):
            memory.merge(Job, "work", {"spec": {"suspend": suspended}})
            await asyncio.sleep(10)
            assert (len(pods(memory)), numbers(memory)) == (active, (active, 0, 0))
        memory.merge(Job, "work", {"spec": {"suspend": False}})
        await asyncio.sleep(25)
        assert (numbers(memory), holding(memory)) == ((0, 1, 0), SUCCEEDED)


@pytest.mark.parametrize(("policy", "meanwhile", "failed"), [("TerminatingOrFailed", 2, 1), ("Failed", 1, 1)])
async def test_deleted_pod_is_replaced_by_the_replacement_policy(policy: str, meanwhile: int, failed: int) -> None:
    slow = job(pod_replacement_policy=policy)
    spec = slow.spec.template.spec | {"terminationGracePeriodSeconds": 20}
    slow = replace(slow, spec=replace(slow.spec, template=replace(slow.spec.template, spec=spec)))
    async with run_controllers(slow) as memory:
        memory.remove(Pod, pods(memory)[0])
        await asyncio.sleep(11)
        assert len(pods(memory)) == meanwhile
        assert status(memory).terminating == 1
        await asyncio.sleep(30)
        assert (numbers(memory), status(memory).terminating) == ((1, 0, failed), 0)


async def test_finished_job_is_deleted_after_its_ttl() -> None:
    async with run_controllers(job(5, ttl_seconds_after_finished=20)) as memory:
        await asyncio.sleep(15)
        assert memory.find(Job, "work") is not None
        await asyncio.sleep(15)
        assert (memory.find(Job, "work"), pods(memory)) == (None, [])


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 2)])
async def test_pods_are_deleted_with_their_job_unless_orphaned(policy: str, left: int) -> None:
    async with run_controllers(job(parallelism=2)) as memory:
        memory.remove(Job, "work", policy=policy)
        await asyncio.sleep(40)
        assert memory.find(Job, "work") is None
        assert len(pods(memory)) == left


async def test_changed_parallelism_takes_effect() -> None:
    async with run_controllers(job(parallelism=2, completions=4)) as memory:
        for parallelism in (3, 1):
            memory.merge(Job, "work", {"spec": {"parallelism": parallelism}})
            await asyncio.sleep(5)
            assert (len(pods(memory)), numbers(memory)) == (parallelism, (parallelism, 0, 0))


@pytest.mark.parametrize("controllers", [["*", "-job"], ["*", "-job-controller"]])
async def test_controller_can_be_disabled(controllers: list[str]) -> None:
    async with run_controllers(job(), controllers=controllers) as memory:
        assert pods(memory) == []


async def test_job_of_another_controller_is_left_alone() -> None:
    async with run_controllers(job(managed_by="kueue.x-k8s.io/multikueue")) as memory:
        assert pods(memory) == []


async def test_invalid_job_does_not_stop_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    odd = replace(job(active_deadline_seconds=5), status=JobStatus(start_time="yesterday"))
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "priorityClassName": "absent"}
    wrong = replace(job(), metadata=ObjectMeta(name="wrong", namespace="default"))
    wrong = replace(wrong, spec=replace(wrong.spec, template=WorkloadPodTemplate(spec=spec)))
    fine = replace(job(), metadata=ObjectMeta(name="fine", namespace="default"))
    async with run_controllers(odd, wrong, fine) as memory:
        assert [pod.metadata.name.rpartition("-")[0] for pod in memory.objects(Pod)] == ["fine"]
        assert {message.partition(":")[0] for message in caplog.messages} == {
            "JobController default/work",
            "JobController default/wrong",
        }


def ended(at: int) -> Pod:
    condition = PodCondition(type="Ready", status="False", last_transition_time=rfc3339(at))
    return replace(make_pod(f"p{at}"), status=PodStatus(conditions=(condition,)))


@pytest.mark.parametrize(
    ("rounds", "now", "remaining"),
    [
        ([], 0, 0),
        ([((), (5,))], 5, 10),
        ([((), (5,))], 12, 3),
        ([((), (5,)), ((), (20, 30))], 30, 40),
        ([((), tuple(range(10)))], 9, 600),
        ([((), (5,)), ((8,), ())], 9, 0),
        ([((), (5, 6, 7)), ((20,), (10, 30))], 30, 10),
        ([((), (5,))], 500, 0),
    ],
)
def test_backoff_doubles_with_each_failure(
    rounds: list[tuple[Sequence[int], Sequence[int]]], now: int, remaining: float
) -> None:
    backoff = JobBackoff()
    for succeeded, failed in rounds:
        backoff = backoff.with_ended_pods(map(ended, succeeded), map(ended, failed))
    assert backoff.remaining(now) == remaining


def test_end_of_a_pod_defaults_to_its_deletion_or_creation() -> None:
    pod = make_pod("a")
    created = replace(pod, metadata=replace(pod.metadata, creation_timestamp=rfc3339(3)))
    metadata = replace(created.metadata, deletion_timestamp=rfc3339(40), deletion_grace_period_seconds=30)
    assert [finished_at(each) for each in (pod, created, replace(pod, metadata=metadata))] == [0, 3, 10]
