"""Scenarios: what is to happen happens when it is to, and the record says what came of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kframework_batch.action import Action
from kframework_batch.scenario import BatchScenario, BatchScenarioResult, make_job
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.testing import create, make_node

EVICTING = "actions: allocate, sendaway\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"


class SendAway(Action):
    """Send everybody of the job `old` away, once they run."""

    name = "sendaway"

    def run(self, session: Session) -> Iterator[None]:
        for job in session.jobs.values():
            with session.statement() as statement:
                for task in list(job.with_status(TaskStatus.RUNNING).values()):
                    if task.name.startswith("old-"):
                        statement.evict(task, "age")
                    yield
                statement.commit()


def test_jobs_arrive_on_time_and_run_as_long_as_given() -> None:
    scenario = BatchScenario(nodes=[make_node("n1", cpu=4)], jobs=[make_job("train", 4, cpu=1, seconds=60.0)])
    record = scenario.at(10.0, create(make_job("late", 1))).run(120.0)
    assert record.bound["train-worker-0"] == [1.0]
    assert record.bound["late-worker-0"] == [62.0]
    assert [record.running("train", at) for at in (0.5, 2.0, 60.5, 62.0)] == [0, 4, 4, 0]
    assert (record.running("train"), record.running("late")) == (0, 1)
    assert {stay.node for stay in record.pod_runs} == {"n1"}
    assert record.phase("late") == "Running"
    assert not record.evicted


def test_message_of_a_pending_pod_is_available() -> None:
    scenario = BatchScenario(
        EVICTING, nodes=[make_node("n1", cpu=1)], jobs=[make_job("big", 1, cpu=2)], classes=[SendAway]
    )
    assert "1 Insufficient cpu" in scenario.run(5.0).message("big-worker-0")


def test_evictions_are_distinguished_from_deletions() -> None:
    def lose_one(cluster: MemoryCluster) -> None:
        cluster.remove(Pod, "new-worker-0", grace=0)

    jobs = [make_job("old", 2, grace=3), make_job("new", 2)]
    scenario = BatchScenario(EVICTING, nodes=[make_node("n1")], jobs=jobs, classes=[SendAway])
    record = scenario.at(4.0, lose_one).run(5.5)
    assert [(pod, why) for _, pod, why in record.evicted] == [("old-worker-0", "age"), ("old-worker-1", "age")]
    assert record.victims("old") == [2.0, 2.0]
    assert record.victims("old", since=3.0) == record.victims("new") == []
    assert len(record.bound["new-worker-0"]) == 2
    assert [record.running("old", at) for at in (4.5, 5.1)] == [2, 0]


async def _nothing(cluster: MemoryCluster) -> None:
    """Do nothing, and be waited for."""


@pytest.mark.parametrize("seed", [0, 1])
def test_scenario_is_deterministic(seed: int) -> None:
    def run() -> BatchScenarioResult:
        nodes = [make_node(f"n{number}", cpu=2) for number in range(3)]
        scenario = BatchScenario(nodes=nodes, queues=[make_queue("q")], jobs=[make_job("job", 4, queue="q")], seed=seed)
        return scenario.at(1.0, _nothing).run(9.0)

    assert run().pod_runs == run().pod_runs
