"""The API servers that a scheduler's process works with, and its ways to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from kframework._version import __version__
from kframework.client.cluster import Cluster
from kframework.client.flow_control import FlowControl
from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_cluster import KubeCluster
from kframework.client.missing_rights import RIGHTS_COMMAND, MissingRights, RightsTransport
from kframework.client.reachability import Reachability, ReachabilityTransport
from kframework.client.transport import FencedTransport, Transport, WriteFence
from kframework.clock import Clock, Seeds
from kframework.config.configuration import Configuration
from kframework.config.models import PluginEntry, PluginSet
from kframework.errors import ClusterError
from kframework.objects import Namespace, ObjectMeta
from kframework.objects.kinds import T
from kframework.observe.metrics.requests import MeteredTransport, RequestMetrics
from kframework.process.lease import is_missing_namespace, new_identity

if TYPE_CHECKING:
    from kframework.client.kube_transport import KubeTransport

#: Opens a client of the cluster, and closes it.
Connect = Callable[[], AbstractAsyncContextManager[Cluster]]

_ALL = (PluginEntry(name="*"),)


class Server(Protocol):
    """An API server with its clients and missing permissions; writes of the scheduler's client must pass the fence."""

    fence: WriteFence
    rights: MissingRights

    @property
    def elect(self) -> Connect | None:
        """Open the client of the leader election; None if there is no election."""

    def schedule(self) -> AbstractAsyncContextManager[Cluster]:
        """Open the scheduler's client."""


class RealServer(Server):
    """A real API server; each of its clients has its own connections.

    `requests` counts the requests of the scheduler's client; `rights_command` prints the permissions of the clients.
    `on_connected` is called when the scheduler's client has logged in.
    """

    def __init__(
        self,
        connection: ConnectionSettings,
        configuration: Configuration,
        clock: Clock,
        requests: RequestMetrics | None = None,
        rights_command: str = RIGHTS_COMMAND,
        on_connected: Callable[[KubeTransport], None] = lambda transport: None,
    ) -> None:
        self._connection = connection
        self._client = configuration.settings.client_connection
        self._clock = clock
        self._requests = requests or RequestMetrics()
        self._on_connected = on_connected
        self._reachability = Reachability(clock)
        self.fence: WriteFence = WriteFence()
        self.rights: MissingRights = MissingRights(clock, rights_command)
        #: The class of the client of the leader election.
        self.election_client: type[KubeCluster] = KubeCluster

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Open the scheduler's client, which is limited by `clientConnection`."""
        async with self._transport("scheduler") as transport:
            self._on_connected(transport)
            metered = MeteredTransport(self._observe_reachability(transport), self._requests, transport.address)
            fenced = FencedTransport(metered, self.fence)
            waited = partial(self._requests.observe_wait, transport.address)
            yield KubeCluster(
                FlowControl(fenced, self._client, self._clock, waited), self._clock, random=per_process_random()
            )

    @asynccontextmanager
    async def elect(self) -> AsyncIterator[Cluster]:
        """Open the client of the leader election, which nothing may slow down."""
        async with self._transport("leader-election") as transport:
            yield self.election_client(self._observe_reachability(transport), self._clock, random=per_process_random())

    def _observe_reachability(self, transport: KubeTransport) -> Transport:
        observed = ReachabilityTransport(transport, self._reachability, transport.description)
        return RightsTransport(observed, self.rights)

    @asynccontextmanager
    async def _transport(self, user: str) -> AsyncIterator[KubeTransport]:
        agent = self._connection.user_agent or f"kframework/{__version__}"
        transport = await connect(structs.replace(self._connection, user_agent=f"{agent}/{user}"))
        try:
            yield transport
        finally:
            await transport.close()


class NamespaceCreator(KubeCluster):
    """A client that creates the namespace of a new object if it is missing."""

    async def create(self, obj: T) -> T:
        try:
            return await super().create(obj)
        except ClusterError as error:
            if not is_missing_namespace(error):
                raise
        await super().create(Namespace(metadata=ObjectMeta(name=obj.metadata.namespace)))
        return await super().create(obj)


def per_process_random() -> Random:
    """Return a generator that differs in every process, so that replicas spread."""
    return Seeds(0).generator(f"client of {new_identity()}")


def dry_run_configuration(configuration: Configuration) -> Configuration:
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
