"""What the applied manifests let the scheduler do is what it does: no less, and no more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
import pytest

from kframework.client.kube import ConnectionSettings
from kframework.clock import SystemClock, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import parse, with_overrides
from kframework.fake_api.http_server import ServerOptions, publish
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import CoreEvent, Event, Lease, Namespace, ObjectMeta, Pod
from kframework.objects.manifest import Manifest
from kframework.process.process import Process
from kframework.process.servers import RealServer
from kframework.testing import make_node, make_pod
from tests.deploy.rendered import rendered, the_rendered
from tests.deploy.test_manifests import CONFIG
from tests.process.test_rbac import elect, eventful, node_of
from tests.support.rights import Authorizer, GuardedServer

pytestmark = pytest.mark.tool("kubectl")


def deployed() -> str:
    """Return the configuration that the pods are given."""
    return cast("str", the_rendered("ConfigMap")["data"][CONFIG.name])


def authorizer() -> Authorizer:
    """Return what holds the pods' account to the rights that are applied."""
    account = the_rendered("ServiceAccount")["metadata"]
    assert the_rendered("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]
    return Authorizer(rendered(), (account["namespace"], account["name"]))


def test_scheduler_has_exactly_the_rights_it_uses() -> None:
    held, configuration = authorizer(), parse(deployed())
    memory = run_virtual(partial(eventful, held, deployed()))
    run_virtual(partial(elect, held, configuration.settings.leader_election))
    assert held.refused == []
    assert held.unused == set()
    assert [node_of(memory, pod) for pod in ("on-local-disk", "on-made-disk", "urgent")] == ["a", "a", "b"]


def swift() -> Configuration:
    """Return the deployment, with a standby that asks at once; a machine that stalls costs no replica the lease."""
    return with_overrides(parse(deployed()), leader_election={"retry_period": 0.02}, client_connection={}, options={})


class Replica:
    """A scheduler's process, and the lines that its user sees."""

    def __init__(self, name: str, server: RealServer, moved: Callable[[], None]) -> None:
        self.lines: list[str] = []
        self._moved = moved
        self.process: Process[Any] = Process(swift(), server, SystemClock(), identity=name, log=self._tell)

    def _tell(self, line: str) -> None:
        self.lines.append(line)
        self._moved()

    @property
    def leads(self) -> bool:
        """Whether it has won the lease."""
        return any(line.startswith("leading as") for line in self.lines)


class Cluster:
    """A cluster whose API is guarded, and two replicas that work on it."""

    def __init__(self, memory: MemoryCluster, kubeconfig: str) -> None:
        self.memory = memory
        self._moved = asyncio.Event()
        memory.subscribe([Pod, Lease, CoreEvent, Event], lambda change: self._moved.set())
        connection = ConnectionSettings(kubeconfig=kubeconfig)
        self.replicas = [
            Replica(name, RealServer(connection, swift(), SystemClock()), self._moved.set) for name in ("one", "two")
        ]

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something."""
        while not happened():
            self._moved.clear()
            await self._moved.wait()

    @property
    def holder(self) -> str | None:
        """Who holds the lease."""
        election = parse(deployed()).settings.leader_election
        found = self.memory.find(Lease, election.resource_name, election.resource_namespace)
        return found.spec.holder_identity if found is not None else None


@asynccontextmanager
async def replicas(held: Authorizer) -> AsyncIterator[Cluster]:
    clock = SystemClock()
    home = Namespace(metadata=ObjectMeta(name=the_rendered("Namespace")["metadata"]["name"]))
    local = LocalCluster(clock, Manifest([make_node("a"), home]))
    guarded = cast("ApiServer", GuardedServer(local.server, held))
    async with publish(guarded, ServerOptions()) as kubeconfig, anyio.create_task_group() as tasks:
        cluster = Cluster(local.memory, os.fspath(kubeconfig))
        for replica in cluster.replicas:
            tasks.start_soon(replica.process.run)
        yield cluster


def pod(name: str) -> Pod:
    return make_pod(name, cpu=0.1, scheduler_name=parse(deployed()).profiles[0].scheduler_name)


@pytest.mark.slow
def test_of_two_replicas_one_leads_and_schedules_and_then_the_other() -> None:
    held = authorizer()

    async def main() -> None:
        async with replicas(held) as cluster:
            first, second = cluster.replicas
            await cluster.until(lambda: first.leads or second.leads)
            leader, other = (first, second) if first.leads else (second, first)
            cluster.memory.add(pod("early"))
            await cluster.until(lambda: node_of(cluster.memory, "early"))
            await cluster.until(lambda: cluster.memory.objects(Event))
            assert not other.leads
            leader.process.stop()
            await cluster.until(lambda: other.leads)
            cluster.memory.add(pod("late"))
            await cluster.until(lambda: node_of(cluster.memory, "late"))
            await cluster.until(lambda: len(cluster.memory.objects(Event)) > 1)
            other.process.stop()
            await cluster.until(lambda: cluster.holder == "")
        assert held.refused == []
        assert all(replica.lines[-1] == "Requested to terminate, exiting" for replica in cluster.replicas)

    asyncio.run(main())
