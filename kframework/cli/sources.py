"""The option that plays the values of plugins' sources from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kframework.simulation.source_script import SourceFile

SourceOption = Annotated[
    list[str],
    typer.Option(
        "--source",
        metavar="PLUGIN/NAME=FILE",
        default_factory=list,
        show_default=False,
        help="Play the values of a plugin's source from a file instead of fetching them: lines such as"
        " {at: 30, values: {a: 1}}, with the seconds since the start. Repeatable.",
    ),
]


def read_source_file(option: str) -> SourceFile:
    """Read the file of an option; raises typer.BadParameter for another form, and InputError for a faulty file."""
    from kframework.simulation.source_script import SourceFile

    source, _, file = option.partition("=")
    plugin, _, name = source.partition("/")
    if not (plugin and name and file):
        raise typer.BadParameter(f"{option!r} is not PLUGIN/NAME=FILE", param_hint="'--source'")
    return SourceFile(plugin, name, file)
