"""shuffle: whom plugins name goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_node

CONFIGURATION = "actions: shuffle\ntiers:\n- plugins:\n  - name: picky\n"


class Picky(BatchPlugin):
    """Names the tasks that end in 1."""

    name = "picky"
    asked: ClassVar[list[str]] = []

    @hookimpl
    def victim_tasks(self, session: Session, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        Picky.asked[:] = [task.name for task in tasks]
        return [task for task in tasks if task.name.endswith("1")]


def test_named_running_tasks_are_evicted() -> None:
    gangs = [make_gang("a", 3, minimum=1, on=["n1", "n1"]), make_gang("b", 2, on=["n1", "n1"])]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=gangs, classes=[Picky]).session()
    assert Picky.asked == ["a-0", "a-1", "b-0", "b-1"]
    assert stage.evicted == {"a-1": "shuffle", "b-1": "shuffle"}


def test_nothing_is_evicted_without_victim_tasks_plugin() -> None:
    stage = Stage(
        "actions: shuffle\ntiers: []\n", nodes=[make_node("n1")], gangs=[make_gang("a", 1, on=["n1"])]
    ).session()
    assert stage.evicted == {}
