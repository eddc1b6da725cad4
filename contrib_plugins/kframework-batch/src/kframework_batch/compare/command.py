"""`kframework batch compare`: run a trace of jobs with both engines and compare the results."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import (
    DurationOption,
    Filenames,
    Logging,
    Seed,
    Verbosity,
    refuse_overwriting,
    refuse_reading_stdin_twice,
)
from kframework.cli.printing import print_json, print_table
from kframework.simulation.inputs import load_simulation_configuration, read_cluster

if TYPE_CHECKING:
    from kframework import Plugin
    from kframework.engine import Configuration
    from kframework_batch.compare.measures import Measures
    from kframework_batch.settings import ProgramSettings

#: What the two runs are called.
PODS, SESSIONS = "pod engine", "sessions"


class TableFormat(StrEnum):
    """The form of the numbers, beside the table."""

    JSON = "json"


def compare(
    filenames: Filenames,
    plugin: PluginOption,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            "--scheduler-conf",
            metavar="FILE",
            help="Volcano scheduler configuration file for the sessions; without it, Volcano's default.",
        ),
    ] = None,
    pod_config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="KubeSchedulerConfiguration file for the pod engine; one profile needs the jobs' schedulerName.",
        ),
    ] = None,
    scheduler_name: Annotated[str, typer.Option(metavar="NAME", help="schedulerName of the jobs.")] = "volcano",
    duration: DurationOption = None,
    output: Annotated[
        TableFormat | None, typer.Option("-o", "--output", help="Print all numbers as JSON instead of a table.")
    ] = None,
    picture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a chart of both runs over time to this file (SVG).")
    ] = None,
    seed: Seed = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Compare the pod engine and sessions on a trace of jobs.

    Both runs have the same nodes, queues, jobs and controllers. The annotation kframework.dev/arrives-seconds of an
    object is the second at which it is created. Everything happens in memory, on virtual time.
    """
    from kframework_batch.compare.runs import Trace, run_pods, run_sessions
    from kframework_batch.shares import comparison_chart

    refuse_reading_stdin_twice(filenames, config)
    refuse_reading_stdin_twice(filenames, pod_config)
    refuse_overwriting([*filenames, *filter(None, (config, pod_config))], picture=picture)
    plugins = named_plugins(plugin)
    settings = _settings(config, scheduler_name, seed or 0)
    configuration = _pod_configuration(pod_config, plugins, scheduler_name, seed)
    trace = Trace(tuple(read_cluster(filenames, configuration, plugins).objects))
    with ExitStack() as closing:
        # Opened first, so that the simulation does not run if its result cannot be drawn.
        file = closing.enter_context(open(picture, "w", encoding="utf-8")) if picture is not None else None
        pods, pods_history = run_pods(trace, configuration, plugins, settings, duration)
        sessions, sessions_history = run_sessions(trace, settings, duration)
        if file is not None:
            histories = {_title(PODS, pods): pods_history, _title(SESSIONS, sessions): sessions_history}
            file.write(comparison_chart(histories, max(pods.seconds, sessions.seconds)))
    if output is TableFormat.JSON:
        print_json({PODS: pods, SESSIONS: sessions})
    else:
        print_table(("", PODS.upper(), SESSIONS.upper()), _rows(pods, sessions))


def _settings(config: str | None, scheduler_name: str, seed: int) -> ProgramSettings:
    from kframework.cli.logs import notify_user
    from kframework_batch.program import load_program
    from kframework_batch.settings import ProgramSettings

    program = load_program(config)
    for notice in program.notices:
        notify_user("warning", notice)
    return ProgramSettings(program, (scheduler_name,), seed=seed)


def _pod_configuration(
    file: str | None, plugins: list[type[Plugin]], scheduler_name: str, seed: int | None
) -> Configuration:
    """Load the configuration of the pod engine; the default profile goes by the jobs' schedulerName."""
    configuration = load_simulation_configuration(file, plugins, seed)
    profiles = configuration.profiles
    if file is None:
        return replace(configuration, profiles=(replace(profiles[0], scheduler_name=scheduler_name),))
    if scheduler_name not in (profile.scheduler_name for profile in profiles):
        message = f"no profile in {file} has the schedulerName of the jobs, {scheduler_name!r}"
        raise typer.BadParameter(message, param_hint="'--pod-config'")
    return configuration


def _rows(*runs: Measures) -> list[tuple[str, ...]]:
    resource = runs[0].resource
    queues = {queue.queue: queue.weight for run in runs for queue in run.queues}
    rows = [
        ("jobs completed", *(f"{run.completed} of {run.jobs}" for run in runs)),
        ("jobs that never ran", *(str(run.never_ran) for run in runs)),
        ("completion p50", *(_span(run.completion.p50) for run in runs)),
        ("completion p99", *(_span(run.completion.p99) for run in runs)),
        ("last completed at", *(_span(run.last) for run in runs)),
        ("gangs waited p50", *(_span(run.gang_waiting.p50) for run in runs)),
        ("gangs waited p99", *(_span(run.gang_waiting.p99) for run in runs)),
        ("pods waited p50", *(_span(run.pod_waiting.p50) for run in runs)),
        ("pods waited p99", *(_span(run.pod_waiting.p99) for run in runs)),
        (f"{resource} at work", *(_percent(run.utilisation) for run in runs)),
        (f"{resource} held by half gangs", *(_percent(run.half_gangs) for run in runs)),
        ("fairness (Jain)", *(f"{run.fairness:.3f}" for run in runs)),
    ]
    for name in sorted(queues):
        cells = []
        for run in runs:
            found = next((queue for queue in run.queues if queue.queue == name), None)
            cells.append("" if found is None else f"{_percent(found.held)} of {_percent(found.due)}")
        rows.append((f"queue {name} held, of its share", *cells))
    return [
        *rows,
        ("evictions", *(str(run.evictions) for run in runs)),
        ("CPU time", *(f"{run.cpu_seconds:.2f}s" for run in runs)),
    ]


def _title(engine: str, run: Measures) -> str:
    return f"{engine.capitalize()}: {run.completed} of {run.jobs} jobs completed, {run.resource} at work for queues"


def _span(seconds: float | None) -> str:
    from kframework.engine import Duration

    return "" if seconds is None else str(Duration(round(seconds)))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
