"""The shared options of commands that run a scheduler process, and their use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.fake_api import print_kubeconfig
from kframework.cli.options import Devices, Objects, Port, WriteKubeconfig, parse_duration
from kframework.cli.printing import print_lines
from kframework.errors import escape_text
from kframework.simulation.inputs import read_cluster
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.client.kube_transport import KubeTransport
    from kframework.clock import Clock
    from kframework.config.configuration import Configuration
    from kframework.objects import Event
    from kframework.observe.metrics.requests import RequestMetrics
    from kframework.process.delegation import Delegation
    from kframework.process.http.endpoints import Listener
    from kframework.process.servers import Server

#: The widths of the columns of a dry run's report, except the last.
_WIDTHS = (16, 8, 17, 24)

LeaderElect = Annotated[
    bool | None, typer.Option(help="Schedule only while holding a Lease, as one of several replicas.")
]

ResourceName = Annotated[
    str | None, typer.Option("--leader-elect-resource-name", metavar="NAME", help="Name of the Lease.")
]


def _time_option(flag: str, help: str) -> object:
    return typer.Option(flag, metavar="TIME", parser=parse_duration, help=help)


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """The options of the cluster, the leader election or dry run, and the endpoints.

    The options of the election have the names of the configuration's fields.
    """

    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of the cluster; without it, the configuration's, $KUBECONFIG, the cluster that this pod"
            " runs in, or ~/.kube/config.",
        ),
    ] = None
    kube_context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; without it, the current one."),
    ] = None
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the API server, instead of the kubeconfig's.")
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Write nothing, and print the Events that would be written."),
    ] = False
    leader_elect: LeaderElect = None
    lease_duration: Annotated[
        float | None,
        _time_option(
            "--leader-elect-lease-duration", "How long other replicas wait for a renewal before they take over."
        ),
    ] = None
    renew_deadline: Annotated[
        float | None,
        _time_option(
            "--leader-elect-renew-deadline", "How long the leader tries to renew the Lease before it gives up."
        ),
    ] = None
    retry_period: Annotated[
        float | None,
        _time_option("--leader-elect-retry-period", "Time between attempts to acquire or renew the Lease."),
    ] = None
    resource_lock: Annotated[
        str | None, typer.Option("--leader-elect-resource-lock", metavar="KIND", help="Kind of the lock; only leases.")
    ] = None
    resource_name: ResourceName = None
    resource_namespace: Annotated[
        str | None, typer.Option("--leader-elect-resource-namespace", metavar="NAME", help="Namespace of the Lease.")
    ] = None
    bind_address: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the endpoints (/healthz, /readyz, /metrics and others); 0.0.0.0 for all.",
        ),
    ] = "127.0.0.1"
    secure_port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port of the endpoints; 0 for none.")
    ] = 10259
    tls_cert_file: Annotated[
        str, typer.Option(metavar="FILE", help="TLS certificate of the endpoints; without it, plain HTTP.")
    ] = ""
    tls_private_key_file: Annotated[str, typer.Option(metavar="FILE", help="Private key of the certificate.")] = ""

    authentication_kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig to review tokens of the endpoints' clients; '' for the cluster that this pod runs in.",
        ),
    ] = None
    authorization_kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Kubeconfig to review what these clients may do; requires --authentication-kubeconfig."
        ),
    ] = None
    authorization_always_allow_paths: Annotated[
        str, typer.Option(metavar="PATHS", help="Paths of the endpoints that need no authorization.")
    ] = "/healthz,/readyz,/livez"
    token_ttl: Annotated[
        float | None,
        _time_option("--authentication-token-webhook-cache-ttl", "How long to cache reviews of tokens; default 10s."),
    ] = None
    authorized_ttl: Annotated[
        float | None,
        _time_option(
            "--authorization-webhook-cache-authorized-ttl",
            "How long to cache allowed authorization decisions; default 10s.",
        ),
    ] = None
    unauthorized_ttl: Annotated[
        float | None,
        _time_option(
            "--authorization-webhook-cache-unauthorized-ttl",
            "How long to cache denied authorization decisions; default 10s.",
        ),
    ] = None

    def election(self) -> dict[str, object]:
        """Return the leader election settings of the command line, None for absent ones."""
        from kframework.config.models import LeaderElectionSettings

        return {name: getattr(self, name) for name in LeaderElectionSettings.model_fields}

    def listener(self) -> Listener | None:
        """Return the listener of the endpoints; None for no endpoints."""
        from kframework.process.http.endpoints import Listener

        if not self.secure_port:
            return None
        return Listener(
            bind_address=self.bind_address,
            port=self.secure_port,
            tls_cert_file=self.tls_cert_file,
            tls_private_key_file=self.tls_private_key_file,
            delegation=self._delegation(),
        )

    def _delegation(self) -> Delegation | None:
        from kframework.client.kube import ConnectionSettings
        from kframework.process.delegation import Delegation

        authentication, authorization = self.authentication_kubeconfig, self.authorization_kubeconfig
        if authentication is None and authorization is None:
            return None
        if authentication is None or authorization is None:
            hint = "'--authentication-kubeconfig', '--authorization-kubeconfig'"
            raise typer.BadParameter("must be given together", param_hint=hint)
        times = {name: getattr(self, name) for name in ("token_ttl", "authorized_ttl", "unauthorized_ttl")}
        return Delegation(
            authentication=ConnectionSettings(kubeconfig=authentication),
            authorization=ConnectionSettings(kubeconfig=authorization),
            always_allow_paths=tuple(filter(None, self.authorization_always_allow_paths.split(","))),
            **{name: seconds for name, seconds in times.items() if seconds is not None},
        )

    def refuse_cluster(self) -> None:
        """Reject options that name a cluster: an embedded fake API would be scheduled instead of it."""
        if self.kubeconfig is not None or self.kube_context is not None or self.master is not None:
            raise typer.BadParameter("not with --embedded", param_hint="'--kubeconfig', '--context', '--master'")


@dataclass(frozen=True, kw_only=True)
class EmbeddedOptions:
    """The options of an embedded fake API, and of access to it."""

    filenames: Objects = field(default_factory=list)
    embedded: Annotated[
        bool,
        typer.Option("--embedded", help="Schedule on a fake API in this process, as kframework fake-api serves it."),
    ] = False
    devices: Devices = None
    port: Port = 0
    write_kubeconfig: WriteKubeconfig = None

    def refuse_alone(self, controllers: str = "*") -> None:
        """Reject options of the embedded server without `--embedded`."""
        if not self.embedded and controllers != "*":
            raise typer.BadParameter("only with --embedded", param_hint="'--controllers'")
        if not self.embedded and (self.filenames or self.devices or self.port or self.write_kubeconfig):
            hint = "'--filename', '--devices', '--port', '--write-kubeconfig'"
            raise typer.BadParameter("only with --embedded", param_hint=hint)


def create_server(
    process: ProcessOptions,
    embedded: EmbeddedOptions,
    configuration: Configuration,
    clock: Clock,
    requests: RequestMetrics,
    rights_command: str,
    controllers: str = "*",
) -> Server:
    """Return the real API server with counted requests, or an embedded fake one.

    `rights_command` prints the permissions that the scheduler needs there; `controllers` are workload controllers of a
    fake server.
    """
    if embedded.embedded:
        from kframework.fake_api.embedded_server import EmbeddedServer
        from kframework.fake_api.http_server import ServerOptions

        publication = ServerOptions(
            port=embedded.port, kubeconfig=embedded.write_kubeconfig, feature_gates=configuration.options.gates
        )
        manifest = read_cluster(embedded.filenames, devices=embedded.devices)
        return EmbeddedServer(manifest, clock, publication, print_kubeconfig, controllers.split(","))
    from kframework.client.kube import ConnectionSettings
    from kframework.process.servers import RealServer

    file = process.kubeconfig or configured_kubeconfig(configuration)
    connection = ConnectionSettings(kubeconfig=file, context=process.kube_context, server=process.master or None)
    on_connected = partial(print_target, configuration, process)
    return RealServer(connection, configuration, clock, requests, rights_command, on_connected)


def create_lease_namespace(server: Server) -> None:
    """Make the leader election of a real server create the namespace of its lease if it is missing."""
    from kframework.process.servers import NamespaceCreator, RealServer

    if isinstance(server, RealServer):
        server.election_client = NamespaceCreator


def print_target(configuration: Configuration, process: ProcessOptions, transport: KubeTransport) -> None:
    """Name the cluster and the schedulers, and say what is done there if it is not on this machine."""
    from kframework.client.loopback import host_of, is_loopback

    names = ", ".join(profile.scheduler_name for profile in configuration.profiles)
    if process.dry_run:
        notify_user("notice", f"dry run for {names}: nothing is written to {transport.description}")
    elif is_loopback(host_of(transport.address)):
        notify_user("notice", f"scheduling the pods of {names} on {transport.description}")
    else:
        notify_user("notice", f"this will schedule the pods of {names} in the cluster at {transport.description}")


def configured_kubeconfig(configuration: Configuration) -> str | None:
    """Return the kubeconfig that the configuration names; ConfigError, with its line there, if that is not there."""
    from kframework.client.kubeconfig import split_paths
    from kframework.objects.problem import Problem

    paths = configuration.settings.client_connection.kubeconfig
    files = split_paths(paths)
    if files and not any(Path(file).exists() for file in files):
        remedy = "name another here, or with --kubeconfig, which takes precedence (KUBECONFIG does not)"
        message = f"there is no file {' or '.join(files)}; {remedy}"
        document = configuration.profiles[0].location.document
        raise document.at("clientConnection", "kubeconfig").error(Problem((), message))
    return paths or None


def create_event_printer() -> Callable[[Event], None]:
    """Return the function that prints the lines of a dry run's report, after a header."""
    has_header = False

    def print_row(*cells: str) -> None:
        *columns, last = cells
        padded = (escape_text(cell).ljust(width) for cell, width in zip(columns, _WIDTHS, strict=True))
        print_lines("  ".join([*padded, last]))

    def print_event(event: Event) -> None:
        nonlocal has_header
        if event.series is None:  # otherwise its first event was printed
            if not has_header:
                print_row("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE")
                has_header = True
            regarding = event.regarding
            subject = f"{regarding.kind.lower()}/{regarding.name}"
            print_row(regarding.namespace, event.type, event.reason, subject, event.note)

    return print_event
