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
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.end_to_end.api import Api, Json
from tests.end_to_end.processes import DEADLINE, Running, kframework, until
from tests.end_to_end.servers import SERVERS, Client, Server, started

pytestmark = pytest.mark.timeout(120)

#: So few requests at once that most bindings wait for their turn when a leader fails.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 2s, renewDeadline: 1.5s, retryPeriod: 0.3s}
clientConnection: {qps: 40, burst: 1}
"""

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

#: In seconds. Who stands by looks at the lease every LOOKS at least: the retry period, stretched by chance.
LEASE, LOOKS = 2.0, 0.3 * 2.2

#: By how much a busy machine may slow a takeover down, in seconds; a lease that is not given up costs LEASE at least.
SLACK = 3.0

#: How much each test brings with it: nodes, and pods that fill them to the last place.
NODES, PODS_PER_NODE = 5, 16
PODS = NODES * PODS_PER_NODE


class Replica(NamedTuple):
    """A replica, and what it writes."""

    running: Running
    client: Client

    @property
    def is_alive(self) -> bool:
        return self.running.process.poll() is None

    def leads_as(self) -> str:
        """Wait until it leads, and return by which name."""
        return self.running.says("leading as ").split()[-1]


class Crew:
    """A cluster, the replicas that schedule it, and what happens there."""

    def __init__(self, folder: Path, server: Server, stack: ExitStack) -> None:
        self._api = Api(server.kubeconfig)
        self.pods = stack.enter_context(self._api.follow("/api/v1/pods"))
        self.leases = stack.enter_context(self._api.follow(LEASES, "metadata.name=kube-scheduler"))
        self._folder = folder
        self._server = server
        self._stack = stack
        self._replicas: list[Replica] = []
        self._turns = count(1)

    def two(self) -> tuple[Replica, Replica]:
        """Return the one who leads and one who stands by, started if need be."""
        alive = self.alive
        new = [self._started() for _ in range(2 - len(alive))]
        for each in new:
            each.running.says("waiting for the lease kube-system/kube-scheduler")
        both = [*alive, *new]
        self.leases.until(lambda versions: versions and holder(versions[-1]["spec"]))
        leading = f"leading as {holder(self.leases.versions[-1]['spec'])}"
        until(lambda: any(each.running.said(leading) for each in both))
        leader, standby = sorted(both, key=lambda each: not each.running.said(leading))
        return leader, standby

    @property
    def alive(self) -> list[Replica]:
        return [each for each in self._replicas if each.is_alive]

    def _started(self) -> Replica:
        name = f"replica-{len(self._replicas)}"
        config, kubeconfig = self._folder / f"{name}.config", self._folder / f"{name}.kubeconfig"
        config.write_text(CONFIG)
        client = self._stack.enter_context(self._server.client(kubeconfig))
        running = kframework("run", "--config", str(config), "--kubeconfig", str(kubeconfig), "--secure-port=0")
        self._replicas.append(Replica(self._stack.enter_context(running), client))
        return self._replicas[-1]

    @contextmanager
    def load(self) -> Iterator[None]:
        """Bring nodes and their pods, one after the other, while something happens; then all must be where they fit."""
        turn = next(self._turns)
        nodes = [node(f"node-{turn}-{number}") for number in range(NODES)]
        pods = [pod(f"pod-{turn}-{number}") for number in range(PODS)]
        self._api.create("/api/v1/nodes", *nodes)
        creator = threading.Thread(target=self._api.create, args=("/api/v1/namespaces/default/pods", *pods))
        creator.start()
        try:
            self.pods.until(lambda versions: len(placed(versions)) >= (turn - 1) * PODS + 10)
            yield
        finally:
            creator.join()
        self.pods.until(lambda versions: len(placed(versions)) == turn * PODS)
        there = Counter(placed(self.pods.versions).values())
        assert len(there) == turn * NODES and set(there.values()) == {PODS_PER_NODE}, there

    def taken_over_by(self, replica: Replica) -> tuple[Json, Json]:
        """Wait until a replica leads; return what the leader before wrote last into the lease, and its own."""
        identity = replica.leads_as()
        self.leases.until(lambda versions: holder(versions[-1]["spec"]) == identity)
        specs = [version["spec"] for version in self.leases.versions]
        first = next(number for number, spec in enumerate(specs) if holder(spec) == identity)
        return specs[first - 1], specs[first]


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


def holder(spec: Json) -> str:
    return str(spec.get("holderIdentity") or "")


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


def test_a_leader_that_is_killed_is_followed_when_its_lease_is_over(crew: Crew) -> None:
    leader, standby = crew.two()
    with crew.load():
        leader.running.process.send_signal(signal.SIGKILL)
        before, after = crew.taken_over_by(standby)
    assert holder(before) == leader.leads_as()
    assert LEASE <= seconds_between(before, after) <= LEASE + 2 * LOOKS + SLACK
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1


def test_a_leader_that_is_told_to_end_hands_over_at_once(crew: Crew) -> None:
    leader, standby = crew.two()
    with crew.load():
        assert leader.running.stop() == 0
        before, after = crew.taken_over_by(standby)
    assert holder(before) == "", "it was given up"
    assert 0 <= seconds_between(before, after) <= LOOKS + SLACK


def test_a_leader_that_hung_writes_nothing_when_it_comes_back(crew: Crew) -> None:
    leader, standby = crew.two()
    with crew.load():
        leader.running.process.send_signal(signal.SIGSTOP)
        before, after = crew.taken_over_by(standby)
        written = leader.client.writes()
        leader.running.process.send_signal(signal.SIGCONT)
        assert leader.running.process.wait(DEADLINE) == 1
    assert leader.client.writes() == written, "most of its bindings still waited for their turn"
    assert holder(before) == leader.leads_as()
    assert LEASE <= seconds_between(before, after) <= LEASE + 2 * LOOKS + SLACK
    leader.running.says("Leaderelection lost")
