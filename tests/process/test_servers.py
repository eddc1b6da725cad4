"""A process schedules on real, embedded and dry servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import cast
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio
import pytest

from kframework.client.cluster import Cluster
from kframework.client.kube import ConnectionSettings
from kframework.client.kube_cluster import KubeCluster
from kframework.client.missing_rights import MissingRights
from kframework.client.transport import Request, Response, WriteFence
from kframework.clock import LoopClock, SystemClock, run_virtual
from kframework.config.load import default_configuration, parse
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.http_server import ServerOptions, publish, run_cluster
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Lease, Namespace, Node, ObjectMeta, Pod
from kframework.objects.manifest import Manifest
from kframework.observe.metrics.requests import RequestMetrics
from kframework.process.http.endpoints import Listener
from kframework.process.observers import PodObservers
from kframework.process.process import Process
from kframework.process.rbac import manifests
from kframework.process.servers import Connect, NamespaceCreator, RealServer, dry_run_configuration
from kframework.testing import make_node, make_pod
from kframework.verbosity import NOTICE
from tests.extension_points.scripted import alone, plugin
from tests.observe.metrics.exposition import count_of, values
from tests.support.bound_pods import StopAfterBindings
from tests.support.rights import Authorizer, GuardedServer

EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://extender", filterVerb: filter, bindVerb: bind}]
"""


class InMemory:
    """A server that is a cluster in memory."""

    elect: Connect | None = None

    def __init__(self, cluster: MemoryCluster) -> None:
        self.fence = WriteFence()
        self.rights = MissingRights(SystemClock())
        self._cluster = cluster

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Yield the cluster."""
        yield self._cluster


def test_dry_run_sends_no_write() -> None:
    journal: list[str] = []
    acting = plugin("Acting", reserve=None, pre_bind=None, bind=None, post_bind=None, journal=journal)
    events: list[Event] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_pod()])

        process = Process(
            parse(alone(acting)), InMemory(cluster), clock, registry=Registry.with_plugins(acting), report=events.append
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            await asyncio.sleep(60.0)
            process.stop()
        assert cluster.read(Pod, "pod", "default").spec.node_name == ""

    run_virtual(main)
    assert journal == ["Acting.reserve"]
    assert [event.note for event in events] == ["Successfully assigned default/pod to a"]


def test_dry_run_has_no_election_and_no_extender_that_binds() -> None:
    settings = dry_run_configuration(parse(EXTENDED)).settings
    (extender,) = settings.extenders
    assert (extender.filter_verb, extender.bind_verb) == ("filter", "")
    assert not settings.leader_election.leader_elect


@pytest.mark.slow
def test_real_server_is_scheduled_on_by_the_one_that_holds_the_lease() -> None:
    until, places, told = StopAfterBindings(1), list[Path](), list[str]()

    async def main() -> None:
        clock, configuration = SystemClock(), default_configuration()
        async with run_cluster(Manifest([make_node("a"), make_pod()]), clock, ServerOptions(), places.append) as local:
            connection = ConnectionSettings(kubeconfig=str(places[0]))
            real = RealServer(connection, configuration, clock)
            until.process = Process(configuration, real, clock, observers=PodObservers(until), log=told.append)
            await until.process.run()
            api = KubeCluster(InProcessTransport(local.server), clock, random=Random(0))
            lease = await api.get(Lease, "kube-scheduler", "kube-system")
            assert lease.spec.holder_identity == ""
            assert (await api.get(Pod, "pod", "default")).spec.node_name == "a"
            assert "Scheduled" in [event.reason for event in await api.list(Event)]

    asyncio.run(main())
    assert until.nodes == {"default/pod": "a"}
    assert any(line.startswith("leading as ") for line in told)


def test_requests_of_a_scheduler_are_counted_as_those_to_its_server() -> None:
    places, counts = list[Path](), RequestMetrics()

    async def main() -> None:
        clock, configuration = SystemClock(), default_configuration()
        async with run_cluster(Manifest([make_node("a")]), clock, ServerOptions(), places.append):
            real = RealServer(ConnectionSettings(kubeconfig=str(places[0])), configuration, clock, counts)
            async with real.schedule() as scheduling:
                await scheduling.list(Node)
                real.fence.close()
                with pytest.raises(ClusterError):
                    await scheduling.delete(Node, "a")

    asyncio.run(main())
    ((_, host, _),) = values(counts.series, "rest_client_requests_total")
    assert host.startswith("127.0.0.1:")
    assert values(counts.series, "rest_client_requests_total") == {("200", host, "GET"): 1}
    waits = count_of(counts.series, "rest_client_rate_limiter_duration_seconds")
    assert waits == {(host, "DELETE"): 1, (host, "GET"): 1}


def test_writes_of_the_scheduler_pass_the_fence_but_not_those_of_its_election() -> None:
    places = list[Path]()

    async def main() -> None:
        clock, configuration = SystemClock(), default_configuration()
        async with run_cluster(Manifest([make_node("a"), make_pod()]), clock, ServerOptions(), places.append):
            real = RealServer(ConnectionSettings(kubeconfig=str(places[0])), configuration, clock)
            async with real.schedule() as scheduling, real.elect() as electing:
                real.fence.close()
                pod = await scheduling.get(Pod, "pod", "default")
                with pytest.raises(ClusterError, match="writes are blocked"):
                    await scheduling.bind("default", "pod", pod.metadata.uid, "a")
                await electing.create(Lease(metadata=ObjectMeta(name="mine", namespace="kube-system")))
                assert await scheduling.get(Pod, "pod", "default") == pod

    asyncio.run(main())


ACCOUNT = "kube-system", "kframework"

SWIFT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {retryPeriod: 20ms}
"""


