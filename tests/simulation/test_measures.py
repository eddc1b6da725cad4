"""The measures of a simulation."""

from __future__ import annotations

import math

import pytest

from kframework import Simulation
from kframework.objects import ApiObject, Node
from kframework.simulation.measures import MeasureRecorder, SimulationMeasures
from kframework.testing import make_node, make_pod


def measure(*objects: ApiObject, duration: float | None = None) -> SimulationMeasures:
    with Simulation(objects) as simulation:
        recorder = MeasureRecorder(simulation)
        simulation.run(duration)
        return recorder.measures


def arriving(name: str, second: float, *, cpu: str = "1", run: float | None = None, priority: int = 0) -> ApiObject:
    annotations = {"kframework.dev/arrives-seconds": f"{second}"}
    if run is not None:
        annotations["kframework.dev/run-seconds"] = f"{run}"
    return make_pod(name, cpu=cpu, memory="1Gi", annotations=annotations, priority=priority)


def test_pods_are_counted_by_what_became_of_them() -> None:
    measures = measure(
        make_node("a", cpu=2, memory="8Gi"),
        make_pod("running", cpu=1, node_name="a"),
        make_pod("bound", cpu=1),
        make_pod("large", cpu=4),
    )
    assert (measures.pods, measures.bound, measures.pending) == (2, 1, 1)


def test_waits_are_from_creation_to_binding() -> None:
    pods = [arriving(f"pod-{second}", second, run=10) for second in range(3)]
    measures = measure(make_node("a", cpu=1, memory="8Gi"), *pods)
    # The second one waits for the end of the first, and the third for the end of the second.
    assert measures.wait_p50 == pytest.approx(9, abs=2) and measures.wait_p99 == pytest.approx(18, abs=4)
    assert measure(make_node("a")).wait_p50 is None


def test_utilisation_is_an_average_over_time() -> None:
    node = make_node("a", cpu=4, memory="8Gi")
    quarter = measure(node, arriving("one", 0, cpu="2", run=30), duration=60)
    assert (quarter.cpu, quarter.memory) == (0.25, 0.0625)
    assert quarter.seconds == 60


def test_average_of_a_simulation_that_ended_is_until_the_last_pod_came_or_went() -> None:
    node = make_node("a", cpu=4, memory="8Gi")
    pending = make_pod("large", cpu=8)  # keeps the simulation busy for an hour
    measures = measure(node, pending, arriving("one", 0, cpu="2", run=30))
    assert measures.cpu == 0.5
    assert measure(node, make_pod("one", cpu=1)).cpu == 0.25  # without any time, as it is


def test_capacity_is_that_of_the_nodes_of_the_time() -> None:
    late = make_node("b", cpu=4, annotations={"kframework.dev/arrives-seconds": "30"})
    measures = measure(make_node("a", cpu=4), make_pod("one", cpu=3), late, duration=60)
    assert measures.cpu == 0.5  # 3 of 4 for 30 s, then of 8: 180 of 360 core seconds
    assert measure(make_pod("one", cpu=1), duration=60).cpu is None


def test_node_that_is_deleted_takes_its_capacity_with_it() -> None:
    with Simulation([make_node("a", cpu=4), make_node("b", cpu=4)]) as simulation:
        recorder = MeasureRecorder(simulation)
        simulation.create(make_pod("one", cpu=2, node_name="b"))
        simulation.run(60)
        simulation.delete(Node, "a")
        simulation.run(60)
        assert recorder.measures.cpu == pytest.approx(2 * 120 / (8 * 60 + 4 * 60), abs=1e-6)


def test_fragmentation_is_the_share_of_free_room_where_a_random_pod_does_not_fit() -> None:
    nodes = [make_node(name, cpu=4, memory="4Gi", pods=10) for name in ("a", "b")]
    taken = make_pod("taken", cpu=3, memory="1Gi", node_name="a")
    waits = make_pod("waits", cpu=8)
    # Nothing but the pod that waits fits nowhere: all free CPU is of no use to it.
    assert measure(*nodes, taken, waits).fragmentation == 1
    fits = make_pod("fits", cpu=2, memory="1Gi", node_selector={"no": "node"})
    # 2 CPUs fit on b, which has 4 of the 5 free ones, and 4 of the 7 free GiB.
    assert measure(*nodes, taken, fits).fragmentation == pytest.approx((1 / 5 + 3 / 7) / 2, abs=1e-6)
    # Half the pods cannot use any free room.
    assert measure(*nodes, taken, fits, waits).fragmentation == pytest.approx((1 + (1 / 5 + 3 / 7) / 2) / 2, abs=1e-6)


def test_node_that_takes_no_more_pods_is_fragmented() -> None:
    full = make_node("a", cpu=4, pods=1)
    small = make_pod("small", cpu=1)
    assert measure(full, make_pod("one", cpu=1, node_name="a"), small).fragmentation == 1
    assert measure(full, small).fragmentation == 1


def test_full_nodes_are_not_fragmented() -> None:
    node = make_node("a", cpu=1, memory=None)
    pods = [make_pod(name, cpu=1, memory=None) for name in ("one", "two")]
    assert measure(node, *pods).fragmentation == 0
    assert measure(node, make_pod("nothing", cpu=None, memory=None)).fragmentation == 0


def test_memory_that_is_left_without_cpu_is_fragmented() -> None:
    node = make_node("a", cpu=1, memory="8Gi")
    pods = [make_pod(name, cpu=1, memory="4Gi") for name in ("one", "two")]
    assert measure(node, *pods).fragmentation == 0.5  # all of the free memory, and none of the CPU


def test_spread_is_how_far_the_use_of_nodes_differs() -> None:
    nodes = [make_node(name, cpu=4) for name in ("a", "b")]
    on_a, on_b = (make_pod(name, cpu=2, node_name=name) for name in ("a", "b"))
    assert measure(*nodes, on_a, on_b, duration=60).spread == 0
    assert measure(*nodes, on_a, duration=60).spread == 0.25  # a half and nothing
    # Both are equally full for the second half of the time.
    assert measure(*nodes, on_a, arriving("late", 30, cpu="2"), duration=60).spread == 0.125
    assert measure(on_a, duration=60).spread == 0


def test_use_of_a_node_is_averaged_over_time() -> None:
    nodes = [make_node("a", cpu=4, memory="4Gi"), make_node("b", cpu=4, memory=None)]
    with Simulation([*nodes, arriving("late", 30, cpu="2"), make_pod("old", cpu=2, node_name="b")]) as simulation:
        recorder = MeasureRecorder(simulation)
        assert recorder.node_use == {"a": {"cpu": 0, "memory": 0}, "b": {"cpu": 0.5}}
        simulation.run(60)
        assert recorder.node_use == {"a": {"cpu": 0.25, "memory": 0.125}, "b": {"cpu": 0.5}}
    assert MeasureRecorder(Simulation([])).node_use == {}


def test_evicted_pods_are_counted() -> None:
    measures = measure(make_node("a", cpu=1, memory="8Gi"), make_pod("low", cpu=1), arriving("high", 30, priority=100))
    assert (measures.preempted, measures.bound) == (1, 2)
    assert math.isclose(measures.cpu or 0, 1, rel_tol=0.6)
