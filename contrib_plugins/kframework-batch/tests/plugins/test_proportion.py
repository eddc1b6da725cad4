"""proportion: what queues are due by weight, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, Vote
from kframework_batch.plugins.proportion import Proportion
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PENDING, RUNNING = TaskStatus.PENDING, TaskStatus.RUNNING


def queue_of(
    name: str,
    *,
    weight: int = 1,
    priority: int = 0,
    guarantee: Mapping[str, int] | None = None,
    capability: Mapping[str, int] | None = None,
    is_open: bool = True,
) -> QueueInfo:
    queue = QueueInfo(make_queue(name, weight=weight, priority=priority))
    queue.guarantee, queue.capability = Resource(guarantee or {}), Resource(capability or {})
    queue.is_open = is_open
    return queue


def job_of(
    queue: str, *tasks: tuple[TaskStatus, Mapping[str, int]], least: Mapping[str, int] | None = None, phase: str = ""
) -> JobInfo:
    job = JobInfo("default", f"job-of-{queue}")
    job.queue, job.phase = queue, phase
    job.min_resources = None if least is None else Resource(least)
    for at, (status, request) in enumerate(tasks):
        pod = make_pod(f"{queue}-{at}", cpu=None, memory=None)
        task = TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status)
        task.uid, task.request = f"{queue}/{at}", Resource(request)
        job.add(task)
    return job


def session_of(total: Mapping[str, int], queues: Sequence[QueueInfo], *jobs: JobInfo) -> Session:
    made = SimpleNamespace(
        total=Resource(total),
        queues={queue.name: queue for queue in queues},
        jobs={f"{at}": job for at, job in enumerate(jobs)},
    )
    return cast("Session", made)


def opened(session: Session) -> Proportion:
    plugin = Proportion(BatchArguments())
    list(plugin.on_session_open(session))
    return plugin


def deserved(session: Session) -> dict[str, dict[str, int]]:
    plugin = opened(session)
    return {name: deserved_by(plugin, session, queue) for name, queue in session.queues.items()}


def deserved_by(plugin: Proportion, session: Session, queue: QueueInfo) -> dict[str, int]:
    account = plugin.queue_account(session, queue)
    assert account is not None
    return dict(account.deserved)


@pytest.mark.parametrize(
    ("queues", "asked", "due"),
    [
        ([queue_of("a"), queue_of("b", weight=2)], {"a": 99, "b": 99}, {"a": 30, "b": 60}),
        ([queue_of("a"), queue_of("b", weight=2)], {"a": 99, "b": 9}, {"a": 81, "b": 9}),
        ([queue_of("a"), queue_of("b")], {"a": 5, "b": 6}, {"a": 5, "b": 6}),
        ([queue_of("a"), queue_of("b")], {"a": 99}, {"a": 90, "b": 0}),
        ([queue_of("a", capability={"cpu": 10}), queue_of("b")], {"a": 99, "b": 99}, {"a": 10, "b": 80}),
        ([queue_of("a", capability={"cpu": 0}), queue_of("b")], {"a": 99, "b": 99}, {"a": 0, "b": 90}),
        # A guarantee is kept though nobody uses it, and is part of the share and not beside it.
        ([queue_of("a", guarantee={"cpu": 40}), queue_of("b")], {"b": 99}, {"a": 40, "b": 50}),
        ([queue_of("a", guarantee={"cpu": 40}), queue_of("b")], {"a": 99, "b": 99}, {"a": 45, "b": 45}),
        (
            [queue_of("a", guarantee={"cpu": 70}), queue_of("b"), queue_of("c")],
            {"a": 99, "b": 99, "c": 99},
            {"a": 70, "b": 10, "c": 10},
        ),
        ([queue_of("a", guarantee={"cpu": 60}), queue_of("b", guarantee={"cpu": 120})], {"a": 99}, {"a": 30, "b": 60}),
        ([queue_of("a", guarantee={"cpu": 60}, capability={"cpu": 20})], {"a": 99}, {"a": 20}),
    ],
)
def test_deserved_is_shared_by_weight(
    queues: list[QueueInfo], asked: Mapping[str, int], due: Mapping[str, int]
) -> None:
    jobs = [job_of(name, (PENDING, {"cpu": amount})) for name, amount in asked.items()]
    found = deserved(session_of({"cpu": 90}, queues, *jobs))
    assert {name: each["cpu"] for name, each in found.items()} == due


def test_each_resource_is_shared_separately_and_missing_ones_are_not_deserved() -> None:
    jobs = [job_of("a", (PENDING, {"cpu": 9, "gpu": 1})), job_of("b", (PENDING, {"cpu": 1, "disk": 5}))]
    found = deserved(session_of({"cpu": 8, "gpu": 4}, [queue_of("a"), queue_of("b")], *jobs))
    assert found == {"a": {"cpu": 7, "gpu": 1, "disk": 0}, "b": {"cpu": 1, "gpu": 0, "disk": 0}}


amounts = st.dictionaries(st.sampled_from(["cpu", "gpu", "disk"]), st.integers(0, 30))


@given(
    total=amounts,
    queues=st.lists(
        st.tuples(st.integers(1, 4), amounts, st.just({}) | amounts, st.lists(amounts, max_size=3)), max_size=5
    ),
)
def test_deserved_shares_add_up_within_limits(
    total: dict[str, int],
    queues: list[tuple[int, dict[str, int], dict[str, int], list[dict[str, int]]]],
) -> None:
    made = [
        queue_of(f"q{at}", weight=weight, guarantee=guarantee, capability=capability)
        for at, (weight, guarantee, capability, _) in enumerate(queues)
    ]
    jobs = [job_of(f"q{at}", *[(PENDING, each) for each in asked]) for at, (*_, asked) in enumerate(queues)]
    found = deserved(session_of(total, made, *jobs))
    for name in ("cpu", "gpu", "disk"):
        due = [each.get(name, 0) for each in found.values()]
        kept = [queue.guarantee.at_most(queue.capability).get(name, 0) for queue in made]
        wanted = [
            max(least, min(job.requested.get(name, 0), queue.capability.get(name, 1 << 60)))
            for queue, job, least in zip(made, jobs, kept, strict=True)
        ]
        there_is = total.get(name, 0)
        assert sum(due) <= there_is
        assert all(amount <= queue.capability.get(name, 1 << 60) for queue, amount in zip(made, due, strict=True))
        assert all(amount <= most for amount, most in zip(due, wanted, strict=True))
        if sum(kept) <= there_is:
            assert all(amount >= least for amount, least in zip(due, kept, strict=True))
            assert sum(due) == min(there_is, sum(wanted))


def test_queues_are_ordered_by_priority_then_share() -> None:
    queues = [queue_of("empty"), queue_of("half"), queue_of("first", priority=1), queue_of("over")]
    holds = {"empty": 0, "half": 1, "first": 3, "over": 5}
    jobs = [job_of(name, (RUNNING, {"cpu": held}), (PENDING, {"cpu": 9})) for name, held in holds.items()]
    session = session_of({"cpu": 8}, queues, *jobs)
    plugin = opened(session)
    assert [queue.name for queue in sorted(queues, key=lambda queue: plugin.queue_order(session, queue))] == [
        "first",
        "empty",
        "half",
        "over",
    ]


def test_queue_gets_no_more_than_it_deserves() -> None:
    a, b = queue_of("a"), queue_of("b")
    job, other = job_of("a", *[(PENDING, {"cpu": 2})] * 4, (PENDING, {})), job_of("b", (PENDING, {"cpu": 9}))
    session = session_of({"cpu": 9, "gpu": 1}, [a, b], job, other)
    plugin = opened(session)  # five for the first, four for the second
    one, two, three, _, nothing = job.tasks.values()
    for task in (one, two):
        assert plugin.allocatable(session, a, task)
        assert plugin.preemptive(session, a, task)
        plugin.allocated(session, task)
    assert not plugin.allocatable(session, a, three)
    assert not plugin.preemptive(session, a, three)
    assert plugin.allocatable(session, a, nothing)
    assert not plugin.preemptive(session, a, nothing)
    assert not plugin.overused(session, a)
    plugin.allocated(session, job_of("a", (PENDING, {"cpu": 1})).tasks["a/0"])
    assert plugin.overused(session, a)
    plugin.deallocated(session, one)
    assert plugin.allocatable(session, a, three)


def test_closed_queue_gets_nothing() -> None:
    queue, job = queue_of("a", is_open=False), job_of("a", (PENDING, {"cpu": 1}), (PENDING, {}))
    session = session_of({"cpu": 9}, [queue], job)
    plugin = opened(session)
    for task in job.tasks.values():
        assert not plugin.allocatable(session, queue, task)
        assert not plugin.preemptive(session, queue, task)
    assert plugin.job_enqueueable(session, job) is Vote.REJECT
    assert job.message == "queue a is not open"


def test_resource_that_no_node_has_is_not_allocatable() -> None:
    queue, job = queue_of("a"), job_of("a", (PENDING, {"cpu": 1, "gpu": 1}))
    session = session_of({"cpu": 9}, [queue], job)
    assert not opened(session).allocatable(session, queue, job.tasks["a/0"])


@pytest.mark.parametrize(
    ("held", "victims"),
    [
        ([2, 2, 2], ["a/0"]),  # 6 - 2 is just what is due; Volcano takes until it is less
        ([3, 3], []),  # either would leave it with less than its due
        ([3, 1, 1, 1], ["a/1", "a/2"]),  # the first is too large
        ([4], []),
    ],
)
def test_victim_queue_keeps_what_it_deserves(held: list[int], victims: list[str]) -> None:
    job = job_of("a", *[(RUNNING, {"cpu": cpu}) for cpu in held])
    other = job_of("b", (PENDING, {"cpu": 1}), (PENDING, {"cpu": 3}))
    session = session_of({"cpu": 8}, [queue_of("a"), queue_of("b")], job, other)
    plugin = opened(session)
    for _ in range(2):  # asking takes nothing
        named = plugin.reclaimable(session, other.tasks["b/0"], list(job.tasks.values()))
        assert [task.uid for task in named] == victims


def test_abundant_resource_protects_no_queue() -> None:
    # What is due of memory is all that is asked for, and nobody who gives way can keep that.
    job = job_of("a", *[(RUNNING, {"cpu": 2, "memory": 5})] * 4)
    other = job_of("b", (PENDING, {"cpu": 4, "memory": 1}))
    session = session_of({"cpu": 8, "memory": 1000}, [queue_of("a"), queue_of("b")], job, other)
    named = opened(session).reclaimable(session, other.tasks["b/0"], list(job.tasks.values()))
    assert [task.uid for task in named] == ["a/0", "a/1"]


def test_tasks_of_jobs_outside_the_session_are_not_victims() -> None:
    stranger = job_of("gone", (RUNNING, {"cpu": 5})).tasks["gone/0"]
    other = job_of("b", (PENDING, {"cpu": 1}))
    session = session_of({"cpu": 8}, [queue_of("b")], other)
    plugin = opened(session)
    plugin.deallocated(session, stranger)
    plugin.allocated(session, stranger)
    assert plugin.reclaimable(session, other.tasks["b/0"], [stranger]) == []


def test_jobs_are_enqueued_while_the_queue_has_room() -> None:
    queue, other = queue_of("a", capability={"cpu": 6}), queue_of("b", guarantee={"cpu": 5})
    waiting = job_of("a", least={"cpu": 2}, phase="Inqueue")
    session = session_of({"cpu": 10}, [queue, other], waiting)
    plugin = opened(session)  # five are kept for b, two for the job that waits
    fits, large = job_of("a", least={"cpu": 3}), job_of("a", least={"cpu": 4})
    assert plugin.job_enqueueable(session, large) is Vote.REJECT
    assert large.message == "queue a has no room for its minimum: cpu 4m requested, more than is left of 5m"
    assert plugin.job_enqueueable(session, fits) is Vote.PERMIT
    plugin.job_enqueued(session, fits)
    assert plugin.job_enqueueable(session, job_of("a", least={"cpu": 1})) is Vote.REJECT
    assert plugin.job_enqueueable(session, job_of("a")) is Vote.PERMIT
    assert plugin.job_enqueueable(session, job_of("b", least={"cpu": 10})) is Vote.PERMIT


def test_elastic_resources_do_not_block_other_jobs() -> None:
    elastic = job_of("a", *[(RUNNING, {"cpu": 2})] * 4, least={"cpu": 2}, phase="Running")
    session = session_of({"cpu": 10}, [queue_of("a")], elastic)
    assert opened(session).job_enqueueable(session, job_of("a", least={"cpu": 8})) is Vote.PERMIT


def test_accounts_are_recomputed_in_every_session() -> None:
    first = session_of({"cpu": 8}, [queue_of("a")], job_of("a", (RUNNING, {"cpu": 5})))
    plugin = opened(first)
    second = session_of({"cpu": 4}, [queue_of("b")], job_of("b", (PENDING, {"cpu": 5})))
    list(plugin.on_session_open(second))
    assert deserved_by(plugin, second, second.queues["b"]) == {"cpu": 4}
    assert plugin.queue_account(second, first.queues["a"]) is None