def answer(url: str) -> str:
    """Return the answer, even if it is an error."""
    try:
        with urlopen(url) as response:
            return str(response.read().decode())
    except HTTPError as error:
        with error:
            return error.read().decode()


class Insisted(Authorizer):
    """Refuses everything, and notices when it was asked again and again."""

    def __init__(self) -> None:
        super().__init__((), ACCOUNT)
        self.enough = asyncio.Event()

    def refusal(self, request: Request) -> Response | None:
        if len(self.refused) >= 30:
            self.enough.set()
        return super().refusal(request)


def of(records: list[logging.LogRecord], level: int) -> list[str]:
    """Return the messages of this level or above."""
    return [record.getMessage() for record in records if record.levelno >= level]


@pytest.mark.slow
def test_missing_rights_are_logged_once_and_shown_until_they_are_granted(caplog: pytest.LogCaptureFixture) -> None:
    configuration, clock = parse(SWIFT), SystemClock()
    held, until, told = Insisted(), StopAfterBindings(2), asyncio.Queue[str]()

    async def main() -> None:
        local = LocalCluster(clock, Manifest([make_node("a"), make_pod()]))
        guarded = cast("ApiServer", GuardedServer(local.server, held))
        async with publish(guarded, ServerOptions()) as kubeconfig, anyio.create_task_group() as tasks:
            real = RealServer(ConnectionSettings(kubeconfig=str(kubeconfig)), configuration, clock)
            until.process = Process(
                configuration,
                real,
                clock,
                observers=PodObservers(until),
                listener=Listener(port=0),
                log=told.put_nowait,
            )
            tasks.start_soon(until.process.run)
            ready = (await told.get()).rpartition(" and ")[2].rstrip(")")
            await held.enough.wait()
            refused = {(wanted.verb, wanted.resource) for wanted in held.refused}
            lines = of(caplog.records, logging.WARNING)
            assert all(line.startswith("no right to ") for line in lines) and len(lines) == len(refused)
            text = await asyncio.to_thread(answer, ready)
            assert (
                "[-]authorization failed: no right to get leases.coordination.k8s.io in the namespace kube-sys" in text
            )
            assert (
                "kframework rbac --config FILE --namespace kube-system --name kframework | kubectl apply -f -" in text
            )

            profiles, election = until.process.scheduler.profiles, configuration.settings.leader_election
            held.grant(manifests(profiles, election, name=ACCOUNT[1], namespace=ACCOUNT[0]))
            begun = {"leading", "synced"}
            while begun:
                begun.discard((await told.get()).partition(" ")[0])
            assert await asyncio.to_thread(answer, ready) == "ok"
            local.memory.add(make_pod("late"))

    caplog.set_level(logging.INFO)
    asyncio.run(main())
    assert until.nodes == {"default/pod": "a", "default/late": "a"}
    lines = of(caplog.records, NOTICE)
    missing = {line.removeprefix("no right to ").partition(": ")[0] for line in lines if line.startswith("no right")}
    granted = {line.removeprefix("granted: ") for line in lines if line.startswith("granted: ")}
    # Whoever leads by then has no need to watch the lease.
    assert missing ^ granted <= {"watch leases.coordination.k8s.io in the namespace kube-system"}


VOLCANO_LEASE = Lease(metadata=ObjectMeta(name="volcano", namespace="volcano-system"))


def test_missing_namespace_of_the_lease_is_created() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(clock)
        transport = InProcessTransport(ApiServer(store, clock))
        with pytest.raises(ClusterError, match="namespaces"):
            await KubeCluster(transport, clock, random=Random(0)).create(VOLCANO_LEASE)
        client = NamespaceCreator(transport, clock, random=Random(0))
        assert (await client.create(VOLCANO_LEASE)).metadata.resource_version
        assert store.find(Namespace, "volcano-system") is not None
        with pytest.raises(ClusterError, match="already exists"):
            await client.create(VOLCANO_LEASE)

    run_virtual(main)
