"""What preempt and reclaim do alike, where it takes both to see it; the rest is in the tests of the two."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task

from kframework.values.status import Status, unschedulable

CONFIGURATION = """
actions: reclaim
tiers:
- plugins:
  - name: gang
- plugins:
  - name: generous
  - name: predicates
  - name: nodeorder
"""


class Generous(BatchPlugin):
    """Allows every victim, and keeps all tasks off the node `closed`."""

    name = "generous"

    @hookimpl
    def reclaimable(self, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return tasks

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> Status | None:
        return unschedulable("closed") if task.node_name == "closed" and task.job.name == "mine" else None


def staged(*gangs: Gang, nodes: dict[str, int]) -> Stage:
    """Run a session on nodes with these CPUs."""
    return Stage(
        CONFIGURATION,
        nodes=[make_node(name, cpu=cpu) for name, cpu in nodes.items()],
        queues=[make_queue("mine"), make_queue("yours")],
        gangs=gangs,
        classes=[Generous],
    ).session()


def mine(*cpus: int) -> Gang:
    """Make a pending gang of tasks with these CPU requests, in this order."""
    pods = [
        make_task(f"mine-{n}", "mine", cpu=cpu, annotations={"volcano.sh/task-index": f"{n}"})
        for n, cpu in enumerate(cpus)
    ]
    return make_group("mine", minimum=len(cpus), queue="mine"), pods


def yours(name: str, cpu: int, *nodes: str, age: float = 0.0) -> Gang:
    """Make a gang that runs on these nodes."""
    return make_gang(name, len(nodes), cpu=cpu, on=nodes, queue="yours", age=age)


def test_broken_gang_is_evicted_as_a_whole() -> None:
    stage = staged(yours("pair", 1, "n1", "n2"), mine(2), nodes={"n1": 2, "n2": 1})
    assert sorted(stage.evicted) == ["pair-0", "pair-1"]


@pytest.mark.parametrize(("cpus", "evicted"), [((1,), ["pair-0", "pair-1"]), ((1, 3), ["single-0"])])
def test_gang_is_restored_as_a_whole(cpus: tuple[int, ...], evicted: list[str]) -> None:
    # The pair is the first to go, and enough for one CPU; what the three take of the single one is enough for all.
    gangs = [yours("pair", 1, "n1", "n2"), yours("single", 4, "n1", age=9)]
    assert sorted(staged(*gangs, mine(*cpus), nodes={"n1": 5, "n2": 1}).evicted) == evicted


def test_next_node_is_tried_when_plugin_rejects() -> None:
    # Of the two the closed one is the better: less of it is taken.
    gangs = [yours("one", 1, "closed"), yours("two", 3, "n2")]
    assert sorted(staged(*gangs, mine(1), nodes={"closed": 1, "n2": 3}).evicted) == ["two-0"]


def test_task_without_victims_does_not_stop_other_tasks_from_preempting() -> None:
    # For a task like those of `large` there is room on n1 alone, which is why only the smaller gang can be helped.
    gangs = [yours("one", 2, "n1"), yours("two", 1, "n2"), make_gang("large", 2, cpu=2, queue="mine", age=9)]
    stage = staged(*gangs, make_gang("small", 1, cpu=2, queue="mine"), nodes={"n1": 2, "n2": 1})
    assert sorted(stage.evicted) == ["one-0"]


def test_failed_search_is_not_repeated_for_equal_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reclaimable(self: Generous, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        asked.append(reclaimer.job.name)
        return []

    monkeypatch.setattr(Generous, "reclaimable", hookimpl(reclaimable))
    waiting = [make_gang(name, 3, cpu=1, queue="mine", age=age) for name, age in (("first", 9), ("second", 5))]
    other = make_gang("other", 1, cpu=2, queue="mine")
    staged(yours("one", 1, "n1"), *waiting, other, nodes={"n1": 1, "n2": 0})
    assert asked == ["first", "other"]


def test_search_is_repeated_after_an_eviction(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reclaimable(
        self: Generous, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo]:
        asked.append(reclaimer.job.name)
        return tasks if reclaimer.job.name == "lucky" else []

    monkeypatch.setattr(Generous, "reclaimable", hookimpl(reclaimable))
    ages = {"first": 9, "again": 7, "lucky": 5, "second": 3}
    waiting = [make_gang(name, 1, cpu=1 if name == "lucky" else 3, queue="mine", age=age) for name, age in ages.items()]
    staged(yours("one", 2, "n1"), yours("two", 2, "n1"), *waiting, nodes={"n1": 4})
    assert list(dict.fromkeys(asked)) == ["first", "lucky", "second"]
