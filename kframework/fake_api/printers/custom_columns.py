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
    return lambda document: _followed(document, steps)


def _followed(document: object, steps: list[Step]) -> Iterator[object]:
    found = [document]
    for step in steps:
        found = [below for each in found for below in step(each)]
    return iter(found)


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return _named(re.sub(r"\\(.)", r"\1", match["name"]))
    if match["quote"]:
        return _named(match["quoted"])
    if match["place"]:
        return _placed(int(match["place"]))
    if match["every"]:
        return _every
    return _equal(json_path(match["below"]), match["value"].strip("\"'"))


def _named(name: str) -> Step:
    return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else [])


def _placed(place: int) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, list) and -len(value) <= place < len(value):
            yield value[place]

    return step


def _every(value: object) -> Iterator[object]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _equal(below: Step, wanted: str) -> Step:
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
    described = [*name.columns, *map(_described, columns)]
    return Layout(
        described,
        lambda document, now: (*name.cells(document, now), *(fill(document, now) for fill in fills)),
    )


def _described(column: PrinterColumn) -> Document:
    return {
        "name": column.name,
        "type": column.type,
        "format": "",
        "description": f"Custom resource definition column (in JSONPath format): {column.json_path}",
        "priority": column.priority,
    }


def _fill(column: PrinterColumn) -> Callable[[Document, float], Cell]:
    """Fill a cell as kube-apiserver does: nothing where nothing of the column's type stands."""
    path = json_path(column.json_path)
    match column.type:
        case "string":
            return lambda document, now: _joined(path, document)
        case "date":
            return lambda document, now: _age(path, document, now)
        case "boolean":
            return lambda document, now: found if isinstance(found := next(path(document), None), bool) else None
        case "integer":
            return lambda document, now: _number(next(path(document), None), int)
        case "number":
            return lambda document, now: _number(next(path(document), None), int | float)
    return lambda document, now: None


def _number(found: object, wanted: type[int] | UnionType) -> Cell:
    return cast("Cell", found) if isinstance(found, wanted) and not isinstance(found, bool) else None


def _joined(path: Step, document: Document) -> Cell:
    found = [_written(each) for each in path(document) if each is not None]
    return " ".join(found) if found else None


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _age(path: Step, document: Document, now: float) -> Cell:
    found = next(path(document), None)
    return since(found, now) if isinstance(found, str) else None
