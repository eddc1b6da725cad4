"""Replicas of `kframework run` that share one cluster: one leads, and when it fails another takes over."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.end_to_end.api import Api, Json
from tests.end_to_end.processes import Running, kframework, until
from tests.end_to_end.servers import Client, Server

__all__ = ["LEASE", "LOOKS", "Crew", "Replica", "holder"]

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


class Replica(NamedTuple):
    """A replica, and what it writes."""

    running: Running
    client: Client

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.running.process.poll() is None

    def leads_as(self) -> str:
        """Wait until it leads, and return by which name."""
        return self.running.says("leading as ").split()[-1]


class Crew:
    """A cluster, the replicas that schedule it, and what happens there."""

    def __init__(self, folder: Path, server: Server, stack: ExitStack) -> None:
        self.api = Api(server.kubeconfig)
        self.pods = stack.enter_context(self.api.follow("/api/v1/pods"))
        self.leases = stack.enter_context(self.api.follow(LEASES, "metadata.name=kube-scheduler"))
        self._folder = folder
        self._server = server
        self._stack = stack
        self._replicas: list[Replica] = []

    def two(self) -> tuple[Replica, Replica]:
        """Return the leader and a standby, started if need be."""
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
        """Those who have not ended."""
        return [each for each in self._replicas if each.is_alive]

    def _started(self) -> Replica:
        name = f"replica-{len(self._replicas)}"
        config, kubeconfig = self._folder / f"{name}.config", self._folder / f"{name}.kubeconfig"
        config.write_text(CONFIG)
        client = self._stack.enter_context(self._server.client(kubeconfig))
        running = kframework("run", "--config", str(config), "--kubeconfig", str(kubeconfig), "--secure-port=0")
        self._replicas.append(Replica(self._stack.enter_context(running), client))
        return self._replicas[-1]

    def taken_over_by(self, replica: Replica) -> tuple[Json, Json]:
        """Wait until a replica leads; return what the leader before wrote last into the lease, and its own."""
        identity = replica.leads_as()
        self.leases.until(lambda versions: holder(versions[-1]["spec"]) == identity)
        specs = [version["spec"] for version in self.leases.versions]
        first = next(number for number, spec in enumerate(specs) if holder(spec) == identity)
        return specs[first - 1], specs[first]


def holder(spec: Json) -> str:
    """Return the holder of the lease, "" if it is free."""
    return str(spec.get("holderIdentity") or "")
