"""enqueue: who is let in, and in which order they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from kframework_batch.hookspecs import Key
from kframework_batch.job import JobInfo
from kframework_batch.plugin import BatchPlugin, Vote, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_group, make_queue

CONFIGURATION = """
actions: enqueue
tiers:
- plugins:
  - name: priority
  - name: door
"""


class Door(BatchPlugin):
    """Lets in who is not called `no...`; the queue goes first that has let in the fewest."""

    name = "door"
    asked: ClassVar[list[str]] = []
    let_in: ClassVar[list[str]] = []

    @hookimpl
    def queue_order(self, session: Session, queue: QueueInfo) -> Key:
        return sum(session.jobs[f"default/{name}"].queue == queue.name for name in Door.let_in)

    @hookimpl
    def job_enqueueable(self, session: Session, job: JobInfo) -> Vote:
        Door.asked.append(job.name)
        return Vote.REJECT if job.name.startswith("no") else Vote.PERMIT

    @hookimpl
    def job_enqueued(self, session: Session, job: JobInfo) -> None:
        Door.let_in.append(job.name)


@pytest.fixture(autouse=True)
def _empty_book() -> Iterator[None]:
    Door.asked.clear()
    Door.let_in.clear()
    yield


def test_job_is_enqueued_when_plugins_permit() -> None:
    stage = Stage(CONFIGURATION, gangs=[(make_group("a", phase="Pending", resources={"cpu": 1}), [])], classes=[Door])
    stage.session()
    assert stage.phase("a") == "Inqueue"
    assert Door.let_in == ["a"]


def test_job_without_minimum_resources_is_enqueued_without_vote() -> None:
    stage = Stage(CONFIGURATION, gangs=[(make_group("no", phase="Pending"), [])], classes=[Door]).session()
    assert stage.phase("no") == "Inqueue"
    assert (Door.asked, Door.let_in) == ([], ["no"])


def test_rejected_job_blocks_no_other_and_is_voted_on_again() -> None:
    groups = [
        make_group("no", phase="Pending", resources={"cpu": 1}, age=9),
        make_group("yes", phase="Pending", resources={"cpu": 1}),
    ]
    stage = Stage(CONFIGURATION, gangs=[(group, []) for group in groups], classes=[Door]).session(2)
    assert Door.asked == ["no", "yes", "no"]
    assert (stage.phase("no"), stage.phase("yes")) == ("Pending", "Inqueue")


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_only_pending_jobs_are_voted_on(phase: str) -> None:
    Stage(CONFIGURATION, gangs=[make_gang("a", 1, phase=phase, resources={"cpu": 1})], classes=[Door]).session()
    assert Door.asked == []


def test_queues_are_reordered_after_each_enqueued_job() -> None:
    ages = {"a1": 4, "a2": 3, "a3": 2, "b1": 1}
    groups = [make_group(name, queue=name[0], phase="", age=age) for name, age in ages.items()]
    queues = [make_queue("a"), make_queue("b")]
    Stage(CONFIGURATION, queues=queues, gangs=[(group, []) for group in groups], classes=[Door]).session()
    assert Door.let_in == ["a1", "b1", "a2", "a3"]
