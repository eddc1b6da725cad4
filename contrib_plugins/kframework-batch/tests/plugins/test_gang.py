"""gang: when a job is valid, ready, pipelined, starving; and what it can spare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import ROLE, JobInfo, TaskInfo
from kframework_batch.membership import compile_subgroups
from kframework_batch.objects import SubGroupPolicy
from kframework_batch.plugin import BatchArguments, Vote
from kframework_batch.plugins.gang import Gang
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PLUGIN = Gang(BatchArguments())
SESSION = cast("Session", None)

READY, WAITING, IDLE, GONE = TaskStatus.RUNNING, TaskStatus.PIPELINED, TaskStatus.PENDING, TaskStatus.RELEASING


def job(
    minimum: int, *tasks: tuple[str, TaskStatus], name: str = "a", roles: Mapping[str, int] | None = None
) -> JobInfo:
    """Make a job with a task of each of these roles and statuses."""
    made = JobInfo("default", name)
    made.min_available, made.role_minimums = minimum, roles or {}
    for n, (role, status) in enumerate(tasks):
        pod = make_pod(f"{name}-{n}", annotations={ROLE: role})
        made.add(TaskInfo(made, PodInfo(pod, TemplateInterner()), pod, status))
    return made


def of(*statuses: TaskStatus) -> list[tuple[str, TaskStatus]]:
    return [("", status) for status in statuses]


@pytest.mark.parametrize(
    ("made", "rejection"),
    [
        pytest.param(job(2, *of(READY, IDLE)), "", id="enough"),
        pytest.param(job(2, *of(WAITING, TaskStatus.SUCCEEDED)), "", id="those that have ended well count"),
        pytest.param(
            job(2, *of(IDLE, GONE, TaskStatus.FAILED)),
            "Not enough valid tasks for gang-scheduling, valid: 1, min: 2",
            id="those that go or have failed do not",
        ),
        pytest.param(
            job(2, ("ps", IDLE), ("ps", IDLE), roles={"ps": 1, "w": 1}),
            "Not enough valid pods of each task for gang-scheduling",
            id="a role is missing",
        ),
        pytest.param(job(1, ("ps", IDLE), roles={"ps": 1, "w": 1}), "", id="roles that the job does not ask for"),
        pytest.param(job(0), "", id="nothing at all"),
    ],
)
def test_job_is_valid_if_its_minimum_is_possible(made: JobInfo, rejection: str) -> None:
    status = PLUGIN.job_valid(SESSION, made)
    assert (status.message if status is not None else "") == rejection


@pytest.mark.parametrize(
    ("made", "ready", "pipelined", "starving"),
    [
        pytest.param(job(2, *of(READY, READY, IDLE)), True, True, False, id="ready"),
        pytest.param(job(2, *of(READY, WAITING, IDLE)), False, True, False, id="promised"),
        pytest.param(job(2, *of(READY, IDLE)), False, False, True, id="starving"),
        pytest.param(
            job(2, ("w", READY), ("w", READY), ("ps", WAITING), roles={"w": 1, "ps": 1}), False, True, False, id="role"
        ),
        pytest.param(
            job(2, ("w", READY), ("w", READY), ("ps", IDLE), roles={"w": 1, "ps": 1}), False, False, False, id="no role"
        ),
    ],
)
def test_gang_is_ready_pipelined_or_starving(made: JobInfo, ready: bool, pipelined: bool, starving: bool) -> None:
    assert PLUGIN.job_ready(SESSION, made) is ready
    assert PLUGIN.job_pipelined(SESSION, made) is (Vote.PERMIT if pipelined else Vote.REJECT)
    assert PLUGIN.job_starving(SESSION, made) is starving


def test_jobs_that_are_not_ready_go_first() -> None:
    ready, unready = job(1, *of(READY)), job(2, *of(READY, IDLE))
    assert PLUGIN.job_order(SESSION, unready) < PLUGIN.job_order(SESSION, ready)  # type: ignore[operator]  # keys of one hook compare


def spared(tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
    """Ask who may go; both hooks say the same."""
    preemptable = PLUGIN.preemptable(SESSION, tasks[0], tasks)
    assert preemptable == PLUGIN.reclaimable(SESSION, tasks[0], tasks)
    assert preemptable is not None
    return list(preemptable)


@pytest.mark.parametrize(
    ("made", "count"),
    [
        pytest.param(job(3, *of(READY, READY, READY)), 0, id="at its minimum"),
        pytest.param(job(1, *of(READY, READY, READY)), 2, id="above it"),
        pytest.param(job(4, *of(READY, READY, READY)), 0, id="below it"),
        pytest.param(job(1, *of(READY, READY, IDLE, WAITING)), 1, id="promises are no surplus"),
    ],
)
def test_tasks_beyond_the_minimum_are_surplus(made: JobInfo, count: int) -> None:
    running = list(made.with_status(READY).values())
    assert spared(running) == running[:count]


def test_surplus_is_counted_per_job() -> None:
    one, two = job(1, *of(READY, READY), name="one"), job(0, *of(READY, READY), name="two")
    mixed = [task for pair in zip(one.tasks.values(), two.tasks.values(), strict=True) for task in pair]
    assert [task.name for task in spared(mixed)] == ["one-0", "two-0", "two-1"]


def test_only_task_of_a_role_is_not_surplus() -> None:
    made = job(2, ("ps", READY), ("w", READY), ("w", READY), ("w", READY), roles={"ps": 1, "w": 1})
    assert [task.name for task in spared(list(made.tasks.values()))] == ["a-1", "a-2"]


@given(
    st.lists(st.sampled_from(["ps", "w", ""]), min_size=1, max_size=8),
    st.integers(0, 8),
    st.dictionaries(st.sampled_from(["ps", "w"]), st.integers(0, 3)),
)
def test_ready_job_stays_ready_without_any_surplus_tasks(
    roles: list[str], minimum: int, minimums: dict[str, int]
) -> None:
    made = job(minimum, *((role, READY) for role in roles), roles=minimums)
    was_ready = made.is_ready
    for task in spared(list(made.tasks.values())):
        made.update_status(task, GONE)
    assert made.is_ready or not was_ready


@given(
    st.lists(st.sampled_from(["ps", "w", ""]), min_size=1, max_size=8),
    st.integers(0, 8),
    st.dictionaries(st.sampled_from(["ps", "w"]), st.integers(0, 3)),
)
def test_surplus_shrinks_with_each_task(roles: list[str], minimum: int, minimums: dict[str, int]) -> None:
    made = job(minimum, *((role, READY) for role in roles), roles=minimums)
    left, by_role, expected = len(roles), Counter(roles), []
    heeded = minimums if minimums and minimum >= sum(minimums.values()) else {}
    for task in made.tasks.values():
        role_allows = task.role not in heeded or by_role[task.role] > heeded[task.role]
        if left > minimum and role_allows:
            left, by_role[task.role] = left - 1, by_role[task.role] - 1
            expected.append(task)
    assert spared(list(made.tasks.values())) == expected


def divided(minimum: int, needed: int, size: int, *parts: tuple[str, TaskStatus]) -> JobInfo:
    """Make a job with a task in each of these subgroups, "" for none, of these statuses."""
    made = JobInfo("default", "a")
    made.min_available = minimum
    policy = SubGroupPolicy(name="w", match_label_keys=("part",), sub_group_size=size, min_sub_groups=needed)
    made.set_subgroups(compile_subgroups((policy,)))
    for n, (part, status) in enumerate(parts):
        pod = make_pod(f"a-{n}", labels={"part": part} if part else {})
        made.add(TaskInfo(made, PodInfo(pod, TemplateInterner()), pod, status))
    return made


def in_parts(status: TaskStatus, parts: str) -> list[tuple[str, TaskStatus]]:
    return [("" if part == "." else part, status) for part in parts]


@pytest.mark.parametrize(
    ("made", "ready", "pipelined", "valid"),
    [
        pytest.param(divided(2, 2, 1, *in_parts(READY, "xy")), True, True, True, id="ready"),
        pytest.param(divided(2, 2, 2, *in_parts(READY, "xxy")), False, False, True, id="half of one is nothing"),
        pytest.param(
            divided(2, 2, 2, *in_parts(READY, "xxy"), *in_parts(WAITING, "y")), False, True, True, id="promised"
        ),
        pytest.param(divided(2, 2, 1, *in_parts(READY, "xx")), False, False, False, id="there is only one"),
        pytest.param(divided(2, 1, 2, *in_parts(READY, "xy"), *in_parts(IDLE, "x")), False, False, True, id="torn"),
    ],
)
def test_gang_of_subgroups_is_ready_or_pipelined(made: JobInfo, ready: bool, pipelined: bool, valid: bool) -> None:
    assert PLUGIN.job_ready(SESSION, made) is ready
    assert PLUGIN.job_pipelined(SESSION, made) is (Vote.PERMIT if pipelined else Vote.REJECT)
    assert (PLUGIN.job_valid(SESSION, made) is None) is valid


def test_subgroup_hooks_answer_like_gang_hooks() -> None:
    made = divided(0, 0, 2, *in_parts(READY, "xxy"), *in_parts(WAITING, "y"))
    x, y = made.subjobs.values()
    assert (PLUGIN.subjob_ready(SESSION, x), PLUGIN.subjob_ready(SESSION, y)) == (True, False)
    assert (PLUGIN.subjob_pipelined(SESSION, x), PLUGIN.subjob_pipelined(SESSION, y)) == (Vote.PERMIT, Vote.PERMIT)
    assert PLUGIN.subjob_order(SESSION, y) < PLUGIN.subjob_order(SESSION, x)  # type: ignore[operator]  # keys of one hook compare


@pytest.mark.parametrize(
    ("made", "goes"),
    [
        pytest.param(divided(2, 1, 2, *in_parts(READY, "xxyy")), "0 1", id="one is needed: the other goes whole"),
        pytest.param(divided(2, 2, 2, *in_parts(READY, "xxyy")), "", id="both are needed"),
        pytest.param(divided(2, 2, 2, *in_parts(READY, "xxxyy")), "0", id="what one has beyond its size"),
        pytest.param(divided(2, 1, 2, *in_parts(READY, "xx.")), "2", id="tasks in no subgroup"),
        pytest.param(divided(2, 1, 2, *in_parts(READY, "xyy")), "0", id="what is left of a torn one"),
        pytest.param(divided(3, 1, 2, *in_parts(READY, "xxyy")), "0", id="never below the minimum of the job"),
    ],
)
def test_needed_subgroups_are_not_surplus(made: JobInfo, goes: str) -> None:
    assert " ".join(task.name.removeprefix("a-") for task in spared(list(made.tasks.values()))) == goes


@given(st.text("xyz.", min_size=1, max_size=9), st.integers(0, 9), st.integers(0, 3), st.integers(1, 3))
def test_ready_job_of_subgroups_stays_ready_without_any_surplus_tasks(
    parts: str, minimum: int, needed: int, size: int
) -> None:
    made = divided(minimum, needed, size, *in_parts(READY, parts))
    was_ready = made.is_ready
    for task in spared(list(made.tasks.values())):
        made.update_status(task, GONE)
    assert made.is_ready or not was_ready
