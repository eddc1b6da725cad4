"""reservation, with elect and reserve: a gang that has waited for long gets its nodes, or gives them back."""

from __future__ import annotations

import pytest
from kframework_batch.scenario import BatchScenario, make_job
from kframework_batch.testing import Gang, Stage, make_gang

from kframework.objects import Node, ObjectMeta, PriorityClass
from kframework.testing import create, make_node

CONFIGURATION = """
actions: "elect, reserve, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf}]
- plugins:
  - name: predicates
  - name: nodeorder
  - name: reservation
    arguments: {reservation.starvedAfter: %s, reservation.keepFor: %s}
"""
END = 120


@pytest.mark.long
@pytest.mark.parametrize(("starved_after", "served"), [("1m", True), ("1h", False)])
def test_large_gang_is_not_starved_by_small_jobs(starved_after: str, served: bool) -> None:
    """It needs a whole node, and one after the other comes on both of them all the time."""
    nodes = [make_node("a", cpu=4), make_node("b", cpu=4)]
    scenario = BatchScenario(CONFIGURATION % (starved_after, "2m"), nodes=nodes, jobs=[])
    for number in range(END):
        scenario.at(float(number), create(make_job(f"small{number}", 1, seconds=9.0 + number % 4)))
    scenario.at(20.0, create(make_job("large", 1, cpu=4, seconds=30.0)))
    record = scenario.run(END)
    assert ("large-worker-0" in record.bound) is served
    assert not record.evicted
    # The other node is theirs all the while.
    assert all(sum(record.running(f"small{n}", s) for n in range(END)) >= 4 for s in range(30, END, 30))


def kept(stage: Stage) -> str:
    """List the nodes that the last session kept free: those without any of the many small jobs."""
    free = {name for _, name in stage.objects if (Node, name) in stage.objects} - {*stage.bound.values()}
    return "".join(sorted(free))


def world(gang: Gang, busy: str = "abcd") -> Stage:
    """Set up four nodes of four CPUs, three of them busy with three CPUs taken, and many small jobs."""
    nodes = [make_node(name, cpu=4) for name in "abcd"]
    running = make_gang("busy", 3 * len(busy), on=[name for name in busy for _ in range(3)])
    crowd = [make_gang(f"small{number}", 1, age=1) for number in range(20)]
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=9)
    configuration = CONFIGURATION % ("1m", "2m")
    return Stage(configuration, nodes=nodes, gangs=[running, gang, *crowd], objects=[high]).session()


@pytest.mark.parametrize(
    ("size", "cpu", "age", "nodes"),
    [
        pytest.param(1, 4, 90, 1, id="as many as it needs"),
        pytest.param(3, 4, 90, 3, id="one for each"),
        pytest.param(4, 2, 90, 2, id="two on each"),
        pytest.param(5, 4, 90, 0, id="it does not fit at all"),
        pytest.param(1, 5, 90, 0, id="it fits no node"),
        pytest.param(1, 4, 30, 0, id="it has not waited for long"),
        pytest.param(1, 4, 200, 0, id="its time is over"),
    ],
)
def test_no_more_nodes_are_reserved_than_needed(size: int, cpu: int, age: float, nodes: int) -> None:
    stage = world(make_gang("large", size, cpu=cpu, age=age))
    assert len(kept(stage)) == nodes
    if nodes:
        assert "node(s) were kept free for job default/large" in str(stage.conditions)


def test_nodes_with_most_room_are_reserved() -> None:
    stage = world(make_gang("large", 5, cpu=4, minimum=1, age=90), busy="abd")
    assert [pod.partition("-")[0] for pod, node in stage.bound.items() if node == "c"] == ["large"]
    stage = world(make_gang("large", 2, cpu=4, age=90), busy="abd")
    assert len(kept(stage)) == 2
    assert "c" in kept(stage)
