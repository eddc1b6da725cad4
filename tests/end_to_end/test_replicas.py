"""Two replicas of `kframework run` share one cluster: one leads, and when it fails the other takes over.

The one that is left leads in the next test, whichever that is: to start a process takes longer than to replace one.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime

import pytest

from tests.end_to_end.api import Json
from tests.end_to_end.processes import DEADLINE
from tests.end_to_end.replicas import LEASE, LOOKS, Crew, holder
from tests.end_to_end.servers import SERVERS, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

#: By how much a busy machine may slow a takeover down, in seconds; a lease that is not given up costs LEASE at least.
SLACK = 3.0

#: How much each test brings with it: nodes, and pods that fill them to the last place.
NODES, PODS_PER_NODE = 5, 16
PODS = NODES * PODS_PER_NODE


@contextmanager
def load(crew: Crew) -> Iterator[None]:
    """Bring nodes and their pods, one after the other, while something happens; then all must be where they fit."""
    turn = len(placed(crew.pods.versions)) // PODS + 1
    nodes = [node(f"node-{turn}-{number}") for number in range(NODES)]
    pods = [pod(f"pod-{turn}-{number}") for number in range(PODS)]
    crew.api.create("/api/v1/nodes", *nodes)
    creator = threading.Thread(target=crew.api.create, args=("/api/v1/namespaces/default/pods", *pods))
    creator.start()
    try:
        crew.pods.until(lambda versions: len(placed(versions)) >= (turn - 1) * PODS + 10)
        yield
    finally:
        creator.join()
    crew.pods.until(lambda versions: len(placed(versions)) == turn * PODS)
    there = Counter(placed(crew.pods.versions).values())
    assert len(there) == turn * NODES and set(there.values()) == {PODS_PER_NODE}, there


def node(name: str) -> Json:
    room = {"cpu": str(PODS_PER_NODE), "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str) -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def placed(versions: list[Json]) -> dict[str, str]:
    """Return where each pod is that is on a node; pods never change their places, nor leave them."""
    places: dict[str, str] = {}
    for version in versions:
        uid, place = version["metadata"]["uid"], version["spec"].get("nodeName")
        assert places.get(uid, place) == place, f"{version['metadata']['name']} was moved"
        if place:
            places[uid] = place
    return places


def seconds_between(before: Json, after: Json) -> float:
    """Return how long after the last renewal of one leader the next one acquired the lease."""
    renewed, acquired = (datetime.fromisoformat(time) for time in (before["renewTime"], after["acquireTime"]))
    return (acquired - renewed).total_seconds()


@pytest.fixture(scope="module", params=SERVERS)
def crew(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Start a cluster; in the end, all who are left end in good order."""
    folder = tmp_path_factory.mktemp("replicas")
    with started(request.param, folder) as server, ExitStack() as stack:
        crew = Crew(folder, server, stack)
        yield crew
        assert {each.running.stop() for each in crew.alive} <= {0}


def test_killed_leader_is_replaced_when_its_lease_expires(crew: Crew) -> None:
    leader, standby = crew.two()
    with load(crew):
        leader.running.process.send_signal(signal.SIGKILL)
        before, after = crew.taken_over_by(standby)
    assert holder(before) == leader.leads_as()
    assert LEASE <= seconds_between(before, after) <= LEASE + 2 * LOOKS + SLACK
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1


def test_terminated_leader_releases_its_lease_at_once(crew: Crew) -> None:
    leader, standby = crew.two()
    with load(crew):
        assert leader.running.stop() == 0
        before, after = crew.taken_over_by(standby)
    assert holder(before) == "", "it was given up"
    assert 0 <= seconds_between(before, after) <= LOOKS + SLACK


def test_resumed_leader_without_a_lease_writes_nothing(crew: Crew) -> None:
    leader, standby = crew.two()
    with load(crew):
        leader.running.process.send_signal(signal.SIGSTOP)
        before, after = crew.taken_over_by(standby)
        written = leader.client.writes()
        leader.running.process.send_signal(signal.SIGCONT)
        assert leader.running.process.wait(DEADLINE) == 1
    assert leader.client.writes() == written, "most of its bindings still waited for their turn"
    assert holder(before) == leader.leads_as()
    assert LEASE <= seconds_between(before, after) <= LEASE + 2 * LOOKS + SLACK
    leader.running.says("Leaderelection lost")
