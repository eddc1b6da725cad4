"""Of two replicas of `kframework batch run` the one that leads is killed while gangs are being bound."""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.api import Api, Followed, Json
from tests.end_to_end.processes import Running, kframework

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

#: The gangs fill the nodes to the last place; one more never fits.
NODES, ROOM, GANGS, SIZE = 4, 8, 4, 8

#: So few requests at once that a gang takes a second or two: the leader is killed in the middle of some.
SLOWLY = ["--kube-api-qps=20", "--kube-api-burst=1"]
ELECTION = [
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1.5s",
    "--leader-elect-retry-period=300ms",
    "--leader-elect-resource-namespace=default",
]


def node(name: str) -> Json:
    room = {"cpu": str(ROOM), "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def group(name: str, size: int) -> Json:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }


def pod(name: str, gang: str, cpu: str = "1") -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "annotations": {"scheduling.k8s.io/group-name": gang}}
    spec = {"containers": [container], "schedulerName": "volcano"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def placed(versions: list[Json]) -> dict[str, str]:
    """Return the node of each assigned pod; no pod may move."""
    places: dict[str, str] = {}
    for version in versions:
        name, place = version["metadata"]["name"], version["spec"].get("nodeName")
        assert places.get(name, place) == place, f"{name} was moved"
        if place:
            places[name] = place
    return places


def by_gang(places: dict[str, str]) -> dict[str, int]:
    """Count the members of each gang that are on nodes."""
    counts: defaultdict[str, int] = defaultdict(int)
    for name in places:
        counts[name.rpartition("-")[0]] += 1
    return counts


class Crew:
    """A fake cluster, and the replicas that schedule it."""

    def __init__(self, kubeconfig: Path, stack: ExitStack) -> None:
        self.api = Api(kubeconfig)
        self.pods: Followed = stack.enter_context(self.api.follow("/api/v1/pods"))
        self._options = ["--kubeconfig", str(kubeconfig), "--secure-port=0", "--period=200ms", *ELECTION, *SLOWLY]
        self._stack = stack

    def another(self, says: str) -> Running:
        """Start a replica, and wait for some words of it."""
        replica = self._stack.enter_context(kframework("batch", "run", *self._options))
        replica.says(says)
        return replica


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    kubeconfig = tmp_path / "kubeconfig"
    with ExitStack() as stack:
        fake_api = stack.enter_context(kframework("fake-api", "--port", "0", "--write-kubeconfig", str(kubeconfig)))
        fake_api.says("export KUBECONFIG=")
        yield Crew(kubeconfig, stack)


def test_new_leader_completes_partially_bound_gangs(crew: Crew) -> None:
    leader = crew.another("leading as ")
    follower = crew.another("waiting for the lease default/volcano")
    gangs = [f"gang-{number}" for number in range(GANGS)]
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    crew.api.create("/apis/scheduling.volcano.sh/v1beta1/queues", queue)
    groups = (group(name, SIZE) for name in gangs)
    crew.api.create("/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", *groups, group("big", 2))
    members = (pod(f"{gang}-{number}", gang) for gang in gangs for number in range(SIZE))
    big = pod("big-0", "big"), pod("big-1", "big", cpu="100")
    crew.api.create("/api/v1/namespaces/default/pods", *members, *big)
    crew.api.create("/api/v1/nodes", *(node(f"node-{number}") for number in range(NODES)))

    crew.pods.until(lambda versions: any(0 < count < SIZE for count in by_gang(placed(versions)).values()))
    leader.process.send_signal(signal.SIGKILL)
    assert leader.process.wait() == -signal.SIGKILL
    follower.says("leading as ")
    left = by_gang(placed(crew.pods.versions))
    assert any(0 < count < SIZE for count in left.values()), "it was killed in the middle of a gang"

    crew.pods.until(lambda versions: len(placed(versions)) == NODES * ROOM)
    places = placed(crew.pods.versions)
    assert by_gang(places) == dict.fromkeys(gangs, SIZE)
    assert set(Counter(places.values()).values()) == {ROOM}
    assert follower.stop() == 0
