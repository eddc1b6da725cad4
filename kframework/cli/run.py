"""`kframework run`: schedule the pods of a cluster, with kube-scheduler's flags."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.config import compile_profiles
from kframework.cli.go_flags import warn_ignored_flags
from kframework.cli.logs import deduplicated_logs, logging_to_stderr, set_verbosity
from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import (
    Config,
    Controllers,
    Logging,
    Verbosity,
    VersionOptions,
    expand_options,
    parse_duration,
)
from kframework.cli.process import EmbeddedOptions, ProcessOptions, create_event_printer, create_server
from kframework.cli.recording import RecordedScheduler, RecordOptions, recording, with_read_only
from kframework.cli.tracing import trace_as_configured
from kframework.errors import exit_on_debugger_quit
from kframework.scheduler.gc_policy import gc_paused
from kframework.simulation.inputs import load_simulation_configuration
from kframework.verbosity import NOTICE, notify_user

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.core.runtime.programmatic import ConfigurationSource
    from kframework.framework.plugin import Plugin
    from kframework.observe.tracing.spans import Tracing
    from kframework.process.observers import PodObservers
    from kframework.process.reload import FollowedConfiguration


_log = logging.getLogger(__name__)


@expand_options
def command(
    context: typer.Context,
    plugin: PluginOption,
    *,
    config: Config = None,
    process: ProcessOptions,
    write_config_to: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the effective configuration to this file, and exit.")
    ] = None,
    kube_api_qps: Annotated[
        float | None, typer.Option(metavar="N", help="Requests per second, only without --config; -1 for no limit.")
    ] = None,
    kube_api_burst: Annotated[
        int | None, typer.Option(metavar="N", help="Requests at once, only without --config.")
    ] = None,
    pod_max_in_unschedulable_pods_duration: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=parse_duration,
            help="Retry an unschedulable pod without an event after this time; default 5m.",
        ),
    ] = None,
    version: VersionOptions,
    embedded: EmbeddedOptions,
    controllers: Controllers = "*",
    record_options: RecordOptions,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev",
            help="For plugin authors: load the code of plugins again when it changes, and fail if a plugin writes to a"
            " pod, a node or another object, and name the line.",
        ),
    ] = False,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the pods of a cluster.

    Follows the file of --config: a change is checked, and decides from the next pod on; a bad one changes nothing.
    Runs until SIGTERM or Ctrl-C, then finishes the bindings in progress. Accepts all flags of kube-scheduler; those
    without a counterpart are ignored with a notice.
    """
    with handle_early_signals():
        embedded.refuse_alone(controllers)
        if embedded.embedded:
            process.refuse_cluster()
        client: dict[str, object] = {"qps": kube_api_qps, "burst": kube_api_burst}
        if config is not None and any(value is not None for value in client.values()):
            notify_user("notice", "--kube-api-qps and --kube-api-burst are ignored: the --config has clientConnection")
            client.clear()
        if dev:
            sys.dont_write_bytecode = True  # code that changes twice in a second would be taken for what was compiled
        plugins = named_plugins(plugin)
        options = {"pod_max_in_unschedulable_pods_duration": pod_max_in_unschedulable_pods_duration}

        def load(plugins: Sequence[type[Plugin]]) -> Configuration:
            loaded = version.override(load_simulation_configuration(config, plugins))
            return with_process_options(loaded, process, client, options)

        with gc_paused():  # modules and configuration live as long as the process
            followed = follow(config, load, lambda: named_plugins(plugin), dev=dev)
            configuration = load(plugins)
        warn_ignored_flags(context.obj, "kube-scheduler")
        if write_config_to is not None:
            from kframework.config.show import effective_yaml
            from kframework.core.runtime.registry import load_in_tree_args

            compile_profiles(configuration, plugins)
            text = effective_yaml(configuration, load_in_tree_args(configuration))
            Path(write_config_to).write_text(text, encoding="utf-8")
            notify_user("notice", f"wrote the effective configuration to {write_config_to}")
            return
        schedule(
            configuration,
            plugins,
            process,
            embedded,
            record_options,
            controllers=controllers,
            verbosity=verbosity,
            dev=dev,
            followed=followed,
        )


def follow(
    config: ConfigurationSource | None,
    load: Callable[[Sequence[type[Plugin]]], Configuration],
    plugins: Callable[[], Sequence[type[Plugin]]],
    *,
    dev: bool,
) -> FollowedConfiguration:
    """Begin to follow the configuration if it is a file, and the plugins' code under development."""
    from kframework.process.followed_files import FollowedCode, FollowedFile
    from kframework.process.reload import FollowedConfiguration

    is_file = isinstance(config, str | Path) and str(config) != "-"
    file = FollowedFile(Path(str(config))) if is_file else None
    return FollowedConfiguration(load, plugins, file, FollowedCode() if dev else None)


