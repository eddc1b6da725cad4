"""Where a session leaves pod groups of each kind."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo, TentativeNode
from kframework_batch.objects import (
    KubePodGroup,
    KubePodGroupStatus,
    ObjectCondition,
    PodGroupCondition,
    PodGroupStatus,
    QueueStatus,
    SigsPodGroupStatus,
)
from kframework_batch.phases import (
    Schedulability,
    group_status,
    kube_group_status,
    next_phase,
    pending_reason,
    schedulability,
    sigs_group_status,
    status_patch,
    update_job_status,
)
from kframework_batch.task_status import ALLOCATED, COMPLETED, SCHEDULED, TaskStatus
from msgspec.structs import replace

from kframework.objects import ObjectMeta
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

P, A, L, N, B, R, X, S, F, U = TaskStatus
#: A task that is going, and still on a node.
LEAVING = "leaving"
NOW = "2026-01-01T00:00:00Z"


def job_of(
    minimum: int, statuses: Sequence[TaskStatus | str], phase: str = "Inqueue", *, cpu: str | None = "1"
) -> JobInfo:
    """Make a job of tasks p0, p1, ... with these statuses."""
    job = JobInfo("default", "j")
    job.has_group, job.min_available, job.phase = True, minimum, phase
    for at, status in enumerate(statuses):
        pod = make_pod(f"p{at}", cpu=cpu, memory=None, node_name="a" if status == LEAVING else "")
        job.add(TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, X if status == LEAVING else TaskStatus(status)))
    return job


def task(job: JobInfo, at: int) -> TaskInfo:
    return list(job.tasks.values())[at]


@pytest.mark.parametrize(
    ("statuses", "before", "phase"),
    [([], "Inqueue", "Inqueue"), ([P], "Inqueue", "Inqueue"), ([S], "Running", "Completed")],
)
def test_job_without_minimum_is_completed_once_a_task_has_run(
    statuses: list[TaskStatus | str], before: str, phase: str
) -> None:
    assert next_phase(job_of(0, statuses, before)) == phase


@given(
    st.integers(1, 3),
    st.lists(st.sampled_from([*TaskStatus, LEAVING]), max_size=5),
    st.sampled_from(["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]),
)
def test_next_phase_equals_the_slow_rule(minimum: int, statuses: list[TaskStatus | str], before: str) -> None:
    def number(*wanted: TaskStatus | str) -> int:
        return sum(status in wanted for status in statuses)

    job = job_of(minimum, statuses, before)
    scheduled = number(R, B, F, S) + number(LEAVING)
    ready = number(B, N, R, A, S) >= minimum
    only_leaving = number(LEAVING) > 0 and number(P, L) == 0 and scheduled >= minimum
    unschedulable = bool(statuses) and not ready and not only_leaving
    if number(R) and unschedulable:
        expected = "Unknown"
    elif scheduled >= minimum:
        expected = "Completed" if number(S, F) == scheduled else "Running"
    else:
        expected = before if before == "Inqueue" else "Pending"
    assert next_phase(job) == expected


READY = Schedulability(True, "tasks in gang are ready to be scheduled", "")


@pytest.mark.parametrize(
    ("minimum", "statuses", "said"),
    [
        (1, [], None),
        (2, [R, B], READY),
        (2, [N, N, P], READY),
        (1, [LEAVING], None),
        (
            2,
            [P, P],
            Schedulability(
                False,
                "NotEnoughResources",
                "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable;"
                " Pending: 2 Unschedulable",
            ),
        ),
        (
            3,
            [R, P, X],
            Schedulability(
                False,
                "NotEnoughTasks",
                "2/3 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 Releasing, 1 Running,"
                " 3 minAvailable; Pending: 1 Unschedulable",
            ),
        ),
        (
            2,
            [R, F],
            Schedulability(
                False,
                "NotEnoughTasks",
                "1/2 tasks in gang unschedulable: pod group is not ready, 1 Failed, 1 Running, 2 minAvailable",
            ),
        ),
    ],
)
def test_gang_message_counts_the_tasks(
    minimum: int, statuses: list[TaskStatus | str], said: Schedulability | None
) -> None:
    assert schedulability(job_of(minimum, statuses)) == said


def test_best_effort_pods_count_as_ready_without_room() -> None:
    assert schedulability(job_of(2, [P, P], cpu=None)) == READY


def test_role_with_too_few_pods_is_the_reason() -> None:
    job = job_of(2, [P, P])
    job.role_minimums = {"ps": 1, "worker": 1}
    said = schedulability(job)
    assert said is not None and said.reason == "NotEnoughPodsOfTask"
    job.role_minimums = {"": 2}
    said = schedulability(job)
    assert said is not None and said.reason == "NotEnoughResources"


def test_job_that_is_not_enqueued_has_a_message() -> None:
    job = job_of(1, [])
    assert schedulability(job) is None
    job.message = "queue q has no room for it: not enough cpu"
    assert schedulability(job) == Schedulability(
        False, "NotEnoughResources", "queue q has no room for it: not enough cpu"
    )


def test_invalid_job_has_its_reason() -> None:
    job = job_of(1, [])
    job.invalid_reason = "spec.subGroupPolicy is not supported"
    assert schedulability(job) == Schedulability(False, "InvalidPodGroup", "spec.subGroupPolicy is not supported")
    running = job_of(1, [R])
    running.invalid_reason = job.invalid_reason
    assert next_phase(running) == "Unknown"


def test_message_has_the_origin_reason() -> None:
    job = job_of(3, [P, P, P])
    counts = "tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending:"
    job.tentative_nodes = {task(job, 0).uid: TentativeNode(A, "a"), task(job, 1).uid: TentativeNode(L, "b")}
    job.fit_errors = {"gone": "no", task(job, 2).uid: "0/1 nodes are available: no cpu."}
    said = schedulability(job)
    assert said is not None
    assert said.message == (
        f"2/3 {counts} 1 Schedulable, 2 Unschedulable. Origin reason is p2: 0/1 nodes are available: no cpu."
    )
    job.message = "queue q has no room"
    said = schedulability(job)
    assert said is not None
    assert said.message == f"2/3 {counts} 1 Schedulable, 2 Unschedulable. Origin reason is: queue q has no room"


def test_tentative_node_counts_only_while_its_task_is_pending() -> None:
    job = job_of(2, [P, P])
    job.tentative_nodes = {task(job, 0).uid: TentativeNode(A, "a"), "gone": TentativeNode(A, "a")}
    said = schedulability(job)
    assert (
        said is not None
        and said.message.startswith("1/2 tasks")
        and said.message.endswith("1 Schedulable, 1 Unschedulable")
    )


@pytest.mark.parametrize(
    ("place", "fit_error", "message", "refused", "why"),
    [
        (
            TentativeNode(A, "a"),
            "x",
            "y",
            "",
            ("Schedulable", "Pod default/p0 can possibly be assigned to a, once minAvailable is satisfied"),
        ),
        (
            TentativeNode(L, "a"),
            "x",
            "y",
            "",
            (
                "Unschedulable",
                "Pod default/p0 can possibly be assigned to a, once resource is released and minAvailable is satisfied",
            ),
        ),
        (None, "no node", "y", "", ("Unschedulable", "no node")),
        (None, None, "queue is full", "", ("Unschedulable", "queue is full")),
        (None, None, "", "not supported", ("Unschedulable", "not supported")),
        (None, None, "", "", ("Unschedulable", "no action tried it")),
    ],
)
def test_pending_reason_of_a_task_follows_from_its_result(
    place: TentativeNode | None, fit_error: str | None, message: str, refused: str, why: tuple[str, str]
) -> None:
    job = job_of(2, [P, P])
    first = task(job, 0)
    if place is not None:
        job.tentative_nodes[first.uid] = place
    if fit_error is not None:
        job.fit_errors[first.uid] = fit_error
    job.message, job.invalid_reason = message, refused
    assert pending_reason(job, first) == why


def test_untried_task_names_the_task_that_failed() -> None:
    job = job_of(2, [P, P])
    job.fit_errors = {"gone": "no", task(job, 0).uid: "0/1 nodes are available: no cpu."}
    assert pending_reason(job, task(job, 1)) == (
        "Unschedulable",
        "it was not tried after p0: 0/1 nodes are available: no cpu.",
    )


def test_status_of_a_volcano_pod_group_has_its_condition() -> None:
    job = job_of(2, [R, R, S, F, P])
    status = group_status(job, "session", NOW, PodGroupStatus(phase="Inqueue"))
    condition = PodGroupCondition(
        type="Scheduled",
        status="True",
        transition_id="session",
        last_transition_time=NOW,
        reason="tasks in gang are ready to be scheduled",
    )
    assert status == PodGroupStatus(phase="Running", conditions=(condition,), running=2, succeeded=1, failed=1)


def test_condition_replaces_the_one_of_its_type() -> None:
    old = PodGroupStatus(
        phase="Running",
        conditions=(PodGroupCondition(type="Unschedulable", message="old"), PodGroupCondition(type="Scheduled")),
    )
    status = group_status(job_of(2, [P]), "s", NOW, old)
    assert status is not None
    assert [(condition.type, condition.message[:4]) for condition in status.conditions] == [
        ("Unschedulable", "2/1 "),
        ("Scheduled", ""),
    ]


def test_status_is_unchanged_if_only_times_and_session_differ() -> None:
    job = job_of(2, [P, P])
    first = group_status(job, "s1", NOW, PodGroupStatus())
    assert first is not None
    assert group_status(job, "s2", "2026-01-01T00:00:09Z", first) is None
    job.update_status(task(job, 0), R)
    second = group_status(job, "s3", "2026-01-01T00:00:10Z", first)
    assert second is not None
    assert [condition.transition_id for condition in second.conditions] == ["s3"]


def test_group_without_tasks_has_no_condition() -> None:
    assert group_status(job_of(1, []), "s", NOW, PodGroupStatus(phase="Inqueue")) is None
    status = group_status(job_of(1, [], ""), "s", NOW, PodGroupStatus())
    assert status == PodGroupStatus(phase="Pending")


@pytest.mark.parametrize(
    ("minimum", "statuses", "inner", "phase"),
    [
        (2, [], "Pending", "Pending"),
        (2, [P], "Inqueue", "Pending"),
        (2, [P, P], "Pending", "Pending"),
        (2, [P, P], "Inqueue", "Scheduling"),
        (2, [B, B], "Inqueue", "Scheduling"),
        (2, [R, P], "Inqueue", "Scheduling"),
        (2, [R, R], "Inqueue", "Running"),
        (2, [R, S], "Running", "Running"),
        (2, [R, F], "Running", "Failed"),
        (2, [P, F], "Inqueue", "Scheduling"),
        (2, [S, S], "Running", "Finished"),
        (2, [S, S, F], "Running", "Finished"),
        (0, [P], "Inqueue", "Scheduling"),
    ],
)
def test_phase_of_a_sigs_pod_group(minimum: int, statuses: list[TaskStatus | str], inner: str, phase: str) -> None:
    status = sigs_group_status(job_of(minimum, statuses, inner), SigsPodGroupStatus(phase="?"))
    assert status is not None
    assert status.phase == phase


def test_counts_of_a_sigs_pod_group() -> None:
    job = job_of(9, [R, R, B, S, F, P, LEAVING])
    status = sigs_group_status(job, SigsPodGroupStatus())
    assert status == SigsPodGroupStatus(phase="Pending", scheduled=6, running=2, succeeded=1, failed=1)
    assert sigs_group_status(job, status) is None


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_ended_sigs_pod_group_is_final(phase: str) -> None:
    assert sigs_group_status(job_of(1, [R]), SigsPodGroupStatus(phase=phase)) is None


def scheduled(status: str, message: str = "") -> ObjectCondition:
    reason = "Scheduled" if status == "True" else "Unschedulable"
    return ObjectCondition(
        type="PodGroupScheduled", status=status, reason=reason, message=message, last_transition_time=NOW
    )


@pytest.mark.parametrize(
    ("minimum", "statuses", "cpu", "old", "new"),
    [
        (2, [N, N, P], "1", (), (scheduled("True"),)),
        (2, [], "1", (), None),
        (1, [LEAVING], "1", (), None),
        (2, [N, N], "1", (scheduled("True"),), None),
        (2, [P, P], "1", (scheduled("True"),), None),
        (2, [P, P], None, (), None),
        (
            2,
            [P],
            "1",
            (ObjectCondition(type="DisruptionTarget", status="True"),),
            (
                ObjectCondition(type="DisruptionTarget", status="True"),
                scheduled(
                    "False",
                    "2/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 2 minAvailable;"
                    " Pending: 1 Unschedulable",
                ),
            ),
        ),
    ],
)
def test_condition_of_a_kubernetes_pod_group(
    minimum: int,
    statuses: list[TaskStatus | str],
    cpu: str | None,
    old: tuple[ObjectCondition, ...],
    new: tuple[ObjectCondition, ...] | None,
) -> None:
    status = kube_group_status(job_of(minimum, statuses, cpu=cpu), NOW, KubePodGroupStatus(conditions=old))
    assert status == (None if new is None else KubePodGroupStatus(conditions=new))


def test_condition_of_a_kubernetes_pod_group_has_observed_generation() -> None:
    job = job_of(2, [P])
    job.object = KubePodGroup(metadata=ObjectMeta(generation=3))
    status = kube_group_status(job, NOW, KubePodGroupStatus())
    assert status is not None
    assert [condition.observed_generation for condition in status.conditions] == [3]
    later = tuple(replace(condition, last_transition_time="later") for condition in status.conditions)
    assert kube_group_status(job, NOW, KubePodGroupStatus(conditions=later)) is None


@pytest.mark.parametrize("status", [PodGroupStatus(), SigsPodGroupStatus(), KubePodGroupStatus()])
def test_job_has_its_new_phase_and_status(
    status: PodGroupStatus | SigsPodGroupStatus | KubePodGroupStatus,
) -> None:
    job = job_of(2, [R, R])
    job.status = status
    written = update_job_status(job, "s", NOW)
    assert type(written) is type(status)
    assert (job.phase, job.status) == ("Running", written)
    assert update_job_status(job, "t", "later") is None
    assert (job.phase, job.status) == ("Running", written)


def test_job_without_group_has_no_status() -> None:
    job = job_of(2, [R, R])
    assert update_job_status(job, "s", NOW) is None
    assert job.phase == "Inqueue"


@pytest.mark.parametrize(
    ("status", "patch"),
    [
        (
            PodGroupStatus(phase="Running", running=2, conditions=(PodGroupCondition(type="T", transition_id="s"),)),
            {
                "phase": "Running",
                "running": 2,
                "succeeded": 0,
                "failed": 0,
                "conditions": [{"type": "T", "transitionID": "s"}],
            },
        ),
        (
            QueueStatus(running=1, allocated={"cpu": "1"}),
            {
                "running": 1,
                "pending": 0,
                "unknown": 0,
                "inqueue": 0,
                "completed": 0,
                "allocated": {"cpu": "1"},
            },
        ),
        (KubePodGroupStatus(conditions=(ObjectCondition(type="T"),)), {"conditions": [{"type": "T"}]}),
    ],
)
def test_status_patch_includes_zeros(status: PodGroupStatus, patch: dict[str, object]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(status_patch(status))) == patch


def test_status_sets_are_those_of_volcano() -> None:
    assert frozenset({B, N, R, A}) == ALLOCATED
    assert frozenset({R, B, F, S}) == SCHEDULED
    assert frozenset({S, F}) == COMPLETED
