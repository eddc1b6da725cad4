"""What surprises users of Volcano, beside the three traps that have files of their own, does not happen here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import pytest
from kframework_batch import combination
from kframework_batch.actions.victim_selection import VictimSelection
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.scenario import BatchScenario, BatchScenarioResult, make_job
from kframework_batch.session import Session
from kframework_batch.testing import make_queue

from kframework.objects import ObjectMeta, PriorityClass
from kframework.testing import create, make_node

TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
RECLAIM = f"actions: allocate, backfill, reclaim{TIERS}"
QUEUES = [make_queue("borrower"), make_queue("owner")]


def one_for_three() -> BatchScenarioResult:
    """One victim leaves room for all three tasks of a gang."""
    there = [make_job(f"large{number}", 1, cpu=3, queue="borrower") for number in (1, 2)]
    scenario = BatchScenario(RECLAIM, nodes=[make_node("n1", cpu=6)], queues=QUEUES, jobs=there)
    return scenario.at(10.0, create(make_job("gang", 3, queue="owner"))).run(60.0)


def test_reclaim_counts_idle_room() -> None:
    """#5520: a node was skipped if it had room but no victims left."""
    record = one_for_three()
    assert len(record.evicted) == 1
    assert record.running("gang") == 3


def test_gang_is_never_served_without_counting_idle_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VictimSelection, "pipeline_without_victims", lambda self, statement, task: False)
    record = one_for_three()
    assert record.evicted == []
    assert record.running("gang") == 0


def port_in_use() -> BatchScenarioResult:
    """Any of four leaves room enough, but only one of them, the last to go, leaves the port."""
    there = [
        make_job("web", 1, minimum=0, queue="borrower", host_ports=[80]),
        *(make_job(f"filler{number}", 1, minimum=0, queue="borrower") for number in range(3)),
    ]
    scenario = BatchScenario(RECLAIM, nodes=[make_node("n1", cpu=4)], queues=QUEUES)
    for second, job in enumerate(there):
        scenario.at(2.0 * second, create(job))
    return scenario.at(20.0, create(make_job("other", 1, queue="owner", host_ports=[80]))).run(60.0)


def test_reclaim_respects_predicates_of_the_node() -> None:
    """#4926: it stopped as soon as there was enough by amounts, and the task could still not go there."""
    record = port_in_use()
    assert [pod for _, pod, _ in record.evicted] == ["web-worker-0"]
    assert record.running("other") == 1


def test_wrong_pod_is_evicted_by_amounts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        VictimSelection,
        "_fits",
        lambda self, task, row: self._session.idle.fits_future(task, row) and self._is_allocatable(task),
    )
    record = port_in_use()
    assert record.evicted
    assert record.victims("web") == []
    assert record.running("other") == 0


@pytest.mark.parametrize("actions", ["allocate, backfill", "enqueue, allocate, backfill"])
def test_small_jobs_are_not_blocked_by_a_large_one_before_them(actions: str) -> None:
    """#1294: a job without room lets others pass."""
    scenario = BatchScenario(f"actions: {actions}{TIERS}", nodes=[make_node("n1", cpu=4)], jobs=[make_job("big", 8)])
    record = scenario.at(10.0, create(make_job("small", 3))).run(30.0)
    assert (record.running("big"), record.running("small")) == (0, 3)
    assert record.bound["small-worker-0"][0] < 14.0


class All(BatchPlugin):
    """Names everybody; those derived from it the pods of one job."""

    name = "all"
    begin: ClassVar[str] = ""

    @hookimpl
    def preemptable(self, session: Session, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return [task for task in tasks if task.name.startswith(self.begin)]


class Ones(All):
    name = "ones"
    begin = "one-"


class Twos(All):
    name = "twos"
    begin = "two-"


def disagreement() -> BatchScenarioResult:
    tiers = """
tiers:
- plugins: [{name: priority, enablePreemptable: false}, {name: gang, enablePreemptable: false}]
- plugins: [{name: ones}, {name: twos}, {name: all}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
    scenario = BatchScenario(
        f"actions: allocate, backfill, preempt{tiers}",
        nodes=[make_node("n1", cpu=2)],
        objects=[PriorityClass(metadata=ObjectMeta(name="high"), value=100)],
        jobs=[make_job("one", 1), make_job("two", 1)],
        classes=[Ones, Twos, All],
    )
    return scenario.at(10.0, create(make_job("urgent", 1, priority_class="high"))).run(60.0)


def test_tier_without_common_victims_names_none() -> None:
    record = disagreement()
    assert record.evicted == []
    assert (record.running("one"), record.running("two"), record.running("urgent")) == (1, 1, 0)


def begun_afresh(
    tasks: Sequence[TaskInfo], answers: Iterable[tuple[str, Sequence[TaskInfo] | None]]
) -> tuple[list[TaskInfo], list[tuple[str, list[TaskInfo]]]]:
    """As Volcano does it: a plugin called when no victims are left names victims as if it were the first."""
    victims: list[TaskInfo] = []
    for _, named in answers:
        if named is not None:
            uids = {task.uid for task in named}
            victims = [task for task in victims or tasks if task.uid in uids]
    return victims, []


def test_victim_not_named_by_all_plugins_is_evicted_in_volcano(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combination, "_intersect", begun_afresh)
    record = disagreement()
    assert len(record.evicted) == 1
    assert record.running("urgent") == 1