@contextmanager
def handle_early_signals() -> Iterator[None]:
    """Exit cleanly on a SIGTERM before the process handles signals, or after it has ended."""
    ended = SystemExit(0)

    def end(number: int, frame: FrameType | None) -> None:
        notify_user("notice", "Requested to terminate, exiting")
        raise ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except BaseExceptionGroup as group:
        if group.subgroup(lambda error: error is ended) is None:
            raise
        raise ended from None
    finally:
        signal.signal(signal.SIGTERM, before)


def with_process_options(
    configuration: Configuration,
    process: ProcessOptions,
    client: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
) -> Configuration:
    """Return the configuration with the given options overriding its own."""
    from kframework.config.load import with_overrides

    return with_overrides(
        configuration, leader_election=process.election(), client_connection=client or {}, options=options or {}
    )


def schedule(
    configuration: Configuration,
    plugins: Sequence[type[Plugin]],
    process: ProcessOptions,
    embedded: EmbeddedOptions,
    record_options: RecordOptions,
    *,
    controllers: str = "*",
    verbosity: int = 0,
    dev: bool = False,
    followed: FollowedConfiguration | None = None,
) -> None:
    """Schedule until a signal, and reload the configuration when a file that is followed changes."""
    from kframework.clock import SystemClock
    from kframework.core.runtime.registry import Registry
    from kframework.process.process import Process

    clock = SystemClock()
    with (
        exit_on_debugger_quit(),
        deduplicated_logs(verbosity),
        trace_as_configured(configuration) as tracing,
        recording(record_options) as recorded,
    ):
        observers = _observers(tracing, with_read_only(recorded) if dev else recorded)
        running = Process(
            configuration,
            create_server(
                process, embedded, configuration, clock, observers.metrics.requests, "kframework rbac", controllers
            ),
            clock,
            listener=process.listener(),
            report=create_event_printer() if process.dry_run else None,
            observers=observers,
            registry=Registry.with_plugins(*plugins),
            followed=followed,
            log=lambda line: _log.log(NOTICE, line),
        )
        asyncio.run(running.run())


def _observers(tracing: Tracing | None, recorded: RecordedScheduler) -> PodObservers:
    from kframework.observe.journal import Journal
    from kframework.process.observers import PodObservers

    if tracing is None:
        return PodObservers(Journal(), *recorded.observers, engine=recorded.engine)
    journal = Journal(tracing.trace_id)
    return PodObservers(tracing, journal, *recorded.observers, engine=recorded.engine, timed_share=tracing.share)


def run(
    config: ConfigurationSource | None = None,
    *,
    plugins: Iterable[type[Plugin]] = (),
    kubeconfig: str | None = None,
    context: str | None = None,
    master: str | None = None,
    dry_run: bool = False,
    leader_elect: bool | None = None,
    embedded: bool = False,
    filenames: Sequence[str] = (),
    devices: str | None = None,
    port: int = 0,
    write_kubeconfig: str | None = None,
    bind_address: str = "127.0.0.1",
    secure_port: int = 10259,
    tls_cert_file: str = "",
    tls_private_key_file: str = "",
    record: str | None = None,
    record_annotations: Sequence[str] = (),
    verbosity: int = 0,
) -> None:
    """Schedule the pods of a cluster until SIGTERM or SIGINT, as `kframework run` does with the options of these names.

    `config` is a KubeSchedulerConfiguration: a file, or its content as a mapping. It can name `plugins` in addition to
    installed ones; without it the default profile has them at all their points. All other options of the command are in
    the configuration too. Call it in the main thread: it blocks, and it writes the log to stderr. Raises ConfigError
    for unusable settings, LeadershipLost when another scheduler may lead.
    """
    if not embedded and (filenames or devices or port or write_kubeconfig):
        raise ValueError("filenames, devices, port and write_kubeconfig go with embedded=True")
    if embedded and not (kubeconfig is None and context is None and master is None):
        raise ValueError("kubeconfig, context and master do not go with embedded=True")
    process = ProcessOptions(
        kubeconfig=kubeconfig,
        kube_context=context,
        master=master,
        dry_run=dry_run,
        leader_elect=leader_elect,
        bind_address=bind_address,
        secure_port=secure_port,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
    )
    server = EmbeddedOptions(
        filenames=list(filenames), embedded=embedded, devices=devices, port=port, write_kubeconfig=write_kubeconfig
    )
    recorded = RecordOptions(record=record, record_annotations=list(record_annotations))
    given = tuple(plugins)
    with logging_to_stderr():
        set_verbosity(verbosity)

        def load(plugins: Sequence[type[Plugin]]) -> Configuration:
            return with_process_options(load_simulation_configuration(config, plugins), process)

        followed = follow(config, load, lambda: given, dev=False)
        schedule(load(given), given, process, server, recorded, verbosity=verbosity, followed=followed)
