"""drf: shares of jobs, and of queues in a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.plugins.drf import Drf
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource, dominant_share
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PENDING, RUNNING, ALLOCATED, PIPELINED = (
    TaskStatus.PENDING,
    TaskStatus.RUNNING,
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
)


def job_of(name: str, *tasks: tuple[TaskStatus, Mapping[str, int]], minimum: int = 1, queue: str = "q") -> JobInfo:
    job = JobInfo("default", name)
    job.min_available, job.queue = minimum, queue
    for at, (status, request) in enumerate(tasks):
        pod = make_pod(f"{name}-{at}", cpu=None, memory=None)
        task = TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status)
        task.uid, task.request = f"{name}/{at}", Resource(request)
        job.add(task)
    return job


def session_of(total: Mapping[str, int], *jobs: JobInfo, queues: Sequence[QueueInfo] = ()) -> Session:
    made = SimpleNamespace(
        total=Resource(total),
        jobs={job.uid: job for job in jobs},
        queues={queue.name: queue for queue in queues or [QueueInfo(make_queue("q"))]},
    )
    return cast("Session", made)


def opened(session: Session, *, tree: bool = False) -> Drf:
    plugin = Drf(BatchArguments())
    plugin.hierarchical = tree
    plugin.on_session_open(session)
    return plugin


def order(plugin: Drf, session: Session) -> list[str]:
    return [job.name for job in sorted(session.jobs.values(), key=lambda job: plugin.job_order(session, job))]


def test_jobs_are_ordered_by_dominant_share() -> None:
    session = session_of(
        {"cpu": 10, "gpu": 4},
        job_of("gpu", (RUNNING, {"cpu": 1, "gpu": 2})),
        job_of("cpu", (RUNNING, {"cpu": 4}), (PENDING, {"gpu": 4})),
        job_of("elsewhere", (RUNNING, {"disk": 9})),
    )
    assert order(opened(session), session) == ["elsewhere", "cpu", "gpu"]


def test_shares_include_allocated_and_pipelined_tasks() -> None:
    one, two = job_of("one", (PENDING, {"cpu": 2})), job_of("two", (RUNNING, {"cpu": 1}))
    session = session_of({"cpu": 10}, one, two)
    plugin = opened(session)
    assert order(plugin, session) == ["one", "two"]
    plugin.allocated(session, one.tasks["one/0"])
    assert order(plugin, session) == ["two", "one"]
    plugin.deallocated(session, one.tasks["one/0"])
    assert order(plugin, session) == ["one", "two"]


def test_gang_below_its_minimum_goes_before_new_jobs() -> None:
    # By ascending share alone it would come last, and with new jobs all the time never again (volcano issue 5805).
    broken = job_of("broken", *[(RUNNING, {"cpu": 3})] * 2, (PENDING, {"cpu": 3}), minimum=3)
    session = session_of({"cpu": 10}, job_of("new", (PENDING, {"cpu": 1})), broken)
    plugin = opened(session)
    assert order(plugin, session) == ["broken", "new"]
    # With its minimum it is one like all others: nobody is starved by what it wants beside.
    broken.update_status(broken.tasks["broken/2"], ALLOCATED)
    plugin.allocated(session, broken.tasks["broken/2"])
    assert order(plugin, session) == ["new", "broken"]


def test_gang_without_bound_tasks_has_no_advantage() -> None:
    gang = job_of("gang", *[(PENDING, {"cpu": 1})] * 3, minimum=3)
    promised = job_of("promised", (PIPELINED, {"cpu": 1}), (PENDING, {"cpu": 1}), minimum=2)
    session = session_of({"cpu": 10}, promised, gang, job_of("some", (RUNNING, {"cpu": 2})))
    plugin = opened(session)
    plugin.allocated(session, promised.tasks["promised/0"])
    assert order(plugin, session) == ["gang", "promised", "some"]


def test_succeeded_members_count_towards_the_minimum() -> None:
    done = job_of("done", (RUNNING, {"cpu": 2}), (TaskStatus.SUCCEEDED, {"cpu": 2}), minimum=2)
    session = session_of({"cpu": 10}, done, job_of("new", (PENDING, {"cpu": 1})))
    assert order(opened(session), session) == ["new", "done"]


@pytest.mark.parametrize("total", [{}, {"cpu": 0}])
def test_shares_in_an_empty_cluster_are_defined(total: dict[str, int]) -> None:
    session = session_of(total, job_of("a", (PENDING, {"cpu": 1})), job_of("b", (PENDING, {"cpu": 1})))
    assert order(opened(session), session) == ["a", "b"]


@pytest.mark.parametrize(
    ("mine", "theirs", "victims"),
    [
        (0, [2, 2], ["v/0"]),  # 1 with it, against 2 without the victim; then nothing is left
        (0, [1, 1], ["v/0"]),  # as much is enough
        (0, [1], []),
        (1, [2, 2], ["v/0"]),
        (2, [2, 2], []),
        (0, [1, 1, 1, 1], ["v/0", "v/1", "v/2"]),
        (1, [3, 1], ["v/1"]),  # without the large one too little would be left
    ],
)
def test_victim_job_keeps_no_smaller_share_than_the_preemptor(mine: int, theirs: list[int], victims: list[str]) -> None:
    preemptor = job_of("p", (PENDING, {"cpu": 1}), (RUNNING, {"cpu": mine}))
    others = job_of("v", *[(RUNNING, {"cpu": cpu}) for cpu in theirs])
    session = session_of({"cpu": 10, "gpu": 0}, preemptor, others)
    plugin = opened(session)
    for _ in range(2):  # asking takes nothing
        named = plugin.preemptable(session, preemptor.tasks["p/0"], list(others.tasks.values()))
        assert [task.uid for task in named] == victims


amounts = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 4))


@given(st.lists(st.lists(amounts, min_size=1, max_size=4), min_size=2, max_size=4), amounts)
def test_victim_job_cannot_preempt_back(held: list[list[dict[str, int]]], total: dict[str, int]) -> None:
    jobs = [job_of(f"j{at}", *[(RUNNING, each) for each in tasks]) for at, tasks in enumerate(held)]
    preemptor = jobs[0].tasks["j0/0"]
    jobs[0].update_status(preemptor, PENDING)
    session = session_of(total, *jobs)
    others = [task for job in jobs[1:] for task in job.tasks.values()]
    for victim in opened(session).preemptable(session, preemptor, others):
        gained = dominant_share(jobs[0].allocated.plus(preemptor.request), session.total)
        assert gained <= dominant_share(victim.job.allocated.minus(victim.request), session.total) + 1e-6


def test_tasks_of_jobs_outside_the_session_are_not_victims() -> None:
    stranger = job_of("gone", (RUNNING, {"cpu": 5})).tasks["gone/0"]
    job = job_of("a", (PENDING, {"cpu": 1}))
    session = session_of({"cpu": 8}, job)
    for tree in (False, True):
        plugin = opened(session, tree=tree)
        plugin.deallocated(session, stranger)
        plugin.allocated(session, stranger)
        assert plugin.preemptable(session, job.tasks["a/0"], [stranger]) == []
    assert plugin.reclaimable(session, job.tasks["a/0"], [stranger]) == []


def place(name: str, path: str, weights: str) -> QueueInfo:
    said = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return QueueInfo(make_queue(name, annotations=said))


def test_drf_without_hierarchy_does_not_order_queues() -> None:
    job = job_of("a", (PENDING, {"cpu": 1}))
    session = session_of({"cpu": 4}, job, queues=[place("q", "root/q", "1/2")])
    plugin = opened(session)
    assert plugin.queue_order(session, session.queues["q"]) == ()
    assert plugin.reclaimable(session, job.tasks["a/0"], []) is None


def test_queues_are_ordered_by_shares_in_the_tree() -> None:
    queues = [
        place("much", "root/x/much", "1/1/1"),
        place("none", "root/x/none", "1/1/1"),
        place("some", "root/y", "1/4"),
    ]
    more = (PENDING, {"cpu": 9})
    jobs = [
        job_of("a", (RUNNING, {"cpu": 2}), more, queue="much"),
        job_of("b", more, queue="none"),
        job_of("c", (RUNNING, {"cpu": 4}), more, queue="some"),
    ]
    session = session_of({"cpu": 20}, *jobs, queues=queues)
    plugin = opened(session, tree=True)

    def sorted_queues() -> list[str]:
        return sorted(session.queues, key=lambda name: plugin.queue_order(session, session.queues[name]))

    assert sorted_queues() == ["some", "none", "much"]
    extra = job_of("a", (RUNNING, {"cpu": 8}), queue="some")
    extra.uid = jobs[2].uid
    plugin.allocated(session, extra.tasks["a/0"])
    assert sorted_queues() == ["none", "much", "some"]


def test_reclaim_stops_when_the_other_queue_would_be_first() -> None:
    queues = [place("x", "root/x", "1/1"), place("y", "root/y", "1/1")]
    mine = job_of("mine", (PENDING, {"cpu": 2}), (PENDING, {"cpu": 9}), queue="x")
    theirs = job_of("theirs", *[(RUNNING, {"cpu": 2})] * 4, (PENDING, {"cpu": 9}), queue="y")
    session = session_of({"cpu": 8}, mine, theirs, queues=queues)
    plugin = opened(session, tree=True)
    tasks = [task for task in theirs.tasks.values() if task.status is RUNNING]
    for _ in range(2):  # asking takes nothing
        named = plugin.reclaimable(session, mine.tasks["mine/0"], tasks)
        assert named is not None
        assert [task.uid for task in named] == ["theirs/0", "theirs/1"]  # with 4 against 2; not with 2 against 2
