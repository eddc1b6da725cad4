"""`kframework batch`: schedule jobs in sessions, with Volcano's flags.

Nothing heavy is imported at the top: each command imports what it needs when it runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from kframework.cli.go_flags import GoFlagsCommand, flags, warn_ignored_flags
from kframework.cli.logs import deduplicated_logs, notify_user
from kframework.cli.options import (
    Devices,
    DurationOption,
    Filenames,
    Logging,
    OutputOption,
    Seed,
    Verbosity,
    expand_options,
    group,
    parse_positive_duration,
    refuse_overwriting,
    refuse_reading_stdin_twice,
)
from kframework.cli.outcomes import print_outcomes, progress, report_notices, summarise
from kframework.cli.printing import DataForm
from kframework.cli.process import (
    EmbeddedOptions,
    LeaderElect,
    ProcessOptions,
    ResourceName,
    create_event_printer,
    create_lease_namespace,
    create_server,
)
from kframework.cli.rbac import FormOption, NameOption, NamespaceOption, print_objects
from kframework.cli.recording import RecordOptions, open_recorder
from kframework.cli.tracing import CONSOLE, Trace, trace_as_configured, traced_to
from kframework.simulation.inputs import read_admitted, report_rejected
from kframework_batch.compare.command import compare

if TYPE_CHECKING:
    from kframework.engine import EngineFactory, Observer, Recorder
    from kframework_batch.engine import BatchEngine
    from kframework_batch.program import Program
    from kframework_batch.settings import ProgramSettings

_log = logging.getLogger(__name__)

app: typer.Typer = group("Schedule jobs, gangs and queues in sessions, as Volcano does.")
app.command()(compare)

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "--scheduler-conf",
        metavar="FILE",
        help="Volcano scheduler configuration file; without it, Volcano's default.",
    ),
]

SchedulerNames = Annotated[
    list[str],
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        default_factory=lambda: ["volcano"],
        show_default=False,
        help="Schedule pods with this schedulerName; repeatable; default volcano.",
    ),
]

DefaultQueue = Annotated[
    str, typer.Option("--default-queue", metavar="NAME", help="Queue of jobs and pods that name no queue.")
]

Period = Annotated[
    float | None,
    typer.Option(
        "--schedule-period",
        "--period",
        metavar="TIME",
        parser=parse_positive_duration,
        help="Time from one session to the next; default 1s.",
    ),
]


# -- simulate ------------------------------------------------------------------------------------------------------


@app.command()
@expand_options
def simulate(
    filenames: Filenames,
    scheduler_names: SchedulerNames,
    *,
    config: Config = None,
    devices: Devices = None,
    default_queue: DefaultQueue = "default",
    period: Period = None,
    duration: DurationOption = None,
    output: OutputOption = None,
    seed: Seed = None,
    trace: Trace = None,
    shares: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a chart of the queues' shares over time to this file (SVG)."),
    ] = None,
    record_options: RecordOptions,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the result and the reasons to this file, as an HTML page.")
    ] = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the jobs and pods of cluster files on virtual time.

    Prints the node of every pod, or why it waits. Volcano's controllers run too: they create the pods of jobs, and
    groups for plain pods. Everything happens in memory.
    """
    from kframework.clock import VIRTUAL_EPOCH
    from kframework.engine import History, Journal
    from kframework.engine import report as page_of
    from kframework_batch.account import SessionHistory
    from kframework_batch.program import load_program
    from kframework_batch.recording import ENGINES
    from kframework_batch.session_spans import SessionSpans
    from kframework_batch.shares import ShareRecorder
    from kframework_batch.simulation import create_simulation, podless_jobs
    from kframework_batch.view import BatchView

    refuse_reading_stdin_twice(filenames, config)
    read = [*filenames, *filter(None, (config, devices))]
    outputs = {"shares": shares, "record": record_options.record, "report": report}
    refuse_overwriting(read, trace=None if trace == CONSOLE else trace, **outputs)
    settings = _settings(load_program(config), scheduler_names, default_queue, period, seed)
    manifest, rejected = read_admitted(filenames, devices=devices)
    report_rejected(rejected)
    with ExitStack() as closing:
        tracing = closing.enter_context(traced_to(trace, settings.configuration))
        observers: list[Observer] = [] if tracing is None else [tracing, SessionSpans(tracing)]
        if verbosity:
            observers.append(Journal() if tracing is None else Journal(tracing.trace_id))
        if shares is not None:
            held = ShareRecorder()
            observers.append(held)
            # Opened first, so that the simulation does not run if its result cannot be drawn.
            closing.callback(held.write, closing.enter_context(open(shares, "w", encoding="utf-8")))
        recorder = closing.enter_context(open_recorder(record_options, ENGINES.annotations))
        if recorder is not None:
            observers.append(recorder)
        page = closing.enter_context(open(report, "w", encoding="utf-8")) if report is not None else None
        history, sessions = History(), SessionHistory()
        if page is not None:
            observers += [history, sessions]
        simulation = closing.enter_context(
            create_simulation(
                manifest.objects,
                settings,
                observers=observers,
                on_progress=closing.enter_context(progress(alone=trace != CONSOLE and not verbosity)),
                engine=_engine(settings, recorder),
                timed_share=tracing.share if tracing is not None else 0.0,
            )
        )
        result, waiting = simulation.run(duration).result, [*podless_jobs(simulation.cluster)]
        if page is not None:
            shown = BatchView(simulation.scheduler.engine, history, sessions)
            page.write(page_of(shown, title=f"Simulation of {', '.join(filenames)}", start=VIRTUAL_EPOCH))
    report_notices(result, scheduler_names)
    for line in waiting:
        notify_user("notice", line)
    print_outcomes(result, output)
    summarise(result)
    raise typer.Exit(int(bool(rejected)))


