"""Gangs that lost a member while they were bound, whatever else befalls them: they are completed, or they go."""

from __future__ import annotations

from kframework_batch.objects import PodGroup, Queue
from kframework_batch.testing import Stage, make_gang, make_node, make_queue

from kframework.objects import Node


def broken() -> Stage:
    """Let a gang of two have but one member that is bound."""
    nodes = [make_node("n1", cpu=1), make_node("n2", cpu=1)]
    stage = Stage(nodes=nodes, queues=[make_queue("q")], gangs=[make_gang("a", 2, queue="q")], gang_timeout=30.0)
    stage.unbindable["a-1"] = "no"
    stage.session()
    assert set(stage.bound) == {"a-0"}
    return stage


def after_a_while(stage: Stage) -> set[str]:
    """Let time pass and return who is evicted then."""
    stage.session()
    assert not stage.evicted
    stage.time += 30.0
    stage.session()
    return set(stage.evicted)


def test_broken_gang_of_deleted_queue_is_evicted() -> None:
    stage = broken()
    stage.delete("q", Queue)
    assert after_a_while(stage) == {"a-0"}
    assert stage.session().engine._broken_gangs.deadline is None


def test_broken_gang_on_deleted_node_is_evicted() -> None:
    stage = broken()
    stage.delete(stage.bound["a-0"], Node)
    assert after_a_while(stage) == {"a-0"}


def test_broken_gang_without_pod_group_is_not_evicted() -> None:
    stage = broken()
    stage.delete("a", PodGroup)
    assert after_a_while(stage) == set()
    assert stage.engine._broken_gangs.deadline is None


def test_eviction_of_broken_gang_is_retried() -> None:
    stage = broken()
    stage.refuses_evictions = True
    assert after_a_while(stage) == {"a-0"}
    assert stage.task("a-0").status.value == "Running"
    stage.refuses_evictions = False
    assert stage.session().task("a-0").status.value == "Releasing"
