"""A gang that lost members is not starved by fresh jobs that hold nothing yet (Volcano #5805).

Members come back one by one, as a job controller recreates them; until the gang is complete what the others hold is of
no use. By the shares that jobs hold alone, a gang that holds something is behind every job that holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kframework_batch.job import JobInfo
from kframework_batch.plugin import hookimpl
from kframework_batch.plugins.drf import Drf
from kframework_batch.resource import dominant_share
from kframework_batch.scenario import BatchScenario, BatchScenarioResult, make_job
from kframework_batch.session import Session

from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Node, Pod
from kframework.simulation.running import Action
from kframework.testing import create, make_node
from tests.support.scale import sampled

CONFIG = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
#: When all is over, in seconds.
END = 240


class PlainShare(Drf):
    """The naive rule: jobs go in the order of the share that they hold."""

    name = "drf"

    @hookimpl
    def job_order(self, session: Session, job: JobInfo) -> float:  # type: ignore[override]  # a key of its own
        return dominant_share(self._held[job.uid], self._total)


RULES = pytest.mark.parametrize(("classes", "starves"), [([], False), ([PlainShare], True)], ids=["ours", "naive"])


def stream() -> Iterator[tuple[float, Action]]:
    """Let jobs of one pod come, one every two seconds until the end: more than five pods' places could take.

    No two of them that run side by side end together.
    """
    for number in range(END // 2):
        yield number * 2.0, create(make_job(f"fresh{number}", 1, seconds=8.0 + number % 4 * 3.1))


def lose(count: int, *, on: str = "") -> Action:
    """Kill `count` members of the gang, on this node if one is given."""

    def act(cluster: MemoryCluster) -> None:
        members = [pod for pod in cluster.objects(Pod) if pod.metadata.name.startswith("gang-")]
        for pod in [pod for pod in members if on in ("", pod.spec.node_name)][:count]:
            cluster.remove(Pod, pod.metadata.name, "default", grace=0)

    return act


def incomplete(record: BatchScenarioResult, members: int) -> int:
    """Return for how many seconds the gang was not complete, after it had been so once."""
    return sum(record.running("gang", second) < members for second in range(2, END))


@pytest.mark.slow
@pytest.mark.parametrize("lost", sampled([1, 2, 3]))
@RULES
def test_gang_that_lost_members_gets_the_next_idle_room(lost: int, classes: list[type], starves: bool) -> None:
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
    scenario = BatchScenario(CONFIG, nodes=nodes, jobs=[make_job("gang", 6)], classes=classes)
    for second, job in stream():
        scenario.at(second + 5.0, job)
    record = scenario.at(40.0, lose(lost)).run(END)
    if starves:
        assert record.running("gang") == 6 - lost
        assert record.phase("gang") == "Unknown"
    else:
        assert 0 < incomplete(record, 6) < 30
        assert record.phase("gang") == "Running"
        # It is ahead of the others only until it has its minimum: two of eight places are theirs all the time.
        assert sum(pod.startswith("fresh") for pod in record.bound) > 25
    assert not record.evicted


def cordon(name: str, on: bool) -> Action:
    return lambda cluster: cluster.merge(Node, name, {"spec": {"unschedulable": on}})


@RULES
def test_room_of_uncordoned_node_goes_to_the_gang_that_had_it(classes: list[type], starves: bool) -> None:
    """As on the node pools of the issue: the newcomer never ends, and there is no other room."""
    nodes = [make_node("n1", cpu=2), make_node("n2", cpu=1)]
    scenario = BatchScenario(CONFIG, nodes=nodes, jobs=[make_job("gang", 3)], classes=classes)
    scenario.at(10.0, cordon("n2", True), lose(1, on="n2"))
    scenario.at(20.0, create(make_job("newcomer", 1)))
    record = scenario.at(30.0, cordon("n2", False)).run(END)
    assert record.running("gang", 29.0) == 2
    assert (record.running("gang"), record.running("newcomer")) == ((2, 1) if starves else (3, 0))


def failing_once(name: str) -> Action:
    """Let the next bind of a pod fail."""
    left = [1]

    def fault(method: str, kind: type[ApiObject], namespace: str, asked: str) -> Fault | None:
        if (method, asked) == ("bind", name) and left:
            left.pop()
            return Fault(error=ClusterError("the node does not answer", status=403))
        return None

    return lambda cluster: cluster.faults.append(fault)


@RULES
def test_gang_with_failed_binding_is_completed_at_once(classes: list[type], starves: bool) -> None:
    """It has a minute for that: then the whole gang is evicted, and needs all its room again."""
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=2)]
    scenario = BatchScenario(CONFIG, nodes=nodes, jobs=[make_job("gang", 6)], classes=classes)
    scenario.at(0.0, failing_once("gang-worker-3"))
    for second, job in stream():
        scenario.at(second + 0.5, job)
    record = scenario.run(62.0)
    assert record.bound.get("gang-worker-3", []) == ([] if starves else [2.0])
    assert record.running("gang", 60.0) == (5 if starves else 6)
    assert len(record.victims("gang")) == (5 if starves else 0)