# -- run -----------------------------------------------------------------------------------------------------------

#: Flags of Volcano's scheduler, and of its log, that take a value and mean nothing here.
_WITH_VALUE = """
    ca-cert-file cache-dump-dir feature-gates gate-removal-worker-num healthz-address ignored-provisioners
    listen-address log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency
    minimum-feasible-nodes minimum-percentage-nodes-to-find node-selector node-worker-threads
    percentage-nodes-to-find plugins-dir resource-sync-timeout resync-period scheduler-sharding-mode
    scheduler-sharding-name stderrthreshold vmodule
"""

#: The same for flags that are true without a value.
_SWITCHES = """
    add-dir-header alsologtostderr cache-dumper csi-storage disable-default-scheduler-config enable-healthz
    enable-metrics enable-pprof logtostderr one-output priority-class skip-headers skip-log-headers
"""

#: Contained in Volcano's own manifests, where no shell reads it.
_STRAY = {"2>&1": False}


class VolcanoFlagsCommand(GoFlagsCommand):
    """A command that understands the command line of Volcano's scheduler."""

    ignored_flags: ClassVar[Mapping[str, bool]] = flags(_WITH_VALUE, _SWITCHES) | _STRAY


ResourceNamespace = Annotated[
    str | None,
    typer.Option(
        "--leader-elect-resource-namespace",
        "--lock-object-namespace",
        metavar="NAME",
        help="Namespace of the Lease.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class VolcanoOptions(ProcessOptions):
    """The options of a process, with Volcano's name for one of them beside its own."""

    resource_namespace: ResourceNamespace = None


@app.command(cls=VolcanoFlagsCommand)
@expand_options
def run(
    context: typer.Context,
    scheduler_names: SchedulerNames,
    *,
    config: Config = None,
    default_queue: DefaultQueue = "default",
    period: Period = None,
    controllers: Annotated[
        bool | None,
        typer.Option(
            help="Run Volcano's controllers: create pods of jobs, and groups for plain pods; default with --embedded."
        ),
    ] = None,
    process: VolcanoOptions,
    kube_api_qps: Annotated[
        float, typer.Option(metavar="N", help="API requests per second; -1 for no limit.")
    ] = 2000.0,
    kube_api_burst: Annotated[int, typer.Option(metavar="N", help="Burst of API requests.")] = 2000,
    embedded: EmbeddedOptions,
    record_options: RecordOptions,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the jobs and pods of a cluster.

    Runs until SIGTERM or Ctrl-C. A change of the configuration file takes effect with the next session. All flags of
    Volcano's scheduler are accepted; those without a meaning here are ignored with a notice.
    """
    from kframework.clock import SystemClock
    from kframework.engine import Process, with_overrides
    from kframework_batch.program import ConfigurationFile, core_registry, load_program
    from kframework_batch.recording import ENGINES
    from kframework_batch.running import BatchObservers, controller_task, reload_task

    embedded.refuse_alone()
    if embedded.embedded:
        process.refuse_cluster()
    file = ConfigurationFile(config) if config is not None else None
    settings = _settings(load_program(None) if file is None else file.load(), scheduler_names, default_queue, period)
    configuration = with_overrides(
        settings.configuration,
        leader_election=_election(scheduler_names, process.election(), bool(controllers)),
        client_connection={"qps": kube_api_qps, "burst": kube_api_burst},
        options={},
    )
    warn_ignored_flags(context.obj, "Volcano's scheduler")
    clock = SystemClock()
    rights_command = "kframework batch rbac --controllers" if controllers else "kframework batch rbac"
    companions = [] if file is None else [reload_task(file, _tell)]
    if controllers or (controllers is None and embedded.embedded and not process.dry_run):
        companions += map(controller_task, settings.controller_factories())
    with (
        deduplicated_logs(verbosity),
        trace_as_configured(configuration) as tracing,
        open_recorder(record_options, ENGINES.annotations) as recorder,
    ):
        recorders = [] if recorder is None else [recorder]
        observers = BatchObservers.with_tracing(tracing, *recorders, engine=_engine(settings, recorder))
        server = create_server(process, embedded, configuration, clock, observers.metrics.requests, rights_command)
        if process.election()["resource_namespace"] is None:  # where Volcano's manifests create it
            create_lease_namespace(server)
        running = Process(
            configuration,
            server,
            clock,
            registry=core_registry(),
            observers=observers,
            companions=companions,
            listener=process.listener(),
            report=create_event_printer() if process.dry_run else None,
            log=_tell,
        )
        asyncio.run(running.run())


def _tell(line: str) -> None:
    from kframework.engine import NOTICE

    _log.log(NOTICE, line)


def _election(scheduler_names: Sequence[str], flags: Mapping[str, object], controllers: bool) -> dict[str, object]:
    """Return what the command line says about the leader election, with Volcano's defaults.

    A cluster whose jobs need our `controllers` has no Volcano, and so no namespace for its lease.
    """
    defaults = {
        "leader_elect": True,
        "resource_name": "-".join(scheduler_names),
        "resource_namespace": "kube-system" if controllers else "volcano-system",
    }
    return defaults | {name: value for name, value in flags.items() if value is not None}


# -- rbac ----------------------------------------------------------------------------------------------------------


@app.command()
def rbac(
    scheduler_names: SchedulerNames,
    config: Config = None,
    controllers: Annotated[
        bool, typer.Option("--controllers", help="Add the rights that `run --controllers` needs.")
    ] = False,
    leader_elect: LeaderElect = None,
    resource_name: ResourceName = None,
    resource_namespace: ResourceNamespace = None,
    namespace: NamespaceOption = "volcano-system",
    name: NameOption = "kframework-batch",
    output: FormOption = DataForm.YAML,
    verbosity: Verbosity = 0,
) -> None:
    """Print the rights that `run` needs, and no others.

    Prints roles and their bindings to a ServiceAccount, for `kubectl apply -f -`. They cover what sessions watch and
    write, what predicates and nodeorder read, and the Lease.
    """
    from kframework.engine import with_overrides
    from kframework_batch.program import load_program
    from kframework_batch.settings import role_manifests

    settings = _settings(load_program(config), scheduler_names)
    flags = {"leader_elect": leader_elect, "resource_name": resource_name, "resource_namespace": resource_namespace}
    election = with_overrides(
        settings.configuration,
        leader_election=_election(scheduler_names, flags, controllers),
        client_connection={},
        options={},
    ).settings.leader_election
    factories = settings.controller_factories() if controllers else ()
    print_objects(output, role_manifests(settings, factories, election, name=name, namespace=namespace))


# -- what all have in common ---------------------------------------------------------------------------------------


def _engine(settings: ProgramSettings, recorder: Recorder | None) -> EngineFactory[BatchEngine]:
    from kframework_batch.recording import recording_factory

    return settings.engine_factory() if recorder is None else recording_factory(settings, recorder)


def _settings(
    program: Program,
    scheduler_names: Sequence[str],
    default_queue: str = "default",
    period: float | None = None,
    seed: int | None = None,
) -> ProgramSettings:
    """Put the settings together, and pass on what is odd about the configuration."""
    from kframework_batch.engine import SCHEDULE_PERIOD
    from kframework_batch.settings import ProgramSettings

    for notice in program.notices:
        notify_user("warning", notice)
    if seed is None:
        seed = program.configuration.options.seed
    return ProgramSettings(
        program, tuple(dict.fromkeys(scheduler_names)), default_queue, period or SCHEDULE_PERIOD, seed
    )
