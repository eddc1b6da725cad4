"""`kframework simulate`: schedule the pods of cluster files on virtual time, and show their nodes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import (
    STDIN,
    Config,
    Controllers,
    Dev,
    Devices,
    DurationOption,
    Filenames,
    Logging,
    Output,
    OutputOption,
    Seed,
    SourceOption,
    Strict,
    Verbosity,
    VersionOptions,
    expand_options,
    parse_positive_duration,
    read_source_file,
    refuse_overwriting,
    refuse_reading_stdin_twice,
)
from kframework.cli.outcomes import print_moved, print_outcomes, progress, report_blocked, report_notices, summarise
from kframework.cli.printing import progress_bar
from kframework.cli.recording import RecordOptions, recording
from kframework.cli.tracing import CONSOLE, Trace, traced_to
from kframework.simulation.inputs import load_simulation_configuration, read_admitted, report_ignored, report_rejected
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.capacity.drain import Drainer
    from kframework.core.cycle.records import Observer
    from kframework.core.pod_engine import PodEngine
    from kframework.objects.label_selectors import Selector
    from kframework.scheduler.scheduler import EngineFactory
    from kframework.simulation.records import PodOutcome
    from kframework.simulation.replicas import Replicas
    from kframework.simulation.simulation import Simulation
    from kframework.simulation.source_script import SourceFile

#: The approximate number of attempts with timed plugins for a report.
_TIMED_ATTEMPTS = 5_000


@dataclass(frozen=True, kw_only=True)
class DrainOptions:
    """What is evicted once the pods are scheduled."""

    drain: Annotated[
        list[str],
        typer.Option(
            metavar="NODE",
            default_factory=list,
            show_default=False,
            help="Drain this node when nothing changes any more, and print which pods moved; repeatable.",
        ),
    ]
    evict: Annotated[
        str, typer.Option(metavar="SELECTOR", help="Evict the pods with these labels then; they are recreated.")
    ] = ""

    def create(self) -> Drainer | None:
        """Return what drains; None if nothing is evicted."""
        from kframework.capacity.drain import Drainer

        self._selector()
        return Drainer() if self.drain or self.evict else None

    def begin(self, drainer: Drainer, simulation: Simulation) -> None:
        """Begin to evict pods; InputError for an unknown node."""
        drainer.drain(simulation, self.drain)
        if self.evict:
            drainer.evict(simulation, self._selector())

    def _selector(self) -> Selector:
        from kframework.objects.label_selectors import SelectorError, parse_label_selector

        try:
            return parse_label_selector(self.evict)
        except SelectorError as error:
            raise typer.BadParameter(str(error), param_hint="'--evict'") from error


class ShardOption(StrEnum):
    """What is divided among replicas of the scheduler."""

    NODES = "nodes"
    PODS = "pods"


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """The replicas of the scheduler, and what they cost in virtual time."""

    replicas: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Run this many schedulers, each with a shard of the nodes or the pods."),
    ] = 1
    shard: Annotated[
        ShardOption,
        typer.Option(
            help="Divide the nodes, and hand pods on that do not fit; or divide the pods, and let bindings conflict."
        ),
    ] = ShardOption.PODS
    decision_time: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=parse_positive_duration,
            help="The virtual time of an attempt (1ms); without it, none.",
        ),
    ] = None
    watch_delay: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=parse_positive_duration,
            help="The virtual time until a scheduler receives a change (50ms); without it, none.",
        ),
    ] = None

    def create(self, **others: object) -> Replicas | None:
        """Return the replicas, None for a plain scheduler; typer.BadParameter with one of the `others` that are set."""
        if self.replicas == 1 and not self.decision_time and not self.watch_delay:
            return None
        for name, value in others.items():
            if value:
                hint = f"'--{name}'"
                raise typer.BadParameter("is for one scheduler: remove it, or the options of replicas", param_hint=hint)
        from kframework.simulation.replicas import NodeShards, PodShards, Replicas

        shards = NodeShards if self.shard == ShardOption.NODES else PodShards
        decision_time, watch_delay = self.decision_time or 0.0, self.watch_delay or 0.0
        return Replicas(self.replicas, shards, decision_time=decision_time, watch_delay=watch_delay)


@expand_options
def command(
    context: typer.Context,
    filenames: Filenames,
    plugin: PluginOption,
    *,
    config: Config = None,
    devices: Devices = None,
    strict: Strict = False,
    duration: DurationOption = None,
    controllers: Controllers = "*",
    output: OutputOption = None,
    seed: Seed = None,
    version: VersionOptions,
    source: SourceOption,
    drain_options: DrainOptions,
    replica_options: ReplicaOptions,
    fail_on_pending: Annotated[
        bool, typer.Option("--fail-on-pending", help="Exit with 1 if a pod has no node in the end.")
    ] = False,
    trace: Trace = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result and the reasons to this file, as an HTML page.")
    ] = None,
    record_options: RecordOptions,
    dev: Dev = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Simulate again whenever a file or a plugin changes, and print what moved."),
    ] = False,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Open Python's debugger in every hook that raises; q ends the simulation.")
    ] = False,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the pods of cluster files on virtual time.

    Prints the node of each pod, or why it is pending. Takes the output of `kubectl get nodes,pods -A -o yaml`, or files
    that you wrote; everything happens in memory.
    """
    from kframework.observe.journal import Journal
    from kframework.scheduler.read_only import with_read_only_objects
    from kframework.simulation.controllers import STANDARD_CONTROLLERS
    from kframework.simulation.simulation import Simulation

    refuse_reading_stdin_twice(filenames, config)
    if pdb and STDIN in (*filenames, config):
        raise typer.BadParameter("the debugger reads stdin; name files", param_hint="'--pdb'")
    sources = list(map(read_source_file, source))
    read = [*filenames, *filter(None, (config, devices)), *(each.partition("=")[2] for each in source)]
    refuse_overwriting(read, report=report, trace=None if trace == CONSOLE else trace, record=record_options.record)
    drainer = drain_options.create()
    replicas = replica_options.create(
        drain=drain_options.drain, evict=drain_options.evict, record=record_options.record, report=report, source=source
    )
    if watch:
        _watch([each for each in context.obj if each != "--watch"], read, plugin, output, pdb)
    plugins = named_plugins(plugin)
    configuration = version.override(load_simulation_configuration(config, plugins, seed))
    is_alone = trace != CONSOLE and not verbosity and not pdb
    with progress_bar("Reading files", shown=is_alone):
        manifest, rejected = read_admitted(filenames, configuration, plugins, devices=devices, strict=strict)
    report_rejected(rejected)
    report_ignored(manifest, configuration, plugins)
    objects = manifest.objects
    del manifest  # with the documents, which took 900 bytes for each pod
    with ExitStack() as closing:
        tracing = closing.enter_context(traced_to(trace, configuration))
        observers: list[Observer] = [] if tracing is None else [tracing]
        if verbosity:
            observers.append(Journal() if tracing is None else Journal(tracing.trace_id))
        # Opened first, so that no simulation runs whose report cannot be written.
        page = closing.enter_context(open(report, "w", encoding="utf-8")) if report is not None else None
        recorded = closing.enter_context(recording(record_options))
        engines = [recorded.engine] if replicas is None else replicas.engines
        if dev:
            engines = list(map(with_read_only_objects, engines))
        if pdb:
            engines = list(map(_with_debugger, engines))
        simulation = closing.enter_context(
            Simulation(
                objects,
                configuration,
                plugins=plugins,
                observers=[*observers, *recorded.observers],
                engine=engines[0],
                replicas=engines[1:],
                controllers=[
                    *STANDARD_CONTROLLERS,
                    *(each.create_controller for each in sources),
                    *(() if drainer is None else drainer.controllers),
                    *(() if replicas is None else (replicas.create_controller,)),
                ],
                workload_controllers=controllers.split(","),
                on_progress=closing.enter_context(progress(alone=is_alone)),
                timed_share=max(
                    min(1.0, _TIMED_ATTEMPTS / max(len(objects), 1)) if report is not None else 0.0,
                    tracing.share if tracing is not None else 0.0,
                ),
            )
        )
        del objects  # the simulation has them as they were admitted
        for each in sources:
            each.replace_source(simulation.scheduler.profiles)
        before: dict[str, PodOutcome] = {}
        try:
            simulation.run(duration)
            if drainer is not None:
                before = {outcome.pod: outcome for outcome in simulation.outcomes}
                drain_options.begin(drainer, simulation)
                simulation.run(duration)
            code = int(bool(rejected))
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        result = simulation.result
        if page is not None:
            page.write(simulation.report(f"Simulation of {', '.join(filenames)}"))
    _report_silent_sources(simulation, sources)
    report_notices(result, [profile.scheduler_name for profile in configuration.profiles])
    if drainer is not None and output is None:
        now = {outcome.pod: outcome for outcome in result.outcomes}
        stay = {pod for pod in before if pod in now and before[pod].node == now[pod].node}
        print_moved(*({pod: each for pod, each in when.items() if pod not in stay} for when in (before, now)))
    else:
        print_outcomes(result, output)
    if drainer is not None:
        report_blocked(drainer.blocked)
    if replicas is not None and (conflicts := replicas.describe_conflicts()):
        notify_user("notice", conflicts)
    summarise(result)
    is_pending = any(outcome.node is None for outcome in result.outcomes)
    raise typer.Exit(code or int(fail_on_pending and is_pending))


