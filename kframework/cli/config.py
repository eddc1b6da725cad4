"""`kframework config`: check a configuration, and show what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.logs import say
from kframework.cli.options import Verbosity, group

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.core.runtime.profiles import Profiles

app: typer.Typer = group("Check and show configurations.")


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Configuration file, or - for stdin.")],
    verbosity: Verbosity = 0,
) -> None:
    """Check a configuration as the scheduler does when it starts.

    Fields, plugins and their args are checked. Prints a line for each thing that is wrong.
    """
    for notice in compiled(configured(file)).notices:
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
    from kframework.config.show import effective_yaml

    typer.echo(effective_yaml(configured(file)), nl=False)


def configured(file: str | None) -> Configuration:
    """Load a configuration, the default one without a file, and pass on what is odd about it."""
    from kframework.config.load import default_configuration, load

    configuration = load(file) if file is not None else default_configuration()
    for warning in configuration.warnings:
        say("warning", warning)
    return configuration


def compiled(configuration: Configuration) -> Profiles:
    """Return the profiles of a scheduler of this configuration; raises for all that keeps it from being made."""
    from kframework.clock import SystemClock
    from kframework.cluster.memory import MemoryCluster
    from kframework.scheduler.scheduler import Scheduler

    clock = SystemClock()
    return Scheduler(configuration, MemoryCluster(clock), clock).profiles
