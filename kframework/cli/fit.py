"""`kframework fit`: whether a workload fits a cluster, whom it evicts, and how many copies of it fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.config import compile_profiles
from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import STDIN, Config, Devices, Verbosity, VersionOptions, WideForm, expand_options
from kframework.cli.printing import print_json
from kframework.simulation.inputs import load_simulation_configuration, read_cluster, report_groups

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.framework.plugin import Plugin
    from kframework.objects import ApiObject
    from kframework.objects.manifest import Manifest

#: As many copies as fit.
_MAX = "max"


def _parse_copies(text: str) -> int:
    from kframework.capacity.fit import MAX_COPIES

    if text == _MAX:
        return MAX_COPIES
    if not text.isdecimal() or not 1 <= int(text) <= MAX_COPIES:
        raise typer.BadParameter(f"write a number from 1 to {MAX_COPIES}, or {_MAX}")
    return int(text)


@expand_options
def command(
    filenames: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="Cluster file, folder of such files, or - for stdin; the last one is the workload. Repeatable.",
        ),
    ],
    plugin: PluginOption,
    *,
    kubeconfig: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the cluster that this kubeconfig names, not files.")
    ] = None,
    kube_context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; without it, the current one."),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            "--copies",
            metavar="N|max",
            parser=_parse_copies,
            help="Find out how many copies of the workload fit, at most N.",
        ),
    ] = None,
    config: Config = None,
    devices: Devices = None,
    output: Annotated[
        WideForm | None,
        typer.Option("-o", "--output", help="Print everything, or JSON, instead of the short text."),
    ] = None,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Find out whether a workload fits a cluster.

    The last file has the pods, or a Deployment, Job, StatefulSet or PodGroup with its pods; the others have the
    cluster, as `kubectl get nodes,pods -A -o yaml` prints it. The workload is scheduled in memory: prints its nodes,
    the pods that it evicts, and what would help. Changes nothing. The exit code is 1 if it does not fit.
    """
    from kframework.capacity.fit import fit
    from kframework.capacity.text import format_fit
    from kframework.objects.manifest import read

    plugins = named_plugins(plugin)
    configuration = version.override(load_simulation_configuration(config, plugins))
    *cluster_files, workload_file = filenames
    if kube_context is not None and kubeconfig is None:
        raise typer.BadParameter("only with --kubeconfig", param_hint="'--context'")
    if (kubeconfig is None) == (not cluster_files):
        problem = "name the cluster with another -f before it, or with --kubeconfig"
        raise typer.BadParameter(problem if not cluster_files else "give either files or a kubeconfig")
    if kubeconfig is None:
        manifest = read_cluster(filenames, configuration, plugins, devices=devices)
        report_groups(manifest, configuration.options.gates)
        cluster, workload = _split(manifest, workload_file)
    else:
        cluster = _read_live(configuration, plugins, kubeconfig, kube_context)
        workload = read([workload_file]).objects  # the classes that they name are in the cluster
    result = fit(cluster, workload, configuration, plugins=plugins, copies=copies or 1)
    if output is WideForm.JSON:
        print_json(result)
    else:
        typer.echo(format_fit(result, wide=output is WideForm.WIDE), nl=False)
    raise typer.Exit(int(not result.fits))


def _split(manifest: Manifest, workload_file: str) -> tuple[list[ApiObject], list[ApiObject]]:
    """Split objects into those of the cluster, devices included, and those of the workload's file or folder."""
    cluster: list[ApiObject] = []
    workload: list[ApiObject] = []
    path = Path(workload_file)
    for subject, location in zip(manifest.objects, manifest.locations, strict=False):
        name = location.source.name
        is_workload = name == "<stdin>" if workload_file == STDIN else path in (Path(name), *Path(name).parents)
        (workload if is_workload else cluster).append(subject)
    return cluster + manifest.objects[len(manifest.locations) :], workload


def _read_live(
    configuration: Configuration, plugins: Sequence[type[Plugin]], kubeconfig: str, context: str | None
) -> list[ApiObject]:
    """Read what a scheduler of this configuration would watch, and what decides which pods are admitted."""
    import asyncio
    from random import Random

    from kframework.client.kube import ConnectionSettings, connect
    from kframework.client.kube_cluster import KubeCluster, list_objects
    from kframework.clock import SystemClock
    from kframework.core.pod_engine import group_watches
    from kframework.core.runtime.profiles import watched_kinds
    from kframework.objects import LimitRange, PriorityClass, RuntimeClass

    watched = watched_kinds(compile_profiles(configuration, plugins))
    groups = (watch.kind for watch in group_watches(configuration.options.gates))
    kinds: list[type[ApiObject]] = [*watched, *groups, PriorityClass, RuntimeClass, LimitRange]

    async def read() -> list[ApiObject]:
        transport = await connect(ConnectionSettings(kubeconfig=kubeconfig, context=context))
        try:
            return await list_objects(KubeCluster(transport, SystemClock(), random=Random()), dict.fromkeys(kinds))
        finally:
            await transport.close()

    return asyncio.run(read())
