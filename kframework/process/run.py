"""What `kframework run` runs: a scheduler's process, and the ways from it to a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from kframework import __version__
from kframework.apiserver.in_process import InProcess
from kframework.apiserver.published import Publication
from kframework.clock import Clock, Seeds
from kframework.cluster import Cluster
from kframework.cluster.dry_run import DryRunCluster
from kframework.cluster.flow_control import FlowControl
from kframework.cluster.kube import Connection, connect
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.write_fence import FencedTransport, WriteFence
from kframework.config.configuration import Configuration
from kframework.config.models import PluginEntry, PluginSet
from kframework.core.runtime.registry import Registry
from kframework.objects import Event
from kframework.objects.manifest import Manifest
from kframework.observe.metrics.requests import MeteredTransport, RequestCounts
from kframework.process import fake_api
from kframework.process.endpoints import Listener
from kframework.process.lease import new_identity
from kframework.process.process import Audience, Companion, Connect, Process
from kframework.scheduler.scheduler import E

if TYPE_CHECKING:
    from kframework.cluster.kube_transport import KubeTransport

_ALL = (PluginEntry(name="*"),)


class Server(Protocol):
    """An API server, and the ways to it; what the scheduler's client writes must pass the fence."""

    fence: WriteFence

    @property
    def elect(self) -> Connect | None:
        """Open the client of the leader election; None if there is nobody to be elected among."""
        ...

    def schedule(self) -> AbstractAsyncContextManager[Cluster]:
        """Open the scheduler's client."""
        ...


class RealServer:
    """A real API server; each of its clients has connections of its own.

    `requests` counts what the scheduler's client sends.
    """

    def __init__(
        self,
        connection: Connection,
        configuration: Configuration,
        clock: Clock,
        requests: RequestCounts | None = None,
    ) -> None:
        self._connection = connection
        self._client = configuration.settings.client_connection
        self._clock = clock
        self._requests = requests or RequestCounts()
        self.fence: WriteFence = WriteFence()

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Open the scheduler's client, which asks no faster than `clientConnection` says."""
        async with self._transport("scheduler") as transport:
            metered = MeteredTransport(transport, self._requests, transport.address)
            fenced = FencedTransport(metered, self.fence)
            waited = partial(self._requests.waited, transport.address)
            yield KubeCluster(FlowControl(fenced, self._client, self._clock, waited), self._clock, random=_chance())

    @asynccontextmanager
    async def elect(self) -> AsyncIterator[Cluster]:
        """Open the client of the leader election, which nothing may slow down."""
        async with self._transport("leader-election") as transport:
            yield KubeCluster(transport, self._clock, random=_chance())

    @asynccontextmanager
    async def _transport(self, user: str) -> AsyncIterator[KubeTransport]:
        agent = self._connection.user_agent or f"kframework/{__version__}"
        transport = await connect(structs.replace(self._connection, user_agent=f"{agent}/{user}"))
        try:
            yield transport
        finally:
            await transport.close()


class EmbeddedServer:
    """A fake API server in this process; `say_where` is told of the kubeconfig by which others reach it too."""

    elect: Connect | None = None

    def __init__(
        self,
        manifest: Manifest,
        clock: Clock,
        publication: Publication,
        say_where: Callable[[Path], None],
    ) -> None:
        self._manifest = manifest
        self._clock = clock
        self._publication = publication
        self._say_where = say_where
        self.fence: WriteFence = WriteFence()

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Start the server, and open the scheduler's client."""
        async with fake_api.running(self._manifest, self._clock, self._publication, self._say_where) as server:
            yield KubeCluster(InProcess(server), self._clock, random=_chance())


def _chance() -> Random:
    """Return a generator that is another in every process: what it spreads must differ from replica to replica."""
    return Seeds(0).generator(f"client of {new_identity()}")


def process(
    configuration: Configuration,
    server: Server,
    clock: Clock,
    *,
    listener: Listener | None = None,
    registry: Registry | None = None,
    report: Callable[[Event], None] | None = None,
    onlookers: Audience[E] | None = None,
    companions: Iterable[Companion[E]] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> Process[E]:
    """Make the process that schedules on a server; with `report` it writes nothing, and reports the Events instead."""
    connect: Connect = server.schedule
    if report is not None:
        configuration, connect = without_binding(configuration), dry(connect, clock, report)
    return Process(
        configuration,
        clock,
        connect,
        identity=new_identity(),
        elect=server.elect if configuration.settings.leader_election.leader_elect else None,
        listener=listener,
        registry=registry,
        fence=server.fence,
        onlookers=onlookers,
        companions=companions,
        tell=tell,
    )


def dry(connect: Connect, clock: Clock, report: Callable[[Event], None]) -> Connect:
    """Open clients through which nothing is written."""

    @asynccontextmanager
    async def connect_dry() -> AsyncIterator[Cluster]:
        async with connect() as cluster:
            yield DryRunCluster(cluster, clock, report)

    return connect_dry


def without_binding(configuration: Configuration) -> Configuration:
    """Take out all that might act outside: preparing, binding and its aftermath, extenders that bind, the election."""
    settings = configuration.settings
    no_election = settings.leader_election.model_copy(update={"leader_elect": False})
    unbinding = tuple(extender.model_copy(update={"bind_verb": ""}) for extender in settings.extenders)
    only_default = {
        "pre_bind": PluginSet(disabled=_ALL),
        "bind": PluginSet(enabled=(PluginEntry(name="DefaultBinder"),), disabled=_ALL),
        "post_bind": PluginSet(disabled=_ALL),
    }
    return replace(
        configuration,
        settings=settings.model_copy(update={"leader_election": no_election, "extenders": unbinding}),
        profiles=tuple(
            replace(profile, plugins=profile.plugins.model_copy(update=only_default))
            for profile in configuration.profiles
        ),
    )
