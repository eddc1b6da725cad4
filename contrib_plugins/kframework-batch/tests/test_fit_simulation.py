"""`fit` says of a job what sessions then do with it: its nodes, whom it evicts, why it waits, how many copies fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kframework_batch.objects import Job, PodGroup, Queue
from kframework_batch.recording import ENGINES
from kframework_batch.scenario import make_job
from kframework_batch.testing import make_node, make_queue

from kframework.capacity.fit import fit_by_engine
from kframework.objects import ApiObject, Node, Pod

NODES = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
#: A job whose two pods leave two CPUs on each node, which only another queue can reclaim.
RUNNING = make_job("old", 2, cpu=2, minimum=1, queue="first", seconds=10.0)
QUEUES = [make_queue("first"), make_queue("second")]
RECLAIMING = """
actions: "enqueue, allocate, reclaim"
tiers: [{plugins: [{name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]}]
"""


@pytest.fixture
def reclaiming(tmp_path: Path) -> str:
    file = tmp_path / "scheduler.conf"
    file.write_text(RECLAIMING)
    return str(file)


def test_job_fits_whose_pods_all_find_a_node() -> None:
    result = fit_by_engine(ENGINES, NODES, [make_job("train", 4, cpu=2)], copies=3)
    assert (result.workload, result.fits, len(result.pods)) == (("job/train",), True, 4)
    assert {each.node for each in result.pods} == {"n1", "n2"}
    assert result.copies is not None and (result.copies.fit, result.copies.tried) == (1, 2)


def test_jobs_are_part_of_the_cluster() -> None:
    assert {Job, Queue, PodGroup, Pod, Node} <= {*ENGINES.watched_kinds(None)}


def test_pods_do_not_end_so_that_others_fit() -> None:
    result = fit_by_engine(ENGINES, [*NODES, *QUEUES, RUNNING], [make_job("train", 3, cpu=2, queue="second")])
    assert not result.fits


def test_obstacle_of_a_gang_is_named_with_what_would_help() -> None:
    nodes = [make_node("n1", cpu=5), make_node("n2", cpu=3)]
    obstacle = fit_by_engine(ENGINES, nodes, [make_job("train", 2, cpu=4)]).obstacle
    assert obstacle is not None and obstacle.pod == "default/train-worker-0"
    assert "Insufficient cpu" in obstacle.message and "possibly" not in obstacle.message
    assert "set minAvailable to 1, now 2" in [each.text for each in obstacle.remedies]


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (make_job("train", 1, queue="unknown"), "there is no queue 'unknown'"),
        (make_job("train", 1, minimum=3), "should not be greater than total replicas"),
        (make_job("train", 9, cpu=9), "the cluster has no room for its minimum"),
    ],
)
def test_job_without_pods_does_not_fit(job: Job, message: str) -> None:
    result = fit_by_engine(ENGINES, NODES, [job])
    assert not result.fits and not result.pods
    assert result.obstacle is not None and message in result.obstacle.message


def test_reclaimed_pods_are_named_with_the_job_that_they_went_for(reclaiming: str) -> None:
    old, new = make_job("old", 4, cpu=2, minimum=1, queue="first"), make_job("new", 2, cpu=2, queue="second")
    result = fit_by_engine(ENGINES, [*NODES, *QUEUES, old], [new], reclaiming)
    assert result.fits
    assert len(result.evicted) == 2 and {each.evicted_for for each in result.evicted} == {"default/new"}
    assert all(each.pod.startswith("default/old-worker-") and each.was_on and not each.node for each in result.evicted)


def test_copies_reclaim_no_pods(reclaiming: str) -> None:
    old, new = make_job("old", 3, cpu=2, minimum=1, queue="first"), make_job("new", 1, cpu=2, queue="second")
    copies = fit_by_engine(ENGINES, [*NODES, *QUEUES, old], [new], reclaiming, copies=3).copies
    assert copies is not None and copies.fit == 1


def bound(objects: Sequence[ApiObject], jobs: Sequence[Job]) -> list[dict[str, str]]:
    """Create jobs one after the other; return the nodes of the pods that are bound after each."""
    states = []
    with ENGINES.create_fit_simulation(objects, None).simulation as simulation:
        simulation.run()
        for job in jobs:
            simulation.create(job)
            pods = simulation.run().objects(Pod)
            states.append({pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name})
    return states


SIZES = st.integers(1, 3)


@settings(max_examples=10, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=3), SIZES, SIZES, SIZES)
def test_what_fit_says_is_what_sessions_then_do(nodes: list[int], replicas: int, minimum: int, cpu: int) -> None:
    cluster = [make_node(f"n{n}", cpu=2 * size) for n, size in enumerate(nodes)]
    result = fit_by_engine(
        ENGINES, cluster, [make_job("a", replicas, minimum=min(minimum, replicas), cpu=cpu)], copies=9
    )
    names = ["a", *(f"a-copy-{number}" for number in range(2, 11))]
    jobs = [make_job(name, replicas, minimum=min(minimum, replicas), cpu=cpu) for name in names]
    states = bound(cluster, jobs)
    assert states[0] == {each.pod.partition("/")[2]: each.node for each in result.pods if each.node}
    assert result.fits == (len(states[0]) == replicas)
    if result.copies is not None:
        assert result.copies.fit == next((n for n, state in enumerate(states) if len(state) < (n + 1) * replicas), 9)
