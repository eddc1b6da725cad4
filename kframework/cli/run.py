"""`kframework run`: schedule the pods of a cluster, with kube-scheduler's flags."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli import process as shared
from kframework.cli.config import warn
from kframework.cli.go_flags import say_passed_over
from kframework.cli.logs import say, sparing
from kframework.cli.options import Logging, Objects, Port, Verbosity, WriteKubeconfig, span
from kframework.cli.recording import Record, Recording, RecordLimit, recording
from kframework.cli.tracing import traced
from kframework.verbosity import NOTICE

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.observe.tracing.spans import Tracing
    from kframework.process.observers import Onlookers

_log = logging.getLogger(__name__)


def command(
    context: typer.Context,
    filenames: Objects,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="KubeSchedulerConfiguration file; the default one without it.")
    ] = None,
    kubeconfig: shared.Kubeconfig = None,
    kube_context: shared.KubeContext = None,
    master: shared.Master = None,
    dry_run: shared.DryRun = False,
    leader_elect: shared.LeaderElect = None,
    lease_duration: shared.LeaseDuration = None,
    renew_deadline: shared.RenewDeadline = None,
    retry_period: shared.RetryPeriod = None,
    resource_lock: shared.ResourceLock = None,
    resource_name: shared.ResourceName = None,
    resource_namespace: shared.ResourceNamespace = None,
    bind_address: shared.BindAddress = "127.0.0.1",
    secure_port: shared.SecurePort = 10259,
    tls_cert_file: shared.TlsCertFile = "",
    tls_private_key_file: shared.TlsPrivateKeyFile = "",
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
    embedded: shared.Embedded = False,
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
    from kframework.process.run import process

    if not embedded:
        shared.refuse_without_embedded(filenames, port, write_kubeconfig)
    client: dict[str, object] = {"qps": kube_api_qps, "burst": kube_api_burst}
    if config is not None and any(value is not None for value in client.values()):
        say("notice", "--kube-api-qps and --kube-api-burst are passed over: clientConnection of the --config counts")
        client.clear()
    configuration = _configuration(
        config,
        leader_election=shared.election(context),
        client_connection=client,
        options={"pod_max_in_unschedulable_pods_duration": pod_max_in_unschedulable_pods_duration},
    )
    say_passed_over(context.obj, "kube-scheduler")
    if write_config_to is not None:
        _write(configuration, write_config_to)
        return
    clock = SystemClock()
    listener = shared.listener(bind_address, secure_port, tls_cert_file, tls_private_key_file)
    with (
        sparing(verbosity),
        traced(configuration) as tracing,
        recording(record, record_limit) as recorded,
    ):
        onlookers = _onlookers(tracing, recorded)
        server = (
            shared.embedded_server(filenames, clock, port, write_kubeconfig)
            if embedded
            else shared.real_server(
                configuration,
                clock,
                onlookers.metrics.requests,
                kubeconfig=kubeconfig,
                context=kube_context,
                master=master,
            )
        )
        running = process(
            configuration,
            server,
            clock,
            listener=listener,
            report=shared.event_printer() if dry_run else None,
            onlookers=onlookers,
            tell=lambda line: _log.log(NOTICE, line),
        )
        asyncio.run(running.run())


def _configuration(file: str | None, **overrides: Mapping[str, object]) -> Configuration:
    from kframework.config.load import default_configuration, load
    from kframework.config.overrides import overridden

    configuration = load(file) if file is not None else default_configuration()
    warn(configuration)
    return overridden(configuration, **overrides)


def _write(configuration: Configuration, file: str) -> None:
    """Write the configuration, if a scheduler can be made of it."""
    from kframework.clock import SystemClock
    from kframework.cluster.memory import MemoryCluster
    from kframework.config.show import effective_yaml
    from kframework.scheduler.scheduler import Scheduler

    clock = SystemClock()
    Scheduler(configuration, MemoryCluster(clock), clock)
    Path(file).write_text(effective_yaml(configuration), encoding="utf-8")
    say("notice", f"wrote the effective configuration to {file}")


def _onlookers(tracing: Tracing | None, recorded: Recording) -> Onlookers:
    from kframework.observe.journal import Journal
    from kframework.process.observers import Onlookers

    if tracing is None:
        return Onlookers(Journal(), *recorded.observers, engine=recorded.engine)
    journal = Journal(tracing.trace_id)
    return Onlookers(tracing, journal, *recorded.observers, engine=recorded.engine, timed_share=tracing.share)
