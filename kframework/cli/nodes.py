"""`kframework nodes`: the nodes to add so that all pods fit, or those that can be removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.live_cluster import LiveCluster
from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import (
    Config,
    Objects,
    Verbosity,
    VersionOptions,
    WideForm,
    WideOutput,
    expand_options,
)
from kframework.cli.printing import print_json
from kframework.errors import InputError
from kframework.simulation.inputs import load_simulation_configuration

if TYPE_CHECKING:
    from kframework.objects import ApiObject, Node


@expand_options
def command(
    filenames: Objects,
    plugin: PluginOption,
    *,
    live: LiveCluster,
    shapes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Add nodes like those in this file; the annotation kframework.dev/price has their price.",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --shapes: the objects in this file are to fit, too.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Find the nodes that can be emptied.")] = False,
    config: Config = None,
    output: WideOutput = None,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Plan the nodes of a cluster.

    With --shapes, prints the shapes and numbers of nodes to add so that all pending pods fit; the exit code is 1
    if some fit nowhere. With --remove, prints which nodes can be emptied, as their pods fit on others. Either is proved
    by scheduling the pods in memory. Changes nothing.
    """
    from kframework.capacity.nodes import plan_nodes, plan_removal
    from kframework.capacity.text import format_plan, format_removal
    from kframework.objects.manifest import read

    if (shapes is None) != remove:
        raise typer.BadParameter("give either --shapes or --remove")
    if workload is not None and shapes is None:
        raise typer.BadParameter("only with --shapes", param_hint="'--workload'")
    live.require_either(filenames, "-f")
    plugins = named_plugins(plugin)
    configuration = version.override(load_simulation_configuration(config, plugins))
    cluster = live.read(filenames, configuration, plugins).objects
    wide = output is WideForm.WIDE
    if shapes is None:
        removal = plan_removal(cluster, configuration, plugins=plugins)
        print_json(removal) if output is WideForm.JSON else typer.echo(format_removal(removal, wide=wide), nl=False)
        return
    added = [] if workload is None else read([workload]).objects
    plan = plan_nodes(cluster, _nodes(shapes, read([shapes]).objects), added, configuration, plugins=plugins)
    print_json(plan) if output is WideForm.JSON else typer.echo(format_plan(plan, wide=wide), nl=False)
    raise typer.Exit(int(bool(plan.unplaced)))


def _nodes(file: str, objects: list[ApiObject]) -> list[Node]:
    from kframework.objects import Node

    nodes = [each for each in objects if isinstance(each, Node)]
    if not nodes:
        raise InputError("has no nodes to add", file=file)
    return nodes
