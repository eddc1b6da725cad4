"""backfill: best effort tasks get a node, no others do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from kframework_batch.objects import PodGroup
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_task

from kframework.objects import Pod

CONFIGURATION = """
actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""


def idle(name: str, size: int, *, minimum: int = 1, age: float = 0.0, also: Sequence[Pod] = ()) -> Gang:
    """Make a job of best effort tasks, and of others."""
    group: PodGroup = make_group(name, minimum=minimum, age=age)
    return group, [*(make_task(f"{name}-{n}", name, cpu=None) for n in range(size)), *also]


def staged(actions: str, nodes: int, *gangs: Gang) -> Stage:
    """Run a session on one node with room for `room` pods."""
    node = make_node("n1", cpu=4, pods=nodes)
    return Stage(CONFIGURATION.format(actions=actions), nodes=[node], gangs=gangs).session()


def test_best_effort_task_is_bound() -> None:
    stage = staged("backfill", 9, idle("a", 2, minimum=2), make_gang("b", 2))
    assert sorted(stage.bound) == ["a-0", "a-1"]


def test_best_effort_tasks_respect_the_pod_capacity_of_nodes() -> None:
    stage = staged("backfill", 2, idle("a", 3, minimum=1))
    assert len(stage.bound) == 2
    assert [stage.message(f"a-{n}") for n in range(3) if f"a-{n}" not in stage.bound] == [
        "0/1 nodes are available: 1 Too many pods."
    ]


def test_best_effort_tasks_of_job_that_is_not_ready_stay_pending() -> None:
    large = make_task("large", "a", cpu=99)
    stage = staged("allocate, backfill", 9, idle("a", 1, minimum=2, also=[large]))
    assert stage.bound == {}


def test_best_effort_tasks_of_ready_job_are_bound() -> None:
    stage = staged("allocate, backfill", 9, idle("a", 1, minimum=2, also=[make_task("plain", "a", cpu=1)]))
    assert sorted(stage.bound) == ["a-0", "plain"]


@pytest.mark.parametrize("first", ["a", "b"])
def test_jobs_are_backfilled_in_order(first: str) -> None:
    ages = {"a": 1.0, "b": 1.0, first: 9.0}
    stage = staged("backfill", 1, idle("a", 1, age=ages["a"]), idle("b", 1, age=ages["b"]))
    assert list(stage.bound) == [f"{first}-0"]


def test_job_that_is_not_enqueued_is_not_backfilled() -> None:
    _, pods = idle("a", 1)
    assert staged("backfill", 9, (make_group("a", phase="Pending"), pods)).bound == {}


def test_gated_best_effort_task_stays_pending() -> None:
    gated = make_task("gated", "a", cpu=None, gates=["wait"])
    stage = staged("backfill", 9, (make_group("a"), [gated, make_task("open", "a", cpu=None)]))
    assert list(stage.bound) == ["open"]


def test_best_effort_task_is_pipelined_until_terminating_pods_are_deleted() -> None:
    going = make_task("gone", "b", node="n1", deletion_timestamp="2026-01-01T00:00:00Z")
    stage = staged("backfill", 1, idle("a", 1), (make_group("b", phase="Running"), [going]))
    assert stage.bound == {}
    stage.delete("gone")
    assert stage.session().bound == {"a-0": "n1"}