def _report_silent_sources(simulation: Simulation, files: Sequence[SourceFile]) -> None:
    """Report how to play the values of sources that could not be fetched, as in a simulation without their service."""
    played = {(each.script.plugin, each.script.name) for each in files}
    silent = {
        (source.plugin, source.name)
        for source in simulation.scheduler.profiles.sources()
        if source.updated_at is None and source.error
    }
    for plugin, name in sorted(silent - played):
        remedy = f"play its values from a file with --source {plugin}/{name}=FILE"
        notify_user("notice", f"source {plugin}/{name} has delivered no values; {remedy}")


def _watch(
    arguments: Sequence[str], read: Sequence[str], plugins: Sequence[str], output: Output | None, pdb: bool
) -> NoReturn:
    from kframework.cli.watching import find_watched_paths, watch

    if STDIN in read:
        raise typer.BadParameter("stdin does not change; name files", param_hint="'--watch'")
    if output is not None:
        raise typer.BadParameter("prints only what moved; remove --output", param_hint="'--watch'")
    if pdb:
        raise typer.BadParameter("simulates in other processes; remove --pdb", param_hint="'--watch'")
    watch(arguments, find_watched_paths(read, plugins))


def _with_debugger(make: EngineFactory[PodEngine]) -> EngineFactory[PodEngine]:
    """Return a factory of the same engine that opens Python's debugger if one of its plugins raises.

    After `c` the simulation continues, after `q` every fault raises BdbQuit.
    """
    import pdb
    from bdb import BdbQuit

    has_quit = False

    def open_debugger(error: BaseException) -> None:
        nonlocal has_quit
        if not has_quit:
            debugger = pdb.Pdb()
            debugger.reset()
            debugger.interaction(None, error.__traceback__)
            has_quit = debugger.quitting
        if has_quit:
            raise BdbQuit

    def make_with_debugger(*parts: Any) -> PodEngine:
        engine = make(*parts)
        for profile in engine.profiles.values():
            profile.on_fault = open_debugger
        return engine

    return make_with_debugger
