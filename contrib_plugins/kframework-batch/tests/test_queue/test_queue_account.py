"""What follows from the sums of a queue."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.queue import QueueAccount, QueueInfo, without_guarantees
from kframework_batch.resource import Resource
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

amounts = st.dictionaries(st.sampled_from("cg"), st.integers(0, 6)).map(Resource)


def account(
    allocated: dict[str, int] | None = None,
    deserved: dict[str, int] | None = None,
    guarantee: dict[str, int] | None = None,
) -> QueueAccount:
    made = QueueAccount(QueueInfo(make_queue("q")))
    made.allocated.add(allocated or {})
    made.deserved = Resource(deserved or {})
    made.guarantee = Resource(guarantee or {})
    return made


def job_of(*statuses: TaskStatus, least: dict[str, int] | None = None, phase: str = "") -> JobInfo:
    job = JobInfo("default", "j")
    job.phase, job.min_resources = phase, None if least is None else Resource(least)
    for at, status in enumerate(statuses):
        pod = make_pod(f"p{at}", cpu=1, memory=None)
        job.add(TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, status))
    return job


def test_account_sums_allocated_requested_and_inqueue_resources() -> None:
    made = account()
    made.add(job_of(TaskStatus.RUNNING, TaskStatus.PENDING, TaskStatus.RELEASING, TaskStatus.SUCCEEDED))
    made.add(job_of(TaskStatus.BOUND, least={"cpu": 3000}, phase="Inqueue"))
    assert made.allocated == {"cpu": 2000}
    assert made.requested == {"cpu": 3000}
    assert made.inqueue == {"cpu": 2000}
    assert made.elastic == {"cpu": 1000}
    above = account({"cpu": 1})
    above.include(made)
    assert (above.allocated, above.inqueue) == ({"cpu": 2001}, {"cpu": 2000})


@pytest.mark.parametrize(
    ("allocated", "deserved", "share", "overused"),
    [
        ({}, {}, 1.0, True),  # nothing is due: as if it had all
        ({"cpu": 5}, {"cpu": 0}, 1.0, True),
        ({}, {"cpu": 4}, 0.0, False),
        ({"cpu": 1, "gpu": 3}, {"cpu": 4, "gpu": 4}, 0.75, False),
        ({"cpu": 6}, {"cpu": 4, "gpu": 4}, 1.5, False),
        ({"cpu": 4, "gpu": 4}, {"cpu": 4, "gpu": 4}, 1.0, True),
        ({"gpu": 1}, {"cpu": 4, "gpu": 0}, 1.0, False),
    ],
)
def test_share_and_overused_follow_from_the_deserved_amount(
    allocated: dict[str, int], deserved: dict[str, int], share: float, overused: bool
) -> None:
    made = account(allocated, deserved)
    assert (made.share, made.is_overused) == (share, overused)


@pytest.mark.parametrize(
    ("request_", "due"),
    [
        ({"cpu": 1}, True),
        ({"cpu": 2}, False),
        ({"cpu": 1, "gpu": 2}, True),
        ({"cpu": 1, "gpu": 3}, False),
        ({"cpu": 1, "disk": 9}, True),  # of which nothing is due to anybody
        ({"disk": 9}, False),
        ({"cpu": 0}, False),
        ({}, False),
    ],
)
def test_account_deserves_requests_within_deserved(request_: dict[str, int], due: bool) -> None:
    assert account({"cpu": 3}, {"cpu": 4, "gpu": 2}).deserves(request_) is due


@pytest.mark.parametrize(
    ("held", "wanted", "spared"),
    [
        ({"cpu": 2}, {"cpu": 1}, True),  # 6 - 2 is what is due
        ({"cpu": 3}, {"cpu": 1}, False),  # that would be less
        ({"gpu": 1}, {"gpu": 1}, False),
        ({"cpu": 2}, {"gpu": 1}, False),  # of no use
        ({"cpu": 2, "gpu": 1}, {"cpu": 1}, True),  # the GPU goes along
        ({"cpu": 2, "gpu": 1}, {"gpu": 1}, False),  # but is not what anybody takes it for
        ({"cpu": 2, "memory": 3}, {"cpu": 1}, False),  # memory is guaranteed
        ({"cpu": 2, "memory": 1}, {"cpu": 1}, True),
        ({"disk": 5}, {"disk": 1}, True),  # nothing of it is due
        ({"disk": 5}, {"cpu": 1}, False),
        ({"disk": 5, "gpu": 1}, {"disk": 1}, False),
        ({"cpu": 0, "disk": 5}, {"disk": 1, "cpu": 1}, True),
        ({}, {"cpu": 1}, False),
    ],
)
def test_queue_can_spare_what_it_holds_beyond_deserved(
    held: dict[str, int], wanted: dict[str, int], spared: bool
) -> None:
    made = account({"cpu": 6, "gpu": 1, "memory": 4, "disk": 9}, {"cpu": 4, "gpu": 2, "memory": 3}, {"memory": 2})
    assert made.can_spare(held, wanted) is spared


@given(amounts, amounts, amounts, amounts)
def test_queue_keeps_deserved_of_all_wanted_resources(
    allocated: Resource, deserved: Resource, held: Resource, wanted: Resource
) -> None:
    made = account(allocated, deserved)
    if made.can_spare(held, wanted):
        useful = [name for name in held if held[name] and wanted.get(name)]
        assert any(allocated.get(name, 0) - held[name] >= deserved.get(name, 0) for name in useful) or not any(
            name in deserved for name in held if held[name]
        )


def test_capability_is_limited_by_guarantees_of_others() -> None:
    queues = [
        make_queue("a", guarantee={"cpu": 2}, capability={"cpu": 7, "gpu": 4}),
        make_queue("b", guarantee={"cpu": 1, "gpu": 1}),
        make_queue("c", guarantee={"cpu": 9}, capability={"cpu": 1}),  # a guarantee is no more than may be held
    ]
    accounts = [QueueAccount(QueueInfo(queue)) for queue in queues]
    rest = without_guarantees(Resource({"cpu": 10_000, "memory": 5}), accounts)
    assert rest == {"cpu": 6000, "memory": 5}
    for each in accounts:
        each.limit(rest, 0)
    assert [each.capability for each in accounts] == [
        {"cpu": 7000, "memory": 5, "gpu": 0},
        {"cpu": 7000, "memory": 5},
        {"cpu": 1000, "memory": 5},
    ]
    assert [accounts[1].has_room({name: 1}) for name in ("cpu", "gpu", "disk")] == [True, False, False]


def test_excessive_guarantees_leave_each_queue_its_own() -> None:
    accounts = [QueueAccount(QueueInfo(make_queue(name, guarantee={"cpu": 3}))) for name in "ab"]
    rest = without_guarantees(Resource({"cpu": 4000}), accounts)
    accounts[0].limit(rest, 0)
    assert accounts[0].capability == {"cpu": 3000}


def test_only_own_capability_counts_without_limit_above() -> None:
    made = QueueAccount(QueueInfo(make_queue("a", capability={"cpu": 2})))
    made.limit(Resource({"memory": 5}), inf)
    assert made.capability == {"cpu": 2000, "memory": 5}
    made.allocated.add({"cpu": 1000})
    asked = [{"cpu": 1000}, {"cpu": 1001}, {"memory": 6}, {"gpu": 99}, {"cpu": 0}]
    assert [made.has_room(request) for request in asked] == [True, False, False, True, True]


def test_job_is_admitted_if_its_minimum_fits_with_rigid_resources() -> None:
    made = account({"cpu": 5000})
    made.limit(Resource({"cpu": 8000, "gpu": 1}), 0)
    assert made.missing_to_admit(job_of(least={"cpu": 3000, "gpu": 1})) == ""
    missing = made.missing_to_admit(job_of(least={"cpu": 3001, "gpu": 2, "disk": 1, "memory": 0}))
    assert missing == (
        "cpu 3001m requested, more than is left of 8; gpu 2 requested, more than is left of 1; "
        "disk 1 requested, more than is left of 0"
    )
    assert made.missing_to_admit(job_of()) == ""
    made.admit(job_of(least={"cpu": 3000}))
    assert made.missing_to_admit(job_of(least={"cpu": 1})) == "cpu 1m requested, more than is left of 8"
    made.elastic.add({"cpu": 1})
    assert made.missing_to_admit(job_of(least={"cpu": 1})) == ""
