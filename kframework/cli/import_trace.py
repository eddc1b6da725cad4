"""`kframework import`: turn published cluster traces into cluster files for `kframework simulate`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.options import Verbosity, expand_options, group, parse_duration, parse_positive_duration
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.simulation.cluster_traces.cluster import Period, TraceNode, TracePod

app: typer.Typer = group("Turn a cluster trace into a cluster file.")

Nodes = Annotated[str, typer.Option(metavar="FILE", help="Table of the nodes: CSV, plain or gzip.")]
Pods = Annotated[str, typer.Option(metavar="FILE", help="Table of the pods.")]


@dataclass(frozen=True, kw_only=True)
class PeriodOptions:
    """Options that choose a part of the trace."""

    start: Annotated[
        float | None,
        typer.Option(metavar="TIME", parser=parse_duration, help="Begin at this time of the trace (3600s, 1h30m)."),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=parse_positive_duration,
            help="Ignore what arrives later than this after the beginning; without it, import the trace to its end.",
        ),
    ] = None

    @property
    def period(self) -> Period:
        """The part of the trace, in its seconds."""
        from kframework.simulation.cluster_traces.cluster import Period

        start = self.start or 0.0
        return Period(start, math.inf if self.duration is None else start + self.duration)


@app.command("csv")
@expand_options
def import_csv(nodes: Nodes, pods: Pods, *, period: PeriodOptions, verbosity: Verbosity = 0) -> None:
    """Import a trace of your own.

    The first line of each table names its columns. Nodes have name, cpu, memory, gpu, gpu_model, pods, labels, arrival
    and down; pods have name, cpu, memory, arrival, duration, gpu, gpu_model, priority, namespace, labels and
    node_selector.
    """
    from kframework.simulation.cluster_traces.plain import read_plain

    _print_cluster(read_plain(nodes, pods), period.period)


@app.command("alibaba-2020")
@expand_options
def import_alibaba_2020(
    machines: Annotated[str, typer.Option(metavar="FILE", help="pai_machine_spec.csv, plain or gzip.")],
    jobs: Annotated[str, typer.Option(metavar="FILE", help="pai_job_table.csv.")],
    tasks: Annotated[str, typer.Option(metavar="FILE", help="pai_task_table.csv.")],
    instances: Annotated[str, typer.Option(metavar="FILE", help="pai_instance_table.csv.")],
    *,
    period: PeriodOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Import Alibaba's cluster-trace-gpu-v2020, a pod for each instance that ran."""
    from kframework.simulation.cluster_traces.alibaba import PaiFiles, read_pai

    _print_cluster(read_pai(PaiFiles(machines, jobs, tasks, instances), period.period), period.period)


@app.command("alibaba-2023")
@expand_options
def import_alibaba_2023(nodes: Nodes, pods: Pods, *, period: PeriodOptions, verbosity: Verbosity = 0) -> None:
    """Import Alibaba's cluster-trace-gpu-v2023: a node list and a pod list of openb."""
    from kframework.simulation.cluster_traces.alibaba import read_openb

    _print_cluster(read_openb(nodes, pods), period.period)


@app.command("borg-2019")
@expand_options
def import_borg_2019(
    machine_events: Annotated[
        str, typer.Option(metavar="FILE", help="Columns time, machine_id, type, cpus, memory of machine_events.")
    ],
    instance_events: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Columns time, type, collection_id, instance_index, priority, alloc_collection_id, cpus, memory of"
            " instance_events.",
        ),
    ],
    *,
    period: PeriodOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Import Google's Borg trace of 2019, exported from BigQuery as CSV in the order of time."""
    from kframework.simulation.cluster_traces.borg import read_borg

    _print_cluster(read_borg(machine_events, instance_events), period.period)


def _print_cluster(records: Iterable[TraceNode | TracePod], period: Period) -> None:
    """Print the objects as a list, one a line, as soon as they are read."""
    from collections import Counter

    import msgspec

    from kframework.observe.text_table import format_count
    from kframework.simulation.cluster_traces.cluster import create_objects

    counts = Counter[object]()
    encode = msgspec.json.Encoder().encode
    sys.stdout.write('{"apiVersion": "v1", "kind": "List", "items": [')
    for document in create_objects(records, period):
        separator = ",\n" if counts else "\n"
        counts[document["kind"]] += 1
        sys.stdout.write(separator + encode(document).decode())
    sys.stdout.write("\n]}\n")
    notify_user("notice", f"{format_count(counts['Node'], 'node')}, {format_count(counts['Pod'], 'pod')}")
