"""What the commands that run a scheduler as a process have in common: their options, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.cluster_files import read_cluster
from kframework.cli.fake_api import say_where
from kframework.cli.options import span

if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.config.configuration import Configuration
    from kframework.objects import Event
    from kframework.observe.metrics.requests import RequestCounts
    from kframework.process.endpoints import Listener
    from kframework.process.run import Server

#: How wide the columns of a dry run's report are, all but the last.
_WIDTHS = (16, 8, 17, 24)

# -- which cluster -------------------------------------------------------------------------------------------------

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Which cluster; else the configuration's, KUBECONFIG, the one around this pod, ~/.kube/config.",
    ),
]

KubeContext = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig, if not the current one.")
]

Master = Annotated[
    str | None, typer.Option(metavar="URL", help="Address of the API server, in place of the kubeconfig's.")
]

Embedded = Annotated[
    bool, typer.Option("--embedded", help="Schedule on a fake API in this process, as kframework fake-api is one.")
]


def refuse_without_embedded(filenames: Sequence[str], port: int, write_kubeconfig: str | None) -> None:
    """Refuse options of the embedded server where there is none."""
    if filenames or port or write_kubeconfig:
        raise typer.BadParameter("go with --embedded only", param_hint="'--filename', '--port', '--write-kubeconfig'")


def real_server(
    configuration: Configuration,
    clock: Clock,
    requests: RequestCounts,
    *,
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
) -> Server:
    """Return the API server that the options or the configuration name, where requests are counted."""
    from kframework.cluster.kube import Connection
    from kframework.process.run import RealServer

    file = kubeconfig or configuration.settings.client_connection.kubeconfig or None
    connection = Connection(kubeconfig=file, context=context, server=master or None)
    return RealServer(connection, configuration, clock, requests)


def embedded_server(filenames: Sequence[str], clock: Clock, port: int, write_kubeconfig: str | None) -> Server:
    """Return a fake API server in this process that begins with the objects of these files."""
    from kframework.apiserver.published import Publication
    from kframework.process.run import EmbeddedServer

    publication = Publication(port=port, kubeconfig=write_kubeconfig)
    return EmbeddedServer(read_cluster(filenames), clock, publication, say_where)


# -- leader election -----------------------------------------------------------------------------------------------

LeaderElect = Annotated[
    bool | None, typer.Option(help="Schedule only while holding a lease, as one of several replicas.")
]

LeaseDuration = Annotated[
    float | None,
    typer.Option("--leader-elect-lease-duration", metavar="TIME", parser=span, help="How long others wait for it."),
]

RenewDeadline = Annotated[
    float | None,
    typer.Option("--leader-elect-renew-deadline", metavar="TIME", parser=span, help="When the leader gives up."),
]

RetryPeriod = Annotated[
    float | None,
    typer.Option("--leader-elect-retry-period", metavar="TIME", parser=span, help="Time between two tries."),
]

ResourceLock = Annotated[str | None, typer.Option("--leader-elect-resource-lock", metavar="KIND", help="Only leases.")]

ResourceName = Annotated[
    str | None, typer.Option("--leader-elect-resource-name", metavar="NAME", help="Name of the lease.")
]

ResourceNamespace = Annotated[
    str | None, typer.Option("--leader-elect-resource-namespace", metavar="NAME", help="Namespace of the lease.")
]

#: The names of these options as parameters of a command: those of the fields in the configuration.
_ELECTION = (
    "leader_elect",
    "lease_duration",
    "renew_deadline",
    "retry_period",
    "resource_lock",
    "resource_name",
    "resource_namespace",
)


def election(context: typer.Context) -> dict[str, object]:
    """Return what the command line says about the leader election, None where nothing."""
    return {name: context.params[name] for name in _ELECTION}


# -- endpoints -----------------------------------------------------------------------------------------------------

BindAddress = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where /healthz, /livez, /readyz and /configz are; 0.0.0.0 for all.")
]

SecurePort = Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Their port; 0 for none.")]

TlsCertFile = Annotated[str, typer.Option(metavar="FILE", help="Certificate for them; plain HTTP without.")]

TlsPrivateKeyFile = Annotated[str, typer.Option(metavar="FILE", help="Its key.")]


def listener(bind_address: str, port: int, tls_cert_file: str, tls_private_key_file: str) -> Listener | None:
    """Return where the endpoints are to be; None for nowhere."""
    from kframework.process.endpoints import Listener

    if not port:
        return None
    return Listener(
        bind_address=bind_address,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
    )


# -- dry runs ------------------------------------------------------------------------------------------------------

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Write nothing, and print what would be bound and preempted, and why not.")
]


def event_printer() -> Callable[[Event], None]:
    """Print the header of a dry run's report; return what prints its lines."""
    _print("NAMESPACE", "TYPE", "REASON", "OBJECT", "MESSAGE")
    return _print_event


def _print_event(event: Event) -> None:
    if event.series is None:  # else it was printed when it happened for the first time
        regarding = event.regarding
        subject = f"{regarding.kind.lower()}/{regarding.name}"
        _print(regarding.namespace, event.type, event.reason, subject, event.note)


def _print(*cells: str) -> None:
    *columns, last = cells
    padded = (cell.ljust(width) for cell, width in zip(columns, _WIDTHS, strict=True))
    typer.echo("  ".join([*padded, last]))
