"""`kframework bench`: run the workloads of Kubernetes' scheduler_perf, and report their throughput."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.options import Verbosity
from kframework.cli.printing import DataForm, print_answer, print_table, progress_bar
from kframework.observe.text_table import NONE
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.testing.scheduler_perf.benchmark import WorkloadResult

_HEADERS = ("WORKLOAD", "PODS", "PODS/S", "AVERAGE", "CYCLE P50", "P99", "CPU/POD", "PEAK", "FLOOR")


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="scheduler_perf's performance-config.yaml, or a folder with such files; repeatable."
        ),
    ],
    workload: Annotated[
        list[str],
        typer.Option(
            metavar="GLOB",
            default_factory=list,
            show_default=False,
            help="Run only workloads of this name or test case, such as 'SchedulingBasic/5000Nodes*'; repeatable.",
        ),
    ],
    label: Annotated[
        list[str],
        typer.Option(
            metavar="LABELS",
            default_factory=list,
            show_default=False,
            help="Run only workloads with these labels, such as performance or integration-test,-short; repeatable.",
        ),
    ],
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="KubeSchedulerConfiguration file, instead of the workloads' own.")
    ] = None,
    output: Annotated[
        DataForm | None,
        typer.Option("-o", "--output", help="Print JSON or YAML with all measurements, instead of a table."),
    ] = None,
    verbosity: Verbosity = 0,
) -> None:
    """Run scheduler_perf's workloads in memory, and measure them.

    Each workload runs in its own process, in real time, on a cluster in memory without kubelets. Exits 1 if one fails
    or stays below the threshold in its file.
    """
    from kframework.errors import InputError
    from kframework.testing.scheduler_perf.benchmark import benchmark
    from kframework.testing.scheduler_perf.definitions import read, select_definitions

    definitions = select_definitions(read(files), workload, label)
    if not definitions:
        raise InputError("no workload has such a name and labels", file=", ".join(files))
    results = []
    for definition in definitions:
        with progress_bar(definition.name) as report_progress:
            results.append(benchmark(definition, config, report_progress))
    _print(results, output)
    raise typer.Exit(1 if any(result.failed or result.is_below_floor for result in results) else 0)


def _print(results: Iterable[WorkloadResult], output: DataForm | None) -> None:
    if output is not None:
        print_answer(output, [*results])
        return
    print_table(_HEADERS, [row for result in results for row in _rows(result)])
    sys.stdout.flush()
    for result in results:
        if result.failed:
            notify_user("error", result.failed)
        elif result.is_below_floor:
            notify_user("error", f"{result.name} is below its floor of {result.floor:g} pods/s")
        elif result.skipped:
            notify_user("notice", f"{result.name} was not run: {result.skipped}")


def _rows(result: WorkloadResult) -> Iterator[tuple[str, ...]]:
    for measured in result.measurements:
        cycle = measured.cycle_us
        yield (
            f"{result.name}/{measured.name}" if measured.name else result.name,
            f"{measured.pods:,}",
            f"{measured.pods_per_second:,.0f}",
            f"{measured.throughput.average:,.0f}" if measured.throughput is not None else NONE,
            f"{cycle.perc50:,.0f} us" if cycle is not None else NONE,
            f"{cycle.perc99:,.0f} us" if cycle is not None else NONE,
            f"{measured.cpu_us_per_pod:,.0f} us",
            f"{measured.peak_mib:,.0f} MiB",
            f"{result.floor:g}" if result.floor else NONE,
        )
