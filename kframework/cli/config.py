"""`kframework config`: check a configuration, and show what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.logs import say
from kframework.cli.options import Verbosity, group

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration

app: typer.Typer = group("Check and show configurations.")


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Configuration file, or - for stdin.")],
    verbosity: Verbosity = 0,
) -> None:
    """Check a configuration as the scheduler does when it starts.

    Fields, plugins and their args are checked. Prints a line for each thing that is wrong.
    """
    from kframework.clock import SystemClock
    from kframework.cluster.memory import MemoryCluster
    from kframework.config.load import load
    from kframework.scheduler.scheduler import Scheduler

    configuration = load(file)
    warn(configuration)
    clock = SystemClock()
    for notice in Scheduler(configuration, MemoryCluster(clock), clock).profiles.notices:
        say("notice", notice)
    typer.echo(f"{file}: ok")


@app.command()
def show(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="Configuration file, or - for stdin.")] = None,
    verbosity: Verbosity = 0,
) -> None:
    """Print the effective configuration.

    Every default is filled in and every plugin in its place; without FILE it is the default configuration.
    """
    from kframework.config.load import default_configuration, load
    from kframework.config.show import effective_yaml

    configuration = load(file) if file is not None else default_configuration()
    warn(configuration)
    typer.echo(effective_yaml(configuration), nl=False)


def warn(configuration: Configuration) -> None:
    """Pass on what is odd about a configuration."""
    for warning in configuration.warnings:
        say("warning", warning)
