r"""The columns of kinds that are not built in, as CustomResourceDefinitions describe them, and their JSONPath subset.

That is names (`.status.phase`, `['a.b']`, `a\.b`), indexes of a list (`[0]`, `[-1]`, `[*]`), and filters by equality:
`.status.conditions[?(@.type=="Ready")].status`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import UnionType
from typing import cast

import msgspec

from kframework.fake_api.printers.layouts import Cell, Document, Layout, layout, since
from kframework.objects import PrinterColumn

#: Makes of one value those that stand below it.
Step = Callable[[object], Iterator[object]]

_STEP = re.compile(
    r"""
    \.?(?P<name>(?:\\.|[^.\[\]\\'"\s*?()])+)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[(?P<place>-?\d+)\]
    | (?P<every>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<below>[^=!<>]+?)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
    """,
    re.VERBOSE,
)


def json_path(written: str) -> Step:
    """Read a path; what it returns finds all that stands there, and nothing if the path is none that is understood."""
    steps: list[Step] = []
    rest = written.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return lambda document: iter(())
        steps.append(_step(match))
        rest = rest[match.end() :]

    def find(document: object) -> Iterator[object]:
        found = [document]
        for step in steps:
            found = [below for each in found for below in step(each)]
        return iter(found)

    return find


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None or match["quote"]:
        name = match["quoted"] if match["quote"] else re.sub(r"\\(.)", r"\1", match["name"])
        return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else [])
    if match["place"]:
        place = int(match["place"])
        return lambda value: iter(
            [value[place]] if isinstance(value, list) and -len(value) <= place < len(value) else []
        )
    if match["every"]:
        return lambda value: iter(
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
    below, wanted = json_path(match["below"]), match["value"].strip("\"'")
    return lambda value: (
        element for element in (value if isinstance(value, list) else ()) if wanted in map(_text, below(element))
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=256)
def custom_layout(columns: tuple[PrinterColumn, ...]) -> Layout:
    """Lay a kind out: its name, then these columns, or its age if there are none."""
    if not columns:
        return layout("Name, Age")
    name = layout("Name")
    fills = [_fill(column) for column in columns]
    described: list[Document] = [
        {
            "name": column.name,
            "type": column.type,
            "format": "",
            "description": f"Custom resource definition column (in JSONPath format): {column.json_path}",
            "priority": column.priority,
        }
        for column in columns
    ]
    return Layout(
        name.columns + described,
        lambda document, now: (*name.cells(document, now), *(fill(document, now) for fill in fills)),
    )


def _fill(column: PrinterColumn) -> Callable[[Document, float], Cell]:
    """Fill a cell as kube-apiserver does: nothing where nothing of the column's type stands."""
    path = json_path(column.json_path)

    def joined(document: Document, now: float) -> Cell:
        found = [each for each in path(document) if each is not None]
        written = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in found]
        return " ".join(written) if written else None

    match column.type:
        case "string":
            return joined
        case "date":
            return lambda document, now: (
                since(found, now) if isinstance(found := next(path(document), None), str) else None
            )
        case "boolean":
            return lambda document, now: found if isinstance(found := next(path(document), None), bool) else None
        case "integer":
            return lambda document, now: _number(next(path(document), None), int)
        case "number":
            return lambda document, now: _number(next(path(document), None), int | float)
    return lambda document, now: None


def _number(found: object, wanted: type[int] | UnionType) -> Cell:
    return cast("Cell", found) if isinstance(found, wanted) and not isinstance(found, bool) else None
