"""`kframework new`: write the package of a plugin, ready to be installed and tested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.new.points import DEFAULT, OPTIONS, POINTS, with_needs
from kframework.cli.options import Verbosity
from kframework.cli.printing import print_lines
from kframework.errors import nearest

if TYPE_CHECKING:
    from kframework.cli.new.package import Names


def command(
    path: Annotated[
        Path,
        typer.Argument(metavar="NAME", help="Name of the distribution, as few-pods; or the path of its new folder."),
    ],
    points: Annotated[
        str,
        typer.Option(metavar="POINT,...", help=f"Extension points to show, of: {', '.join(POINTS)}."),
    ] = ",".join(DEFAULT),
    columnar: Annotated[
        bool, typer.Option("--columnar", help="Filter and score many nodes at once, with NumPy.")
    ] = False,
    async_: Annotated[
        bool, typer.Option("--async", help="Show permit, pre_bind, bind and post_bind in forms that await.")
    ] = False,
    verbosity: Verbosity = 0,
) -> None:
    """Write the package of a plugin.

    Typed Args, a rule for each point, tests, an example to simulate and a CI file, in a folder of this name.
    """
    from kframework.cli.new.package import package

    names, chosen = _names(path), _points(points)
    options = {option for option, said in (("columnar", columnar), ("async", async_)) if said}
    for option in sorted(options):
        _require_any(chosen, option)
    if path.exists():
        raise typer.BadParameter(f"{path} is there already; choose another name, or remove it", param_hint="NAME")
    path.mkdir(parents=True)
    for name, text in package(names, chosen, options).items():
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


def _points(text: str) -> frozenset[str]:
    """Read the option --points, and add what they need."""
    chosen = [part.strip() for part in text.split(",")]
    for point in chosen:
        if point not in POINTS:
            raise typer.BadParameter(_no_point(point), param_hint="--points")
    return with_needs(chosen)


def _no_point(name: str) -> str:
    """Say what to write in place of a name that is no point."""
    homes = [point for point, shown in POINTS.items() if name in shown.hooks]
    if homes:
        return f"{name!r} comes along with {' and with '.join(homes)}"
    guess = nearest(name, POINTS)
    return f"no point {name!r}; " + (f"did you mean {guess!r}?" if guess else f"there are {', '.join(POINTS)}")


def _require_any(chosen: frozenset[str], option: str) -> None:
    """Refuse an option that changes none of the points."""
    if chosen.isdisjoint(OPTIONS[option]):
        remedy = f"only {', '.join(OPTIONS[option])} have such a form; name one in --points"
        raise typer.BadParameter(remedy, param_hint=f"--{option}")
