"""Residents: who is on a node and may be a victim."""

from __future__ import annotations

from collections.abc import Iterator

from kframework_batch.action import Action
from kframework_batch.actions.victim_selection import EvictableTasks
from kframework_batch.session import Session
from kframework_batch.testing import Stage, make_gang, make_node, make_task

from kframework.testing import make_pod


class Ask(Action):
    """Notes who may be a victim on a node, before and after one of them has become one."""

    name = "ask"
    before: list[str]
    after: list[str]

    def run(self, session: Session) -> Iterator[None]:
        residents = yield from EvictableTasks.from_session(session)
        Ask.before = [task.name for task in residents.on_node("n1")]
        with session.statement() as statement:
            statement.evict(residents.on_node("n1")[0], "test")
            Ask.after = [task.name for task in residents.on_node("n1")]


def test_preemptable_tasks_on_existing_nodes_are_evictable() -> None:
    group, _ = make_gang("a", 0, phase="Running")
    pods = [
        make_task("one", "a", node="n1"),
        make_task("two", "a", node="n1"),
        make_task("elsewhere", "a", node="n2"),
        make_task("pending", "a"),
        make_task("guarded", "a", node="n1", annotations={"volcano.sh/preemptable": "false"}),
        make_task("going", "a", node="n1", deletion_timestamp="2026-01-01T00:00:00Z"),
        make_task("orphan", "unknown", node="n1"),
    ]
    nodes = [make_node("n1", cpu=16), make_node("n2")]
    Stage(
        "actions: ask\ntiers: []\n",
        nodes=nodes,
        gangs=[(group, pods)],
        objects=[make_pod("alien", node_name="n1")],
        classes=[Ask],
    ).session()
    assert (Ask.before, Ask.after) == (["one", "two"], ["two"])
