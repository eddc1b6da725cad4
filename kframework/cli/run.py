"""`kframework run`: schedule the pods of a cluster, with kube-scheduler's flags."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.cluster_files import read_cluster
from kframework.cli.config import warn
from kframework.cli.fake_api import say_where
from kframework.cli.logs import say, sparing
from kframework.cli.options import Logging, Objects, Port, Verbosity, WriteKubeconfig, span
from kframework.cli.recording import Record, Recording, RecordLimit, recording
from kframework.verbosity import NOTICE

if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.config import Configuration
    from kframework.endpoints import Listener
    from kframework.objects import Event
    from kframework.onlookers import Onlookers
    from kframework.run import Server
    from kframework.tracing import Tracing

__all__ = ["command"]

_log = logging.getLogger(__name__)

#: How wide the columns of a dry run's report are, all but the last.
_WIDTHS = (16, 8, 17, 24)


def command(
    context: typer.Context,
    filenames: Objects,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="KubeSchedulerConfiguration file; the default one without it.")
    ] = None,
    kubeconfig: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Which cluster; else the configuration's, KUBECONFIG, the one around this pod, ~/.kube/config.",
        ),
    ] = None,
    kube_context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig, if not the current one.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the API server, in place of the kubeconfig's.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing, and print what would be bound and preempted, and why not.")
    ] = False,
    leader_elect: Annotated[
        bool | None, typer.Option(help="Schedule only while holding a lease, as one of several replicas.")
    ] = None,
    lease_duration: Annotated[
        float | None,
        typer.Option("--leader-elect-lease-duration", metavar="TIME", parser=span, help="How long others wait for it."),
    ] = None,
    renew_deadline: Annotated[
        float | None,
        typer.Option("--leader-elect-renew-deadline", metavar="TIME", parser=span, help="When the leader gives up."),
    ] = None,
    retry_period: Annotated[
        float | None,
        typer.Option("--leader-elect-retry-period", metavar="TIME", parser=span, help="Time between two tries."),
    ] = None,
    resource_lock: Annotated[
        str | None, typer.Option("--leader-elect-resource-lock", metavar="KIND", help="Only leases.")
    ] = None,
    resource_name: Annotated[
        str | None, typer.Option("--leader-elect-resource-name", metavar="NAME", help="Name of the lease.")
    ] = None,
    resource_namespace: Annotated[
        str | None, typer.Option("--leader-elect-resource-namespace", metavar="NAME", help="Namespace of the lease.")
    ] = None,
    bind_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where /healthz, /livez, /readyz and /configz are; 0.0.0.0 for all.")
    ] = "127.0.0.1",
    secure_port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Their port; 0 for none.")] = 10259,
    tls_cert_file: Annotated[str, typer.Option(metavar="FILE", help="Certificate for them; plain HTTP without.")] = "",
    tls_private_key_file: Annotated[str, typer.Option(metavar="FILE", help="Its key.")] = "",
    write_config_to: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the effective configuration here, and exit.")
    ] = None,
    kube_api_qps: Annotated[
        float | None, typer.Option(metavar="N", help="Requests a second, if there is no --config; -1 lifts the limit.")
    ] = None,
    kube_api_burst: Annotated[
        int | None, typer.Option(metavar="N", help="Requests at once, if there is no --config.")
    ] = None,
    pod_max_in_unschedulable_pods_duration: Annotated[
        float | None, typer.Option(metavar="TIME", parser=span, help="After so long a pod is tried without a reason.")
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Schedule on a fake API in this process, as kframework fake-api is one.")
    ] = False,
    port: Port = 0,
    write_kubeconfig: WriteKubeconfig = None,
    record: Record = None,
    record_limit: RecordLimit = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the pods of a cluster.

    Works until it is told to stop (SIGTERM, Ctrl-C); then it finishes what it has begun. All flags of kube-scheduler
    are known; those that mean nothing here are named and passed over.
    """
    from kframework.clock import SystemClock
    from kframework.run import process

    if not embedded and (filenames or port or write_kubeconfig):
        raise typer.BadParameter("go with --embedded only", param_hint="'--filename', '--port', '--write-kubeconfig'")
    client: dict[str, object] = {"qps": kube_api_qps, "burst": kube_api_burst}
    if config is not None and any(value is not None for value in client.values()):
        say("notice", "--kube-api-qps and --kube-api-burst are passed over: clientConnection of the --config counts")
        client.clear()
    configuration = _configuration(
        config,
        leader_election={
            "leader_elect": leader_elect,
            "lease_duration": lease_duration,
            "renew_deadline": renew_deadline,
            "retry_period": retry_period,
            "resource_lock": resource_lock,
            "resource_name": resource_name,
            "resource_namespace": resource_namespace,
        },
        client_connection=client,
        options={"pod_max_in_unschedulable_pods_duration": pod_max_in_unschedulable_pods_duration},
    )
    _say_passed_over(context.obj)
    if write_config_to is not None:
        _write(configuration, write_config_to)
        return
    clock = SystemClock()
    listener = _listener(bind_address, secure_port, tls_cert_file, tls_private_key_file)
    with (
        sparing(verbosity),
        _tracing(configuration) as tracing,
        recording(record, record_limit) as recorded,
    ):
        onlookers = _onlookers(tracing, recorded)
        server = (
            _embedded(filenames, clock, port, write_kubeconfig)
            if embedded
            else _real(configuration, clock, onlookers, kubeconfig, kube_context, master)
        )
        running = process(
            configuration,
            server,
            clock,
            listener=listener,
            report=_reporter() if dry_run else None,
            onlookers=onlookers,
            tell=lambda line: _log.log(NOTICE, line),
        )
        asyncio.run(running.run())


