"""Command lines that stand in files, parsed as the program would, and not run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import typer

__all__ = ["parse"]


def parse(app: typer.Typer, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that a command line gives to its command; raises what a wrong one raises."""
    command: Any = typer.main.get_command(app)
    rest, settings = list(arguments), command.context_settings
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    level = logging.getLogger().level
    try:
        # A command keeps the help options of its first context, so that without the settings `-h` is lost for good.
        context = command.make_context("command", rest, **settings)
    finally:
        logging.getLogger().setLevel(level)  # `-v` takes effect where it is read
    return dict(context.params)
