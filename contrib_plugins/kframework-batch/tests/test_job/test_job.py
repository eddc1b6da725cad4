"""Sums and counts of a job follow the status of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo, TopologyRequirement
from kframework_batch.membership import SubGroups, compile_subgroups
from kframework_batch.objects import NetworkTopology, SubGroupPolicy
from kframework_batch.task_status import READY, TaskStatus

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

P, A, L, N, B, R, X, S, F, U = TaskStatus
#: A task: its status, its role, and what it asks for in milli-CPU.
Task = tuple[TaskStatus, str, int]


def job_of(tasks: Sequence[Task], minimum: int = 0, roles: Mapping[str, int] | None = None) -> JobInfo:
    job = JobInfo("default", "j")
    job.min_available, job.role_minimums = minimum, roles or {}
    for at, (status, role, cpu) in enumerate(tasks):
        annotations = {"volcano.sh/task-spec": role} if role else {}
        pod = make_pod(f"p{at}", annotations=annotations, cpu=f"{cpu}m", memory=None)
        job.add(TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status))
    return job


def plain(*statuses: TaskStatus) -> list[Task]:
    return [(status, "", 1) for status in statuses]


def test_job_uid_is_namespace_and_name() -> None:
    assert JobInfo("n", "g").uid == "n/g"


def test_order_of_tasks_can_be_restored() -> None:
    job = job_of(plain(P, P, P))
    order, first = job.order, next(iter(job.with_status(P).values()))
    job.update_status(first, R)
    job.update_status(first, P)
    assert list(job.with_status(P)) != [task.uid for task in order[P].values()]
    job.order = order
    assert list(job.with_status(P)) == [task.uid for task in job.tasks.values()]
    assert job.count(P) == 3 and not job.with_status(R)


tasks = st.lists(st.tuples(st.sampled_from(TaskStatus), st.sampled_from(["", "a", "b"]), st.integers(0, 2)), max_size=8)


@given(
    tasks, st.lists(st.tuples(st.integers(0, 7), st.sampled_from([*TaskStatus, None])), max_size=12), st.integers(0, 5)
)
def test_sums_and_counts_follow_the_tasks(
    given: list[Task], moves: list[tuple[int, TaskStatus | None]], minimum: int
) -> None:
    job = job_of(given, minimum, {"a": 1, "b": 2})
    uids = list(job.tasks)
    for at, status in moves:
        task = job.tasks.get(uids[at % len(uids)]) if uids else None
        if task is not None:
            if status is None:
                assert job.remove(task.uid) is task
            else:
                job.update_status(task, status)
    left = list(job.tasks.values())
    for status in TaskStatus:
        assert set(job.with_status(status)) == {task.uid for task in left if task.status is status}
    held = sum(task.request.get("cpu", 0) for task in left if task.status in (A, N, B, R))
    wanted = sum(task.request.get("cpu", 0) for task in left if task.status not in (S, F))
    assert (job.allocated.get("cpu", 0), job.requested.get("cpu", 0)) == (held, wanted)
    kept = sum(task.request.get("cpu", 0) for task in left if task.status in (N, B, R))
    assert job.bound_resources.get("cpu", 0) == kept
    ready = [task for task in left if task.status in (A, N, B, R, S)]
    idle = [task for task in left if task.status is P and task.is_best_effort]
    promised = [task for task in left if task.status is L]
    valid = [*ready, *promised, *(task for task in left if task.status is P)]
    assert (job.ready_num, job.best_effort_pending, job.waiting_num) == (len(ready), len(idle), len(promised))
    assert job.valid_num == len(valid)

    def enough(counted: list[TaskInfo]) -> bool:
        roles = [task.role for task in counted]
        complete = minimum < 3 or (roles.count("a") >= 1 and roles.count("b") >= 2)
        return len(counted) >= minimum and complete

    assert job.is_ready == enough([*ready, *idle])
    assert job.is_broken == (held > 0 and not job.is_ready)
    assert job.is_pipelined == enough([*ready, *idle, *promised])
    assert job.is_starving == (len(ready) + len(promised) < minimum)


def test_remove_of_unknown_task_returns_none() -> None:
    assert job_of([]).remove("x") is None


def test_tasks_of_a_status_are_in_order_of_arrival() -> None:
    job = job_of(plain(P, P, P))
    first, second, third = job.tasks.values()
    job.update_status(second, B)
    job.update_status(first, B)
    job.update_status(first, P)
    assert list(job.with_status(P).values()) == [third, first]


@pytest.mark.parametrize(
    ("minimum", "roles", "minds"),
    [(3, {}, False), (3, {"a": 1, "b": 2}, True), (2, {"a": 1, "b": 2}, False), (4, {"a": 1, "b": 2}, True)],
)
def test_role_minimums_count_if_the_gang_needs_all_of_them(minimum: int, roles: dict[str, int], minds: bool) -> None:
    assert job_of([], minimum, roles).has_role_minimums is minds


def test_tasks_are_counted_by_role() -> None:
    job = job_of([(R, "a", 1), (P, "b", 1), (B, "a", 1)])
    assert job.count_roles(R, B) == {"a": 2}
    assert job.count_roles(P) == {"b": 1}


def by_part(*keys: str, size: int = 1, needed: int = 0) -> tuple[SubGroups, ...]:
    return compile_subgroups(
        (SubGroupPolicy(name="w", match_label_keys=keys, sub_group_size=size, min_sub_groups=needed),)
    )


labels = st.lists(st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])), max_size=8)


@given(labels, st.lists(st.tuples(st.integers(0, 7), st.sampled_from([*TaskStatus, None])), max_size=12), st.data())
def test_subjobs_count_their_tasks(
    given: list[dict[str, str]], moves: list[tuple[int, TaskStatus | None]], data: st.DataObject
) -> None:
    job = JobInfo("default", "j")
    keys = [data.draw(st.sampled_from([("a",), ("a", "b"), ()])) for _ in range(2)]
    job.set_subgroups(by_part(*keys[0]) if keys[0] else ())
    for at, each in enumerate(given):
        pod = make_pod(f"p{at}", labels=each)
        job.add(TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, P))
    uids = list(job.tasks)
    for at, status in moves:
        task = job.tasks.get(uids[at % len(uids)]) if uids else None
        if task is not None:
            if status is None:
                job.remove(task.uid)
                assert task.subjob is None
            else:
                job.update_status(task, status)
    job.set_subgroups(by_part(*keys[1]) if keys[1] else ())
    expected: dict[str, set[str]] = {}
    for task in job.tasks.values() if keys[1] else ():
        values = [task.object.metadata.labels.get(key, "") for key in keys[1]]
        expected.setdefault("-".join(("w", *values)) if all(values) else "", set()).add(task.uid)
    assert {name: set(part.tasks) for name, part in job.subjobs.items()} == expected
    for name, part in job.subjobs.items():
        assert all(task.subjob is part for task in part.tasks.values())
        for status in TaskStatus:
            assert set(part.with_status(status)) == {uid for uid in expected[name] if job.tasks[uid].status is status}
        assert part.ready_num == part.count(*READY)


def test_subjob_follows_its_policy_and_the_rest_needs_one_task() -> None:
    job = JobInfo("default", "j")
    within = NetworkTopology(mode="hard", highest_tier_allowed=1)
    policy = SubGroupPolicy(name="w", match_label_keys=("n",), sub_group_size=3, network_topology=within)
    job.set_subgroups(compile_subgroups((policy,)))
    for at, text in enumerate(("7", "x", "")):
        pod = make_pod(f"p{at}", labels={"n": text} if text else {}, priority=at)
        job.add(TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, P))
    said = {name: (part.policy, part.index, part.min_available, part.priority) for name, part in job.subjobs.items()}
    assert said == {"w-7": ("w", 7, 3, 0), "w-x": ("w", 0, 3, 1), "": (None, 0, 1, 2)}
    assert [part.topology for part in job.subjobs.values()] == [
        TopologyRequirement(True, 1),
        TopologyRequirement(True, 1),
        None,
    ]


def test_missing_subgroups_are_of_the_first_unsatisfied_policy() -> None:
    job = job_of(plain(A, A, P))
    assert job.missing_subgroups(lambda part: False) == ""
    job.set_subgroups(by_part("n", needed=2))
    assert job.missing_subgroups(lambda part: True) == "0 of the 2 subgroups of w that it needs have enough"
    assert not job.is_ready
