"""A job in need of room evicts no more than it takes (Volcano #1255, #4648, #5984, #5994).

What a gang can spare goes task by task; the whole of it only where none has anything to spare, and then for good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from kframework_batch.actions import victim_selection
from kframework_batch.job import TaskInfo
from kframework_batch.objects import Job, Queue
from kframework_batch.scenario import BatchScenario, BatchScenarioResult, make_job
from kframework_batch.session import JobStatement
from kframework_batch.testing import make_queue

from kframework.objects import Node, ObjectMeta, PriorityClass
from kframework.testing import create, make_node

TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
#: As Volcano's Helm chart has it: gangs are not protected, priority alone decides.
HELM = TIERS.replace("{name: gang}", "{name: gang, enablePreemptable: false}").replace(
    "{name: drf}", "{name: drf, enablePreemptable: false}"
)
CLASSES = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in (("low", 1), ("high", 100))]
QUEUES = [make_queue("borrower"), make_queue("owner")]
#: When somebody comes who needs room, and when all is over, in seconds.
ARRIVAL, END = 10.0, 120.0


@dataclass
class Case:
    """Who runs, who comes, and how many of whose pods go; all others are still there in the end."""

    action: str
    nodes: Sequence[Node]
    there: Sequence[Job]
    comes: Job
    evicted: dict[str, int]
    tiers: str = TIERS
    queues: Sequence[Queue] = ()

    def run(self) -> BatchScenarioResult:
        scenario = BatchScenario(
            f"actions: allocate, backfill, {self.action}{self.tiers}",
            nodes=self.nodes,
            queues=self.queues,
            jobs=self.there,
            objects=CLASSES,
        )
        return scenario.at(ARRIVAL, create(self.comes)).run(END)


def low(name: str, size: int, *, minimum: int, cpu: int = 1) -> Job:
    return make_job(name, size, minimum=minimum, cpu=cpu, priority_class="low")


def high(size: int, cpu: int = 1) -> Job:
    return make_job("urgent", size, cpu=cpu, priority_class="high")


def borrowing(name: str, size: int, *, minimum: int, cpu: int = 1) -> Job:
    return make_job(name, size, minimum=minimum, cpu=cpu, queue="borrower")


def owning(size: int, cpu: int = 1) -> Job:
    return make_job("urgent", size, cpu=cpu, queue="owner")


TEN = [make_node("n1", cpu=10)]
TWO_NODES = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
CASES = {
    "preempt: one of what a big gang can spare": Case("preempt", TEN, [low("big", 10, minimum=4)], high(1), {"big": 1}),
    "preempt: three of it": Case("preempt", TEN, [low("big", 10, minimum=4)], high(1, cpu=3), {"big": 3}),
    "preempt: a gang takes as much as it needs": Case("preempt", TEN, [low("big", 10, minimum=4)], high(3), {"big": 3}),
    "preempt: the large one alone is enough": Case(
        "preempt",
        [make_node("n1", cpu=4)],
        # The small one is the first to go.
        [low("large", 1, minimum=0, cpu=3), low("small", 1, minimum=0)],
        high(1, cpu=3),
        {"large": 1},
    ),
    "preempt: who can spare something gives it": Case(
        "preempt", TWO_NODES, [low("tight", 4, minimum=4), low("loose", 4, minimum=2)], high(1), {"loose": 1}
    ),
    "reclaim: one of what a big gang can spare": Case(
        "reclaim", TEN, [borrowing("big", 10, minimum=4)], owning(1), {"big": 1}, queues=QUEUES
    ),
    "reclaim: a gang takes as much as it needs": Case(
        "reclaim", TEN, [borrowing("big", 10, minimum=4)], owning(5), {"big": 5}, queues=QUEUES
    ),
    "reclaim: who can spare something gives it": Case(
        "reclaim",
        TWO_NODES,
        [borrowing("tight", 4, minimum=4), borrowing("loose", 4, minimum=2)],
        owning(1),
        {"loose": 1},
        queues=QUEUES,
    ),
}
WHOLE = {
    "preempt: the only gang": Case("preempt", TWO_NODES, [low("tight", 8, minimum=8)], high(1), {"tight": 8}, HELM),
    "preempt: a gang for a gang": Case("preempt", TWO_NODES, [low("tight", 8, minimum=8)], high(8), {"tight": 8}, HELM),
    "reclaim: the only gang": Case(
        "reclaim", TWO_NODES, [borrowing("tight", 8, minimum=8)], owning(4), {"tight": 8}, queues=QUEUES
    ),
}


def evicted(record: BatchScenarioResult, case: Case) -> dict[str, int]:
    counts = {job.metadata.name: len(record.victims(job.metadata.name)) for job in (*case.there, case.comes)}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("case", [*CASES.values(), *WHOLE.values()], ids=[*CASES, *WHOLE])
def test_no_more_pods_are_evicted_than_needed(case: Case) -> None:
    record = case.run()
    assert evicted(record, case) == case.evicted
    assert record.running("urgent") == case.comes.spec.tasks[0].replicas


def all_of_them(
    statement: JobStatement, candidates: Sequence[TaskInfo], enough: Callable[[], bool], reason: str
) -> list[TaskInfo] | None:
    """The naive rule: every pod that may be evicted is."""
    return list(candidates)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_more_pods_are_evicted_without_counting_idle_room(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_selection, "minimal_victims", all_of_them)
    monkeypatch.setattr(victim_selection.VictimSelection, "_unneeded_victims", lambda self, statement: [])
    record = case.run()
    assert sum(evicted(record, case).values()) > sum(case.evicted.values())


def test_jobs_of_one_queue_do_not_preempt_each_other_in_turn() -> None:
    """By their shares one of them would always be named: the larger gang, or after it has gone the smaller one."""
    scenario = BatchScenario(
        f"actions: allocate, backfill, preempt{TIERS}",
        nodes=TWO_NODES,
        objects=CLASSES,
        jobs=[low("tight", 8, minimum=8)],
    )
    record = scenario.at(ARRIVAL, create(high(8)), create(low("late", 2, minimum=1))).run(600.0)
    assert len(record.evicted) <= 8
    assert record.running("tight") + record.running("urgent") == 8


def test_victim_is_not_served_before_its_preemptor() -> None:
    """Priority comes first when room is given, so shares must not take from the more important."""
    jobs = [make_job("important", 6, minimum=4, priority_class="high")]
    scenario = BatchScenario(
        f"actions: allocate, backfill, preempt{TIERS}", nodes=[make_node("n1", cpu=6)], objects=CLASSES, jobs=jobs
    )
    record = scenario.at(ARRIVAL, create(low("late", 2, minimum=2))).run(600.0)
    assert record.evicted == []
    assert record.running("important") == 6
