"""`kframework sweep`: simulate configurations on clusters with several seeds, and compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.config import compile_profiles
from kframework.cli.options import Verbosity
from kframework.cli.printing import print_table, progress_bar
from kframework.errors import KFrameworkError
from kframework.simulation.inputs import read_cluster, report_ignored
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.errors import ConfigError
    from kframework.simulation.sweep.document import Sweep


def command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File of kind Sweep, or - for stdin.")],
    *,
    output: Annotated[
        str,
        typer.Option(metavar="DIR", help="Folder for the results; runs whose result is there are not run again."),
    ],
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", min=1, help="Number of local processes; one for each core by default."),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786."),
    ] = None,
    verbosity: Verbosity = 0,
) -> None:
    """Simulate configurations on clusters with several seeds.

    Prints the mean of each measure for each configuration, with a 95 % confidence interval over seeds; * marks
    differences to the first configuration that are larger than chance. Writes a row for each run to DIR/runs.csv, and a
    picture to DIR/summary.svg.
    """
    from kframework.objects.text_files import replace_file
    from kframework.simulation.sweep.document import Sweep
    from kframework.simulation.sweep.picture import draw_summary
    from kframework.simulation.sweep.runs import ResultFolder
    from kframework.simulation.sweep.summary import (
        SUMMARY_HEADERS,
        format_runs,
        format_summary,
        summarise,
        summary_rows,
    )
    from kframework.simulation.sweep.workers import run_missing

    if jobs is not None and dask is not None:
        raise typer.BadParameter("the Dask cluster has its own workers; remove --jobs", param_hint="'--dask'")
    sweep = Sweep(file)
    _check(sweep)
    folder, runs = ResultFolder(Path(output)), sweep.runs
    with _executors(jobs, dask) as create_executor, progress_bar("Runs") as update:
        errors = run_missing(runs, folder, create_executor, update)
    results = [(run, measures) for run in runs if (measures := folder.read(run)) is not None]
    summary = summarise(results)
    replace_file(folder.path / "runs.csv", [format_runs(results).encode()])
    replace_file(folder.path / "summary.csv", [format_summary(summary).encode()])
    if summary:
        replace_file(folder.path / "summary.svg", [draw_summary(summary).encode()])
    print_table(SUMMARY_HEADERS, [*summary_rows(summary)])
    for error in errors:
        notify_user("error", str(error))
    raise typer.Exit(int(bool(errors)))


def _check(sweep: Sweep) -> None:
    """Report all that is wrong or odd in the inputs, once for all runs."""
    from kframework.errors import collect_errors, raise_collected

    errors: list[ConfigError] = []
    for configuration in sweep.configurations.values():
        for warning in configuration.warnings:
            notify_user("warning", warning)
        with collect_errors(errors):
            compile_profiles(configuration)
    raise_collected(errors)
    first = next(iter(sweep.configurations.values()))
    with progress_bar("Reading files"):
        for files in sweep.clusters.values():
            report_ignored(read_cluster(files, first), first)


@contextmanager
def _executors(jobs: int | None, dask: str | None) -> Iterator[Callable[[], Executor]]:
    """Open the workers, and yield what creates an executor on them."""
    from kframework.simulation.sweep.workers import local_processes

    if dask is None:
        yield partial(local_processes, jobs)
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise KFrameworkError("--dask needs Dask: pip install 'kframework-sdk[dask]'") from error
    try:
        client = Client(dask)  # type: ignore[no-untyped-call]  # it has no types yet
    except (OSError, ValueError) as error:
        raise KFrameworkError(f"no Dask scheduler at {dask}: {error}") from error
    with client:
        yield client.get_executor
