"""`kframework new`: write the package of a plugin, ready to be installed and tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.options import Verbosity
from kframework.cli.printing import print_lines

if TYPE_CHECKING:
    from kframework.cli.new.package import Names


def command(
    path: Annotated[
        Path,
        typer.Argument(metavar="NAME", help="Name of the distribution, as few-pods; or the path of its new folder."),
    ],
    all_points: Annotated[
        bool,
        typer.Option("--all-points", help="Show every hook, to delete from, not Filter and Score alone."),
    ] = False,
    verbosity: Verbosity = 0,
) -> None:
    """Write the package of a plugin.

    Typed Args, a rule for each extension point, tests, an example to simulate and a CI file, in a folder of this name.
    """
    from kframework.cli.new.package import ALL_POINTS, FILTER_AND_SCORE, package

    names = _names(path)
    if path.exists():
        raise typer.BadParameter(f"{path} is there already; choose another name, or remove it", param_hint="NAME")
    path.mkdir(parents=True)
    for name, text in package(names, ALL_POINTS if all_points else FILTER_AND_SCORE).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print_lines(str(file))


def _names(path: Path) -> Names:
    from kframework.cli.new.package import names_of

    try:
        return names_of(path.name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
