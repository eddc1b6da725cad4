"""overcommit: how many jobs may wait for room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from kframework_batch.job import JobInfo
from kframework_batch.plugin import Vote
from kframework_batch.plugins.overcommit import Overcommit, OvercommitArguments
from kframework_batch.resource import Resource
from kframework_batch.session import Session


def job_of(phase: str, least: dict[str, int] | None, held: dict[str, int] | None = None) -> JobInfo:
    job = JobInfo("default", f"{phase}/{least}")
    job.phase, job.min_resources = phase, None if least is None else Resource(least)
    job.allocated.add(held or {})
    return job


def session_of(*jobs: JobInfo, cpu: int = 10, used: int = 0) -> Session:
    total, taken = Resource({"cpu": cpu}), Resource({"cpu": used})
    return cast("Session", SimpleNamespace(jobs={job.uid: job for job in jobs}, total=total, used=taken))


def opened(session: Session, factor: float = 1.2) -> Overcommit:
    plugin = Overcommit(OvercommitArguments(factor=factor))
    list(plugin.on_session_open(session))
    return plugin


@pytest.mark.parametrize(
    ("least", "vote"),
    [
        ({"cpu": 7}, Vote.PERMIT),  # 10 x 1.2 - 5
        ({"cpu": 8}, Vote.REJECT),
        ({"cpu": 1, "nvidia.com/gpu": 1}, Vote.REJECT),  # no node has any
        ({"cpu": 1, "nvidia.com/gpu": 0}, Vote.PERMIT),
        (None, Vote.PERMIT),
        ({}, Vote.PERMIT),
    ],
)
def test_job_is_enqueued_if_its_minimum_fits_the_overcommitted_cluster(
    least: dict[str, int] | None, vote: Vote
) -> None:
    session, job = session_of(used=5), job_of("Pending", least)
    assert opened(session).job_enqueueable(session, job) is vote


def test_job_message_has_requests_and_capacity() -> None:
    session, job = session_of(cpu=10_000), job_of("Pending", {"cpu": 13_000, "gpu": 1})
    opened(session).job_enqueueable(session, job)
    assert job.message == (
        "the cluster has no room for its minimum: "
        "cpu 13 requested, more than is left of 12 (overcommit-factor 1.2 times 10, rounded down); "
        "gpu 1 requested, more than is left of 0 (overcommit-factor 1.2 times 0, rounded down); "
        "a smaller minimum, more nodes or a larger overcommit-factor would help"
    )


def test_job_message_stays_the_same_while_the_usage_varies() -> None:
    messages = set()
    for used in (5, 6):
        session, job = session_of(used=used), job_of("Pending", {"cpu": 8})
        opened(session).job_enqueueable(session, job)
        messages.add(job.message)
    assert len(messages) == 1


def test_full_cluster_admits_jobs_that_request_other_resources() -> None:
    session = session_of(used=20)
    assert opened(session).job_enqueueable(session, job_of("Pending", {"cpu": 0})) is Vote.PERMIT


def test_inqueue_job_counts_with_what_it_does_not_hold_yet() -> None:
    session = session_of(job_of("Inqueue", {"cpu": 6}, {"cpu": 2}), job_of("Pending", {"cpu": 9}), used=2)
    plugin = opened(session)  # 12 - 2 - 4
    assert plugin.job_enqueueable(session, job_of("Pending", {"cpu": 7})) is Vote.REJECT
    assert plugin.job_enqueueable(session, job_of("Pending", {"cpu": 6})) is Vote.PERMIT


def test_each_enqueued_job_reduces_the_remaining_room() -> None:
    session, job = session_of(), job_of("Pending", {"cpu": 5})
    plugin = opened(session)
    plugin.job_enqueued(session, job)
    plugin.job_enqueued(session, job)
    assert plugin.job_enqueueable(session, job) is Vote.REJECT
    list(plugin.on_session_open(session))
    assert plugin.job_enqueueable(session, job) is Vote.PERMIT


def test_empty_cluster_admits_only_jobs_without_minimum() -> None:
    session = session_of(cpu=0)
    plugin = opened(session)
    assert plugin.job_enqueueable(session, job_of("Pending", {"cpu": 1})) is Vote.REJECT
    assert plugin.job_enqueueable(session, job_of("Pending", None)) is Vote.PERMIT


@pytest.mark.parametrize(("given", "factor"), [(1.5, 1.5), ("2", 2.0), (0.5, 1.2), (1, 1.0)])
def test_factor_has_the_name_of_volcano(given: object, factor: float) -> None:
    assert OvercommitArguments.model_validate({"overcommit-factor": given}).factor == factor
    assert OvercommitArguments.model_validate({}).factor == 1.2
