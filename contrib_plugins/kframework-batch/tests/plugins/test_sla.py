"""sla: deadlines, by the session's time."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import cast

import pytest
from kframework_batch.config import parse
from kframework_batch.job import JobInfo
from kframework_batch.plugin import Vote
from kframework_batch.plugins.sla import Sla, SlaArguments
from kframework_batch.program import compile_program
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_node

from kframework.clock import VIRTUAL_EPOCH, rfc3339
from kframework.errors import ConfigError

NOW = VIRTUAL_EPOCH


def job(name: str = "a", *, age: float, phase: str = "Inqueue", minimum: int = 1, **annotations: str) -> JobInfo:
    made = JobInfo("default", name)
    made.created, made.phase, made.min_available = rfc3339(NOW - age), phase, minimum
    made.annotations = {key.replace("_", "-"): value for key, value in annotations.items()}
    return made


def session(*jobs: JobInfo) -> Session:
    return cast("Session", SimpleNamespace(now=NOW, jobs={each.uid: each for each in jobs}))


def plugin(waiting_time: str | None = None) -> Sla:
    return Sla(SlaArguments.model_validate({} if waiting_time is None else {"sla-waiting-time": waiting_time}))


@pytest.mark.parametrize(
    ("waiting_time", "made", "deadline"),
    [
        pytest.param("1m", job(age=10), NOW + 50, id="of all jobs"),
        pytest.param("1m", job(age=100), NOW - 40, id="it has passed"),
        pytest.param(None, job(age=10), inf, id="none"),
        pytest.param("0s", job(age=10), inf, id="a time of nothing is none"),
        pytest.param("-1m", job(age=10), inf, id="a time below nothing is none"),
        pytest.param("1m", job(age=10, sla_waiting_time="20s"), NOW + 10, id="the job's own"),
        pytest.param(None, job(age=10, sla_waiting_time="1h2m3s4ms"), NOW + 3713.004, id="without one of all jobs"),
        pytest.param("1m", job(age=10, sla_waiting_time="soon"), NOW + 50, id="what cannot be read is not said"),
    ],
)
def test_deadline_follows_creation_by_the_waiting_time(
    waiting_time: str | None, made: JobInfo, deadline: float
) -> None:
    assert plugin(waiting_time).job_order(session(made), made) == pytest.approx(deadline, abs=1e-6)


def test_prefixed_annotation_takes_precedence() -> None:
    made = job(age=0)
    made.annotations = {"sla-waiting-time": "1m", "volcano.sh/sla-waiting-time": "2m"}
    assert plugin().job_order(session(made), made) == NOW + 120


@pytest.mark.parametrize(("age", "vote"), [(59, Vote.ABSTAIN), (60, Vote.PERMIT), (61, Vote.PERMIT)])
def test_overdue_job_is_permitted(age: float, vote: Vote) -> None:
    made = job(age=age)
    asked = plugin("1m")
    assert asked.job_enqueueable(session(made), made) is vote
    assert asked.job_pipelined(session(made), made) is vote


@pytest.mark.parametrize(
    ("jobs", "wakes"),
    [
        pytest.param([], None, id="no jobs"),
        pytest.param([job("a", age=10), job("b", age=20)], NOW + 40, id="the earliest"),
        pytest.param([job("a", age=10), job("b", age=99)], NOW + 50, id="not one that has passed"),
        pytest.param([job(age=10, minimum=0)], None, id="a job that is ready waits for nothing"),
        pytest.param([job(age=10, minimum=0, phase="Pending")], NOW + 50, id="one that was not let in does"),
    ],
)
def test_next_session_is_at_the_next_deadline(jobs: list[JobInfo], wakes: float | None) -> None:
    assert plugin("1m").wakes_at(session(*jobs)) == wakes


def test_invalid_waiting_time_is_rejected_with_its_location() -> None:
    text = "actions: enqueue\ntiers:\n- plugins:\n  - name: sla\n    arguments:\n      sla-waiting-time: soon\n"
    with pytest.raises(ConfigError, match=r"sla-waiting-time.*soon"):
        compile_program(parse(text))


def test_overdue_job_is_enqueued_and_goes_first() -> None:
    configuration = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: sla
    arguments: {sla-waiting-time: 30s}
  - name: gang
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.0}
  - name: predicates
"""
    old = make_gang("old", 2, age=29, phase="Pending", resources={"cpu": 8})
    stage = Stage(configuration, nodes=[make_node("n1", cpu=4)], gangs=[old])
    stage.time -= 1
    assert stage.session().phase("old") == "Pending"
    assert stage.session().phase("old") == "Inqueue"
