"""Queues do not take the same room from each other in turn (Volcano #377, #561, #3729, #4947, #4949).

The job controller recreates each victim, which requests room again at once. So if reclaim is judged by the queues'
shares before it, but not by those after it, it never ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from kframework_batch.actions.victim_selection import VictimSelection
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import hookimpl
from kframework_batch.plugins.capacity import Capacity
from kframework_batch.plugins.proportion import Proportion
from kframework_batch.queue import QueueAccount, QueueInfo
from kframework_batch.scenario import BatchScenario, BatchScenarioResult, make_job
from kframework_batch.session_view import SessionView
from kframework_batch.testing import make_queue

from kframework.objects import Node, RawQuantity
from kframework.testing import create, make_node

CONFIG = """
actions: "allocate, backfill, reclaim"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: {fair}}}, {{name: nodeorder}}]
"""


class OldProportion(Proportion):
    """The naive rule: who has less than its due takes, who has more gives, whatever comes of it."""

    name = "proportion"

    @hookimpl
    def allocatable(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return queue.is_open

    @hookimpl
    def preemptive(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return queue.is_open and not self._accounts[queue.name].is_overused

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return [task for task in tasks if _has_more_than_due(self._accounts[task.job.queue])]


class OldCapacity(Capacity):
    """The same."""

    name = "capacity"

    @hookimpl
    def preemptive(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        return queue.is_open and not self._chains[queue.name][-1].is_overused

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return [task for task in tasks if _has_more_than_due(self._chains[task.job.queue][-1])]


def _has_more_than_due(account: QueueAccount) -> bool:
    return any(account.allocated.get(name, 0) > due for name, due in account.deserved.items())


OLD = {"proportion": OldProportion, "capacity": OldCapacity}


@dataclass
class Case:
    """Queues to which the same is due, and which want more than that, one after the other.

    `jobs` says by queue how many there are and what each of their pods asks for; `least` how many pods each queue has
    in the end, since that many are due to it; `evicted` is how many have to go for that.
    """

    nodes: Sequence[Node]
    due: Mapping[str, RawQuantity]
    jobs: Mapping[str, tuple[int, Mapping[str, RawQuantity]]]
    least: Mapping[str, int]
    evicted: int
    replicas: int = 1
    minimum: int = 1
    naive_ends: bool = False

    def run(self, fair: str, classes: Sequence[type], until: float) -> BatchScenarioResult:
        queues = [make_queue(name, deserved=self.due) for name in self.jobs]
        scenario = BatchScenario(CONFIG.format(fair=fair), nodes=self.nodes, queues=queues, classes=classes)
        for number, (queue, (count, asks)) in enumerate(self.jobs.items()):
            for name in self.names(queue, count):
                job = make_job(name, self.replicas, minimum=self.minimum, queue=queue, cpu=None, requests=asks)
                scenario.at(number * 20.0, create(job))
        return scenario.run(until)

    def held(self, record: BatchScenarioResult) -> dict[str, int]:
        """Count the pods of each queue in the end."""
        return {
            queue: sum(record.running(name) for name in self.names(queue, count))
            for queue, (count, _) in self.jobs.items()
        }

    def names(self, queue: str, count: int) -> list[str]:
        return [f"{queue}{number}" for number in range(count)]


CASES = {
    "no whole number of pods is due": Case(
        nodes=[make_node("n1", cpu=3)],
        due={"cpu": "1500m"},
        jobs={"a": (3, {"cpu": 1}), "b": (3, {"cpu": 1})},
        least={"a": 1, "b": 1},
        evicted=1,
    ),
    "pods of two on an odd node": Case(
        nodes=[make_node("n1", cpu=11)],
        due={"cpu": 5},
        jobs={"a": (5, {"cpu": 2}), "b": (5, {"cpu": 2})},
        least={"a": 2, "b": 2},
        evicted=2,
    ),
    "three queues of different pods": Case(
        nodes=[make_node(f"n{number}", cpu=4) for number in range(4)],
        due={"cpu": "5333m"},
        jobs={"a": (16, {"cpu": 1}), "b": (8, {"cpu": 1}), "c": (4, {"cpu": 2})},
        least={"a": 5, "b": 5, "c": 2},
        evicted=12,
    ),
    "one wants processors and the other memory": Case(
        nodes=[make_node("n1", cpu=8, memory="8Gi"), make_node("n2", cpu=8, memory="8Gi")],
        due={"cpu": 7, "memory": "7Gi"},
        jobs={"a": (8, {"cpu": 2, "memory": "1Gi"}), "b": (8, {"cpu": 1, "memory": "2Gi"})},
        least={"a": 3, "b": 3},
        evicted=4,
    ),
    # What gangs can spare the tier of `gang` names alone: nobody asks whether its queue can.
    "gangs that can spare some": Case(
        nodes=[make_node("n1", cpu=7), make_node("n2", cpu=4)],
        due={"cpu": "3666m"},
        jobs={"a": (4, {"cpu": 1}), "b": (3, {"cpu": 1}), "c": (3, {"cpu": 1})},
        least={"a": 2, "b": 2, "c": 2},
        evicted=7,
        replicas=4,
        minimum=2,
        naive_ends=True,
    ),
}
ENDLESS = {name: case for name, case in CASES.items() if not case.naive_ends}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.parametrize("fair", OLD)
def test_nothing_is_evicted_once_queues_have_what_they_deserve(fair: str, case: Case) -> None:
    record = case.run(fair, [], until=600.0)
    held = case.held(record)
    assert all(held[queue] >= count for queue, count in case.least.items()), held
    assert 0 < len(record.evicted) <= case.evicted
    assert max(when for when, _, _ in record.evicted) < 60.0


@pytest.mark.long
@pytest.mark.parametrize("case", ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("fair", OLD)
def test_queues_reclaim_from_each_other_endlessly_when_compared_before_eviction(
    fair: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VictimSelection, "_would_be_undone", lambda self, *what: False)
    record = case.run(fair, [OLD[fair]], until=120.0)
    assert len(record.evicted) > 5 * case.evicted
    assert max(when for when, _, _ in record.evicted) > 115.0


@pytest.mark.parametrize("case", ENDLESS.values(), ids=list(ENDLESS))
@pytest.mark.parametrize("fair", OLD)
def test_victim_that_would_be_served_before_its_preemptor_is_never_evicted(fair: str, case: Case) -> None:
    """Plugins of others may judge as they like: the action looks at the order of queues for itself."""
    record = case.run(fair, [OLD[fair]], until=120.0)
    assert all(when < 60.0 for when, _, _ in record.evicted)
