"""`kframework simulate`: schedule the pods of cluster files on virtual time, and say where each one went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.cluster_files import read_cluster
from kframework.cli.config import warn
from kframework.cli.logs import say
from kframework.cli.options import (
    Filenames,
    Logging,
    Output,
    OutputOption,
    Verbosity,
    refuse_overwriting,
    span,
)
from kframework.cli.printing import NONE, print_json, print_names, print_table, print_yaml
from kframework.cli.recording import Record, RecordLimit, recording

if TYPE_CHECKING:
    from kframework.config import Configuration
    from kframework.decision import Decision
    from kframework.report import Reporter
    from kframework.scheduler import Observer
    from kframework.simulate import Outcome, Progress, Simulation
    from kframework.tracing import Tracing

__all__ = ["command"]

_STDIN = "-"
_CONSOLE = "-"

#: So many names are listed in a line; the others are counted.
_LISTED = 5

#: Plugins are timed in about so many attempts for a report.
_TIMED = 5_000

_HEADERS = ("NAMESPACE", "POD", "NODE", "STATUS", "ATTEMPTS", "MESSAGE")
_WIDE_HEADERS = (*_HEADERS[:-1], "SCORE", "FEASIBLE", "EVALUATED", "PROFILE", "REJECTED BY", "MESSAGE")


def command(
    filenames: Filenames,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="KubeSchedulerConfiguration file; the default one without it.")
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="TIME", parser=span, help="Stop after so much virtual time (90s, 1h30m), not when nothing moves."
        ),
    ] = None,
    output: OutputOption = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Start all random choices from N, not from the seed of the config."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write OpenTelemetry spans here, one a line; - for stderr.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write an HTML page here that shows what came of it, and why.")
    ] = None,
    record: Record = None,
    record_limit: RecordLimit = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the pods of cluster files on virtual time.

    Prints where every pod went, or why it waits. Give it what `kubectl get nodes,pods -A -o yaml` prints, or files
    that you wrote; all of it happens in memory.
    """
    from kframework.journal import Journal
    from kframework.profiles import load_plugins
    from kframework.registry import Registry
    from kframework.simulate import simulate

    if config == _STDIN and _STDIN in filenames:
        raise typer.BadParameter("stdin is read already, by -f -", param_hint="'--config'")
    if duration is not None and duration <= 0:
        raise typer.BadParameter("must be greater than zero", param_hint="'--duration'")
    read = [*filenames, *([] if config is None else [config])]
    refuse_overwriting(read, report=report, trace=None if trace == _CONSOLE else trace, record=record)
    configuration = _configuration(config, seed)
    warn(configuration)
    load_plugins(configuration, Registry.installed())  # the files may hold objects of kinds that they declare
    objects = read_cluster(filenames).objects
    with ExitStack() as closing:
        tracing = _tracing(trace, configuration, closing)
        observers: list[Observer] = [] if tracing is None else [tracing]
        if verbosity:
            observers.append(Journal() if tracing is None else Journal(tracing.trace_id))
        reporter = _reporter(report, filenames, closing)
        if reporter is not None:
            observers.append(reporter.history)
        recorded = closing.enter_context(recording(record, record_limit))
        on_progress = closing.enter_context(_progress(alone=trace != _CONSOLE and not verbosity))
        simulation = simulate(
            objects,
            configuration,
            duration=duration,
            observers=[*observers, *recorded.observers],
            engine=recorded.engine,
            on_progress=on_progress,
            on_end=reporter.write if reporter is not None else lambda scheduler: None,
            timed_share=max(
                min(1.0, _TIMED / max(len(objects), 1)) if reporter is not None else 0.0,
                tracing.share if tracing is not None else 0.0,
            ),
        )
    _say_notices(simulation, configuration)
    _print(simulation, output)
    _summarise(simulation)


# -- the input -----------------------------------------------------------------------------------------------------


def _configuration(file: str | None, seed: int | None) -> Configuration:
    from dataclasses import replace

    from kframework.config import default_configuration, load

    configuration = load(file) if file is not None else default_configuration()
    if seed is None:
        return configuration
    return replace(configuration, options=configuration.options.model_copy(update={"seed": seed}))