# -- what is to be run ---------------------------------------------------------------------------------------------


def _configuration(file: str | None, **overrides: Mapping[str, object]) -> Configuration:
    from kframework.config import default_configuration, load
    from kframework.config.overrides import overridden

    configuration = load(file) if file is not None else default_configuration()
    warn(configuration)
    return overridden(configuration, **overrides)


def _say_passed_over(flags: Sequence[str]) -> None:
    if flags:
        say("notice", f"flags of kube-scheduler that mean nothing here: {', '.join(dict.fromkeys(flags))}")


def _write(configuration: Configuration, file: str) -> None:
    """Write the configuration, if a scheduler can be made of it."""
    from kframework.clock import SystemClock
    from kframework.cluster.memory import MemoryCluster
    from kframework.config import effective_yaml
    from kframework.scheduler import Scheduler

    clock = SystemClock()
    Scheduler(configuration, MemoryCluster(clock), clock)
    Path(file).write_text(effective_yaml(configuration), encoding="utf-8")
    say("notice", f"wrote the effective configuration to {file}")


def _real(
    configuration: Configuration,
    clock: Clock,
    onlookers: Onlookers,
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
) -> Server:
    from kframework.cluster.kube import Connection
    from kframework.run import RealServer

    file = kubeconfig or configuration.settings.client_connection.kubeconfig or None
    connection = Connection(kubeconfig=file, context=context, server=master or None)
    return RealServer(connection, configuration, clock, onlookers.metrics.requests)


def _embedded(filenames: Sequence[str], clock: Clock, port: int, write_kubeconfig: str | None) -> Server:
    from kframework.apiserver.published import Publication
    from kframework.run import EmbeddedServer

    publication = Publication(port=port, kubeconfig=write_kubeconfig)
    return EmbeddedServer(read_cluster(filenames), clock, publication, say_where)


def _listener(bind_address: str, port: int, tls_cert_file: str, tls_private_key_file: str) -> Listener | None:
    from kframework.endpoints import Listener

    if not port:
        return None
    return Listener(
        bind_address=bind_address,
        port=port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
    )


def _onlookers(tracing: Tracing | None, recorded: Recording) -> Onlookers:
    from kframework.journal import Journal
    from kframework.onlookers import Onlookers

    if tracing is None:
        return Onlookers(Journal(), *recorded.observers, engine=recorded.engine)
    journal = Journal(tracing.trace_id)
    return Onlookers(tracing, journal, *recorded.observers, engine=recorded.engine, timed_share=tracing.share)


@contextmanager
def _tracing(configuration: Configuration) -> Iterator[Tracing | None]:
    """Trace as the configuration says."""
    options = configuration.options.tracing
    if options.exporter == "none":
        yield None
        return
    from kframework.tracing import Tracing

    tracing = Tracing.from_options(options)
    try:
        yield tracing
    finally:
        if tracing is not None:
            tracing.close()


# -- the report of a dry run ---------------------------------------------------------------------------------------


def _reporter() -> Callable[[Event], None]:
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
