"""capacity: what owners say that queues are due, alone and as a tree."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import Vote
from kframework_batch.plugins.capacity import Capacity, CapacityArguments
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PENDING, RUNNING = TaskStatus.PENDING, TaskStatus.RUNNING
CPU = {"cpu": 1}


def queue_of(
    name: str,
    parent: str = "",
    *,
    deserved: Mapping[str, int] | None = None,
    guarantee: Mapping[str, int] | None = None,
    capability: Mapping[str, int] | None = None,
    priority: int = 0,
    is_open: bool = True,
) -> QueueInfo:
    queue = QueueInfo(make_queue(name, parent=parent, priority=priority))
    queue.deserved, queue.guarantee = Resource(deserved or {}), Resource(guarantee or {})
    queue.capability, queue.is_open = Resource(capability or {}), is_open
    return queue


def job_of(queue: str, *tasks: tuple[TaskStatus, Mapping[str, int]], least: Mapping[str, int] | None = None) -> JobInfo:
    job = JobInfo("default", f"job-of-{queue}")
    job.queue, job.min_resources = queue, None if least is None else Resource(least)
    for at, (status, request) in enumerate(tasks):
        pod = make_pod(f"{queue}-{at}", cpu=None, memory=None)
        task = TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status)
        task.uid, task.request = f"{queue}/{at}", Resource(request)
        job.add(task)
    return job


def session_of(total: Mapping[str, int], queues: Sequence[QueueInfo], *jobs: JobInfo) -> Session:
    made = SimpleNamespace(
        total=Resource(total), queues={queue.name: queue for queue in queues}, jobs=dict(enumerate(jobs))
    )
    return cast("Session", made)


def opened(session: Session, *, tree: bool = False, level: int = 0) -> Capacity:
    plugin = Capacity(CapacityArguments(ancestor_reclaim_level=level))
    plugin.hierarchical = tree
    list(plugin.on_session_open(session))
    return plugin


def order(plugin: Capacity, session: Session) -> list[str]:
    return sorted(session.queues, key=lambda name: plugin.queue_order(session, session.queues[name]))


def victims_of(plugin: Capacity, session: Session, reclaimer: JobInfo, *victims: JobInfo) -> list[str]:
    tasks = [task for job in victims for task in job.tasks.values()]
    named = plugin.reclaimable(session, next(iter(reclaimer.tasks.values())), tasks)
    assert plugin.reclaimable(session, next(iter(reclaimer.tasks.values())), tasks) == named  # asking takes nothing
    return [task.uid for task in named]


@pytest.mark.parametrize(
    ("queue", "request_", "may"),
    [
        (queue_of("a"), {"cpu": 8}, True),  # what it is due does not matter
        (queue_of("a"), {"cpu": 9}, False),  # two are kept for the other
        (queue_of("a", capability={"cpu": 5}), {"cpu": 6}, False),
        (queue_of("a", capability={"cpu": 5}), {"gpu": 3}, True),
        (queue_of("a", guarantee={"cpu": 3}), {"cpu": 8}, True),
        (queue_of("a"), {"disk": 1}, False),  # no node has any
        (queue_of("a", capability={"disk": 9}), {"disk": 1}, False),
        (queue_of("a"), {}, True),
        (queue_of("a", is_open=False), {"cpu": 1}, False),
    ],
)
def test_queue_is_limited_by_its_capability_and_guarantees_of_others(
    queue: QueueInfo, request_: dict[str, int], may: bool
) -> None:
    job = job_of("a", (PENDING, request_))
    session = session_of({"cpu": 10, "gpu": 3}, [queue, queue_of("b", guarantee={"cpu": 2})], job)
    assert opened(session).allocatable(session, queue, job.tasks["a/0"]) is may


def test_all_ancestor_queues_must_have_room() -> None:
    queues = [
        queue_of("x", capability={"cpu": 3}),
        queue_of("a", "x", capability={"cpu": 9}),  # cut down to what is above
        queue_of("b", "x"),
        queue_of("c"),
    ]
    job, other = job_of("a", (PENDING, {"cpu": 2})), job_of("b", (RUNNING, CPU), (PENDING, CPU))
    session = session_of({"cpu": 1}, queues, job, other)  # the root is not limited by what there is now
    plugin = opened(session, tree=True)
    task = job.tasks["a/0"]
    assert plugin.allocatable(session, session.queues["a"], task)
    plugin.allocated(session, other.tasks["b/1"])
    assert not plugin.allocatable(session, session.queues["a"], task)
    plugin.deallocated(session, other.tasks["b/1"])
    assert plugin.allocatable(session, session.queues["a"], task)
    assert plugin.allocatable(session, session.queues["c"], task)


def test_guarantees_of_sibling_queues_are_kept() -> None:
    queues = [queue_of("x", capability={"cpu": 5}), queue_of("a", "x"), queue_of("b", "x", guarantee={"cpu": 2})]
    job = job_of("a", (PENDING, {"cpu": 3}), (PENDING, {"cpu": 4}), (PENDING, {"gpu": 4}))
    session = session_of({"cpu": 9}, queues, job)
    plugin = opened(session, tree=True)
    assert [plugin.allocatable(session, queues[1], task) for task in job.tasks.values()] == [True, False, True]


def test_root_queue_can_be_limited() -> None:
    queues = [queue_of("root", capability={"cpu": 2}), queue_of("a")]
    job = job_of("a", (PENDING, {"cpu": 2}), (PENDING, {"cpu": 3}))
    session = session_of({"cpu": 9}, queues, job)
    plugin = opened(session, tree=True)
    assert [plugin.allocatable(session, queues[1], task) for task in job.tasks.values()] == [True, False]


def test_only_leaf_queues_accept_jobs() -> None:
    queues = [queue_of("x"), queue_of("a", "x")]
    job = job_of("x", (PENDING, CPU), least=CPU)
    session = session_of({"cpu": 9}, queues, job)
    plugin = opened(session, tree=True)
    assert not plugin.allocatable(session, queues[0], job.tasks["x/0"])
    assert not plugin.preemptive(session, queues[0], job.tasks["x/0"])
    assert plugin.job_enqueueable(session, job) is Vote.REJECT
    assert job.message == "queue x has queues below it: only queues without may have jobs"
    alone = opened(session)
    assert alone.allocatable(session, queues[0], job.tasks["x/0"])


def test_invalid_queue_tree_stops_scheduling_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    queues = [queue_of("fine", deserved={"cpu": 9}), queue_of("lost", "nowhere")]
    job, running = job_of("fine", (PENDING, CPU), least=CPU), job_of("lost", (RUNNING, CPU))
    session = session_of({"cpu": 9}, queues, job, running)
    task = job.tasks["fine/0"]
    with caplog.at_level(logging.INFO):
        plugin = opened(session, tree=True)
        list(plugin.on_session_open(session))
    why = "queue lost has the parent nowhere, which does not exist: create it, or change spec.parent"
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", f"capacity: nothing is scheduled: {why}")
    ]
    assert not plugin.allocatable(session, queues[0], task)
    assert not plugin.preemptive(session, queues[0], task)
    assert victims_of(plugin, session, job, running) == []
    assert plugin.job_enqueueable(session, job) is Vote.REJECT
    assert job.message == why
    plugin.job_enqueued(session, job)
    plugin.allocated(session, task)
    plugin.deallocated(session, task)
    assert order(plugin, session) == ["fine", "lost"]
    mended = session_of({"cpu": 9}, [queues[0]], job)
    list(plugin.on_session_open(mended))
    assert plugin.allocatable(mended, queues[0], task)


def test_jobs_are_enqueued_while_all_ancestor_queues_have_room() -> None:
    queues = [queue_of("x", capability={"cpu": 5}), queue_of("a", "x"), queue_of("b", "x")]
    session = session_of({"cpu": 1}, queues)
    plugin = opened(session, tree=True)
    job, large = job_of("a", least={"cpu": 3}), job_of("b", least={"cpu": 3})
    assert plugin.job_enqueueable(session, job) is Vote.PERMIT
    plugin.job_enqueued(session, job)
    assert plugin.job_enqueueable(session, large) is Vote.REJECT
    assert large.message == "queue x has no room for its minimum: cpu 3m requested, more than is left of 5m"
    assert plugin.job_enqueueable(session, job_of("b", least={"cpu": 2})) is Vote.PERMIT
    assert plugin.job_enqueueable(session, job_of("b")) is Vote.PERMIT


def test_queues_are_ordered_by_deserved_then_priority_then_share() -> None:
    due = {"cpu": 4}
    queues = {
        "first": queue_of("first", deserved=due, priority=2),
        "empty": queue_of("empty", deserved=due),
        "half": queue_of("half", deserved=due),
        "over but first": queue_of("over but first", deserved=due, priority=1),
        "full": queue_of("full", deserved=due),
        "lent": queue_of("lent"),
        "over": queue_of("over", deserved=due),
    }
    holds = {"first": 3, "half": 2, "over but first": 6, "full": 4, "over": 5}
    jobs = [job_of(name, (RUNNING, {"cpu": cpu})) for name, cpu in holds.items()]
    session = session_of({"cpu": 40}, list(reversed(queues.values())), *jobs)
    assert order(opened(session), session) == list(queues)


def test_ancestor_queues_decide_the_order_first() -> None:
    due = {"cpu": 4}
    queues = [
        queue_of("x", deserved=due),
        queue_of("y", deserved=due),
        queue_of("much", "x", deserved=due),
        queue_of("none", "x", deserved=due),
        queue_of("some", "y", deserved=due),
    ]
    session = session_of(
        {"cpu": 9}, queues, job_of("much", (RUNNING, {"cpu": 3})), job_of("some", (RUNNING, {"cpu": 1}))
    )
    leaves = [name for name in order(opened(session, tree=True), session) if name not in "xy"]
    assert leaves == ["some", "none", "much"]


def test_victims_of_near_relatives_are_preferred() -> None:
    queues = [queue_of("x"), queue_of("y"), *[queue_of(name, "x") for name in "ab"], queue_of("c", "y"), queue_of("d")]
    session = session_of({"cpu": 9}, queues)
    plugin, mine = opened(session, tree=True), queues[2]
    keys = {name: plugin.victim_queue_order(session, session.queues[name], mine) for name in "bcd"}
    assert keys["b"] < keys["c"] == keys["d"]
    alone = opened(session)
    assert len({alone.victim_queue_order(session, session.queues[name], mine) for name in "bcd"}) == 1


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        ({"cpu": 2}, True),
        ({"cpu": 3}, False),
        ({"gpu": 1}, True),
        ({"cpu": 3, "gpu": 1}, False),  # Volcano asks that one resource be due; then the other is taken beyond it
        ({"cpu": 2, "disk": 1}, True),  # of disks nobody says what is due
        ({"disk": 1}, False),
        ({"disk": 9, "cpu": 1}, False),  # more than it may hold
        ({}, False),
    ],
)
def test_queue_reclaims_only_what_it_deserves(request_: dict[str, int], may: bool) -> None:
    queue = queue_of("a", deserved={"cpu": 4, "gpu": 1}, capability={"disk": 5})
    job = job_of("a", (PENDING, request_), (RUNNING, {"cpu": 2}))
    session = session_of({"cpu": 9, "gpu": 2, "disk": 9}, [queue], job)
    assert opened(session).preemptive(session, queue, job.tasks["a/0"]) is may


def test_deserved_is_between_guarantee_and_capability() -> None:
    queues = [queue_of("a", guarantee={"cpu": 3}), queue_of("b", deserved={"cpu": 9}, capability={"cpu": 2})]
    session = session_of({"cpu": 9}, queues)
    plugin = opened(session)
    for queue, due in zip(queues, (3, 2), strict=True):
        job = job_of(queue.name, (PENDING, {"cpu": due}), (PENDING, {"cpu": due + 1}))
        assert [plugin.preemptive(session, queue, task) for task in job.tasks.values()] == [True, False]


@pytest.mark.parametrize(
    ("queue", "held", "victims"),
    [
        (queue_of("v", deserved={"cpu": 4}), [{"cpu": 2}] * 3, ["v/0"]),
        (queue_of("v", deserved={"cpu": 4}), [{"cpu": 3}] * 2, []),  # never less than its due
        (queue_of("v"), [{"cpu": 3}] * 2, ["v/0", "v/1"]),  # nothing is due to it
        (queue_of("v", deserved={"gpu": 4}), [{"cpu": 3}, {"cpu": 1, "gpu": 1}], ["v/0"]),
        (queue_of("v", deserved={"cpu": 1}), [{"disk": 3}], []),  # of no use
        (queue_of("v", deserved={"cpu": 4, "gpu": 1}), [{"cpu": 2, "gpu": 1}] * 3, ["v/0"]),
        (queue_of("v", deserved={"cpu": 4}, guarantee={"gpu": 3}), [{"cpu": 2, "gpu": 1}] * 3, []),
    ],
)
def test_queue_loses_what_it_holds_beyond_deserved(
    queue: QueueInfo, held: list[dict[str, int]], victims: list[str]
) -> None:
    mine, theirs = job_of("a", (PENDING, CPU)), job_of("v", *[(RUNNING, each) for each in held])
    total = {"cpu": 6, "gpu": 6, "disk": 6}
    session = session_of(total, [queue_of("a", deserved={"cpu": 4}), queue], mine, theirs)
    assert victims_of(opened(session), session, mine, theirs) == victims


def test_nothing_is_reclaimed_from_queue_that_would_be_first_again() -> None:
    due = {"cpu": 4, "gpu": 4}
    queues = [queue_of("a", deserved=due), queue_of("v", deserved=due, priority=9)]
    theirs = job_of("v", *[(RUNNING, {"cpu": 2})] * 3)
    full = job_of("a", (PENDING, CPU), (RUNNING, {"gpu": 4}))
    session = session_of({"cpu": 6, "gpu": 4}, queues, full, theirs)
    assert victims_of(opened(session), session, full, theirs) == []
    lacking = job_of("a", (PENDING, CPU), (RUNNING, {"gpu": 3}))
    session = session_of({"cpu": 6, "gpu": 4}, queues, lacking, theirs)
    assert victims_of(opened(session), session, lacking, theirs) == ["v/0"]


def test_ancestor_queues_reclaim_for_queues_without_deserved() -> None:
    queues = [
        queue_of("x", deserved={"cpu": 4}),
        queue_of("y", deserved={"cpu": 4}),
        *[queue_of(name, "x") for name in ("a", "sibling")],
        queue_of("v", "y"),
    ]
    mine, sibling = job_of("a", (PENDING, CPU)), job_of("sibling", (RUNNING, CPU))
    theirs = job_of("v", *[(RUNNING, {"cpu": 1})] * 6)
    session = session_of({"cpu": 7}, queues, mine, sibling, theirs)
    a, task = session.queues["a"], mine.tasks["a/0"]
    assert not opened(session, tree=True).preemptive(session, a, task)
    plugin = opened(session, tree=True, level=1)
    assert plugin.preemptive(session, a, task)
    # Two beyond what is due to the queue above; and a sibling has the same right to what is theirs together.
    assert victims_of(plugin, session, mine, theirs, sibling) == ["v/0", "v/1"]


def test_deserved_of_common_ancestor_does_not_matter_between_siblings() -> None:
    due = {"cpu": 4}
    queues = [queue_of("x", deserved={"cpu": 9}), *[queue_of(name, "x", deserved=due) for name in "av"]]
    mine, theirs = job_of("a", (PENDING, CPU)), job_of("v", *[(RUNNING, CPU)] * 5)
    session = session_of({"cpu": 5}, queues, mine, theirs)
    assert victims_of(opened(session, tree=True, level=1), session, mine, theirs) == ["v/0"]


def test_ancestor_reclaim_level_zero_counts_only_the_queue_itself() -> None:
    queues = [
        queue_of("x", deserved={"cpu": 4}),
        queue_of("y", deserved={"cpu": 8}),
        queue_of("a", "x", deserved={"cpu": 4}),
        queue_of("v", "y", deserved={"cpu": 1}),
    ]
    mine, theirs = job_of("a", (PENDING, CPU)), job_of("v", *[(RUNNING, {"cpu": 1})] * 3)
    session = session_of({"cpu": 3}, queues, mine, theirs)
    assert victims_of(opened(session, tree=True), session, mine, theirs) == ["v/0", "v/1"]
    assert victims_of(opened(session, tree=True, level=1), session, mine, theirs) == []  # all of that is due to y


@given(st.data())
def test_sums_of_a_queue_include_its_descendants(data: st.DataObject) -> None:
    queues = [queue_of("x"), queue_of("y", "x"), queue_of("a", "x"), queue_of("b", "y"), queue_of("c", "y")]
    statuses = st.lists(st.tuples(st.sampled_from([PENDING, RUNNING]), st.just(CPU)), max_size=4)
    jobs = [job_of(name, *data.draw(statuses)) for name in "abc"]
    plugin = opened(session_of({"cpu": 9}, queues, *jobs), tree=True)
    held = {job.queue: job.allocated.get("cpu", 0) for job in jobs}
    found = {account.name: account.allocated.get("cpu", 0) for chain in plugin._chains.values() for account in chain}
    below = {"y": held["b"] + held["c"], "x": sum(held.values()), "root": sum(held.values())}
    assert found == {**held, **below}


def test_arguments_have_the_names_of_volcano(caplog: pytest.LogCaptureFixture) -> None:
    given = {"ancestorReclaimLevel": "2", "capacity.DynamicResourceAllocationEnable": "true"}
    arguments = CapacityArguments.model_validate(given)
    assert arguments.ancestor_reclaim_level == 2
    assert CapacityArguments.model_validate({"ancestorReclaimLevel": -1}).ancestor_reclaim_level == 0
    Capacity(CapacityArguments())
    assert caplog.messages == []
    Capacity(arguments)
    assert caplog.messages == [
        "capacity: capacity.DynamicResourceAllocationEnable has no effect: quotas of devices are not kept"
    ]
