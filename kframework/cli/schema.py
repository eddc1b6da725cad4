"""`kframework schema`: print the JSON Schema of what commands print with `-o json`."""

from __future__ import annotations

from typing import Annotated

import typer

from kframework.cli.options import Verbosity
from kframework.cli.printing import print_json, print_table


def command(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="Kind of an answer, such as FitResult.")] = None,
    verbosity: Verbosity = 0,
) -> None:
    """Print the JSON Schema of an answer.

    Every answer of `-o json` names its `kind` and `apiVersion`. Without KIND, lists the kinds.
    """
    from kframework.cli.answers import answer_kinds, answer_schema

    sources = answer_kinds()
    kinds = {answer.__name__: answer for answer in sources}
    if kind is None:
        print_table(("KIND", "PRINTED BY"), [(answer.__name__, source) for answer, source in sources.items()])
    elif kind in kinds:
        print_json(answer_schema(kinds[kind]))
    else:
        raise typer.BadParameter(f"{kind!r} is none of {', '.join(kinds)}", param_hint="'KIND'")
