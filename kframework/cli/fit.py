"""`kframework fit`: whether a workload fits a cluster, whom it evicts, and how many copies of it fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.ask_scheduler import CertificateAuthority, ask_scheduler
from kframework.cli.live_cluster import LiveCluster
from kframework.cli.named_plugins import PluginOption, named_engine, named_plugins
from kframework.cli.options import (
    STDIN,
    Config,
    Verbosity,
    VersionOptions,
    WideForm,
    WideOutput,
    expand_options,
)
from kframework.cli.printing import print_json
from kframework.simulation.inputs import load_simulation_configuration, read_cluster
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.capacity.fit_result import FitResult
    from kframework.capacity.fit_simulation import SimulatedEngineKind
    from kframework.core.engine import Engine
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
    live: LiveCluster,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask the scheduler at this address, which answers for 500 pods at most."),
    ] = None,
    certificate_authority: CertificateAuthority = None,
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
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Engine to schedule with, such as batch; --config is then its configuration."
        ),
    ] = None,
    output: WideOutput = None,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Find out whether a workload fits a cluster.

    The last file has the pods, or a Deployment, Job, StatefulSet or PodGroup with its pods; the others have the
    cluster, as `kubectl get nodes,pods -A -o yaml` prints it. The workload is scheduled in memory: prints its nodes,
    the pods that it evicts, and what would help. Changes nothing. The exit code is 1 if it does not fit.
    """
    from kframework.capacity.fit import fit, fit_by_engine
    from kframework.capacity.text import format_fit
    from kframework.objects.manifest import read

    *cluster_files, workload_file = filenames
    if scheduler is not None:
        if cluster_files or live != LiveCluster() or config or engine or plugin or copies or version.feature_gates:
            raise typer.BadParameter(
                "has its own cluster and configuration: name the workload alone", param_hint="'--scheduler'"
            )
        result = _ask(scheduler, certificate_authority, read([workload_file]).objects)
    elif engine is not None:
        if plugin or version.feature_gates or version.emulated_version:
            raise typer.BadParameter("has its own plugins, and no feature gates", param_hint="'--engine'")
        live.require_either(cluster_files, "another -f before it")
        kind = _simulated_engine(engine)
        if live.kubeconfig is None:
            cluster, workload = _split(read_cluster(filenames, devices=live.devices), workload_file)
        else:
            cluster, workload = live.list_objects(kind.watched_kinds(config)), read([workload_file]).objects
        result = fit_by_engine(kind, cluster, workload, config, copies=copies or 1)
    else:
        live.require_either(cluster_files, "another -f before it")
        plugins = named_plugins(plugin)
        configuration = version.override(load_simulation_configuration(config, plugins))
        manifest = live.read(filenames, configuration, plugins)
        cluster, workload = _split(manifest, workload_file)
        if live.kubeconfig is not None:
            workload = read([workload_file]).objects  # the classes that they name are in the cluster
        result = fit(cluster, workload, configuration, plugins=plugins, copies=copies or 1)
    if output is WideForm.JSON:
        print_json(result)
    else:
        typer.echo(format_fit(result, wide=output is WideForm.WIDE), nl=False)
    raise typer.Exit(int(not result.fits))


def _simulated_engine(name: str) -> SimulatedEngineKind[Engine]:
    from kframework.capacity.fit_simulation import SimulatedEngineKind

    kind = named_engine(name)
    if not isinstance(kind, SimulatedEngineKind):
        raise typer.BadParameter(f"{name!r} does not say what fits", param_hint="'--engine'")
    return kind


def _ask(scheduler: str, certificate_authority: str | None, objects: list[ApiObject]) -> FitResult:
    """Ask a running scheduler about the pods of a workload."""
    import msgspec

    from kframework.capacity.fit_result import FitResult
    from kframework.capacity.live_fit import FitRequest
    from kframework.capacity.workload import Workload, expand
    from kframework.errors import ExplainError
    from kframework.objects import PersistentVolumeClaim, ResourceClaim, ResourceClaimTemplate
    from kframework.objects.kinds import reference

    workload = Workload(objects)
    for each in workload.others:
        if not isinstance(each, (ResourceClaim, ResourceClaimTemplate, PersistentVolumeClaim)):
            notify_user("notice", f"ignored, as the scheduler knows its own: {reference(each)}")
    question = FitRequest(workload.names, *expand(objects))
    answer = ask_scheduler(scheduler, certificate_authority, "/fit", msgspec.json.encode(question))
    try:
        return msgspec.json.decode(answer, type=FitResult)
    except msgspec.DecodeError as error:
        raise ExplainError(f"{scheduler} is not a scheduler of this version: {error}") from error


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