def _tracing(trace: str | None, configuration: Configuration, closing: ExitStack) -> Tracing | None:
    """Trace into a file if one is given, every attempt unless the configuration says less; else as it says."""
    options = configuration.options
    if trace is None and options.tracing.exporter == "none":
        return None
    from kframework.tracing import EVERY_ATTEMPT, Tracing

    if trace is None:
        tracing = Tracing.from_options(options.tracing, seed=options.seed)
    else:
        rate = options.tracing.sampling_rate_per_million or EVERY_ATTEMPT
        stream = sys.stderr if trace == _CONSOLE else closing.enter_context(open(trace, "w", encoding="utf-8"))
        tracing = Tracing.to_stream(stream, rate_per_million=rate, seed=options.seed)
    if tracing is not None:
        closing.callback(tracing.close)
    return tracing


def _reporter(report: str | None, filenames: Sequence[str], closing: ExitStack) -> Reporter | None:
    """Open the file of the report at once, so that a simulation is not in vain that could not be written down."""
    if report is None:
        return None
    from kframework.report import Reporter

    page = closing.enter_context(open(report, "w", encoding="utf-8"))
    return Reporter(page, title=f"Simulation of {', '.join(filenames)}")


# -- while it runs -------------------------------------------------------------------------------------------------


@contextmanager
def _progress(*, alone: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar while the simulation runs, if stderr is a terminal that it has for itself."""
    if not sys.stderr.isatty() or not alone:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as ProgressBar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ProgressBar(*columns, console=console, transient=True, disable=console.is_dumb_terminal) as bar:
        task = bar.add_task("Pods bound", total=None)
        yield lambda progress: bar.update(task, completed=progress.bound, total=progress.pods)


# -- what came of it -----------------------------------------------------------------------------------------------


def _say_notices(simulation: Simulation, configuration: Configuration) -> None:
    for notice in simulation.notices:
        say("notice", notice)
    preempted = [f"{victim} (for {made.pod})" for made in simulation.decisions for victim in made.victims]
    if preempted:
        say("notice", f"preempted: {_listed(preempted)}")
    known = {profile.scheduler_name for profile in configuration.profiles}
    pending = [outcome for outcome in simulation.outcomes if outcome.node is None]
    for name in sorted({outcome.profile for outcome in pending} - known):
        pods = _listed([outcome.pod for outcome in pending if outcome.profile == name])
        say("notice", f"no profile has the schedulerName {name!r}, so nobody schedules {pods}")


def _print(simulation: Simulation, output: Output | None) -> None:
    outcomes = simulation.outcomes
    match output:
        case Output.JSON:
            print_json([_item(outcome) for outcome in outcomes])
        case Output.YAML:
            print_yaml([_item(outcome) for outcome in outcomes])
        case Output.NAME:
            print_names("pod", (outcome.pod.partition("/")[2] for outcome in outcomes))
        case Output.WIDE:
            last = {decision.pod: decision for decision in simulation.decisions}
            print_table(_WIDE_HEADERS, [_wide_row(outcome, last.get(outcome.pod)) for outcome in outcomes])
        case None:
            print_table(_HEADERS, [_row(outcome) for outcome in outcomes])


def _item(outcome: Outcome) -> dict[str, object]:
    return {"pod": outcome.pod, "node": outcome.node, "message": outcome.message, "attempts": outcome.attempts}


def _row(outcome: Outcome) -> tuple[str, ...]:
    namespace, _, name = outcome.pod.partition("/")
    status = outcome.phase or "Pending"
    return namespace, name, outcome.node or NONE, status, str(outcome.attempts), outcome.message


def _wide_row(outcome: Outcome, decision: Decision | None) -> tuple[str, ...]:
    """Add what the last attempt saw; a score only where there was something to choose from."""
    *row, message = _row(outcome)
    if decision is None:
        return (*row, NONE, NONE, NONE, outcome.profile, NONE, message)
    score = str(decision.score) if decision.top else NONE
    rejected_by = ",".join(decision.rejectors) if outcome.node is None else ""
    counts = str(decision.feasible), str(decision.evaluated)
    return (*row, score, *counts, outcome.profile, rejected_by or NONE, message)


def _summarise(simulation: Simulation) -> None:
    from kframework.config import Duration

    pods = len(simulation.outcomes)
    bound = sum(outcome.node is not None for outcome in simulation.outcomes)
    if simulation.retrying:
        say("warning", f"gave up on pods that were retried in vain: {_listed(simulation.retrying)}")
    sys.stdout.flush()  # so that the last line comes last where both streams go to one place
    cycles, time = len(simulation.decisions), Duration(round(simulation.seconds, 3))
    account = f"{cycles} scheduling cycles in {time} of virtual time"
    sys.stderr.write(f"{bound} of {pods} pods bound, {pods - bound} pending; {account}\n")


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")
