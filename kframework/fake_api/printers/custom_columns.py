r"""The printer columns of CustomResourceDefinitions, and their subset of JSONPath.

It has names (`.status.phase`, `['a.b']`, `a\.b`), list indexes (`[0]`, `[-1]`, `[*]`), and filters by equality:
`.status.conditions[?(@.type=="Ready")].status`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import UnionType
from typing import cast

import msgspec

from kframework.fake_api.printers.layouts import Cell, TableLayout, format_elapsed, lay_out
from kframework.fake_api.wire.documents import Data
from kframework.objects import PrinterColumn

Step = Callable[[object], Iterator[object]]

_STEP = re.compile(
    r"""
    \.?(?P<name>(?:\\.|[^.\[\]\\'"\s*?()])+)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | (?P<every>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<below>[^=!<>]+?)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
    """,
    re.VERBOSE,
)


def compile_json_path(path: str) -> Step:
    """Compile a path into a function that yields all values at it; an unsupported path yields nothing."""
    steps: list[Step] = []
    rest = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return lambda document: iter(())
        steps.append(_compile_step(match))
        rest = rest[match.end() :]

    def find(document: object) -> Iterator[object]:
        values = [document]
        for step in steps:
            values = [below for each in values for below in step(each)]
        return iter(values)

    return find


def _compile_step(match: re.Match[str]) -> Step:
    if match["name"] is not None or match["quote"]:
        name = match["quoted"] if match["quote"] else re.sub(r"\\(.)", r"\1", match["name"])
        return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else [])
    if match["index"]:
        index = int(match["index"])
        return lambda value: iter(
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
        )
    if match["every"]:
        return lambda value: iter(
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
    below, expected = compile_json_path(match["below"]), match["value"].strip("\"'")
    return lambda value: (
        element for element in (value if isinstance(value, list) else ()) if expected in map(_text, below(element))
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=256)
def custom_layout(columns: tuple[PrinterColumn, ...]) -> TableLayout:
    """Return the layout of a kind: its name, then these columns, or its age without any."""
    if not columns:
        return lay_out("Name, Age")
    name = lay_out("Name")
    readers = [_cell_reader(column) for column in columns]
    described: list[Data] = [
        {
            "name": column.name,
            "type": column.type,
            "format": "",
            "description": f"Custom resource definition column (in JSONPath format): {column.json_path}",
            "priority": column.priority,
        }
        for column in columns
    ]
    return TableLayout(
        name.columns + described,
        lambda document, now: (*name.cells(document, now), *(read(document, now) for read in readers)),
    )


def _cell_reader(column: PrinterColumn) -> Callable[[Data, float], Cell]:
    """Return a cell reader as in kube-apiserver: empty unless there is a value of the column's type."""
    path = compile_json_path(column.json_path)

    def join_values(document: Data, now: float) -> Cell:
        values = [each for each in path(document) if each is not None]
        texts = [each if isinstance(each, str) else msgspec.json.encode(each).decode() for each in values]
        return " ".join(texts) if texts else None

    match column.type:
        case "string":
            return join_values
        case "date":
            return lambda document, now: (
                format_elapsed(cell, now) if isinstance(cell := next(path(document), None), str) else None
            )
        case "boolean":
            return lambda document, now: cell if isinstance(cell := next(path(document), None), bool) else None
        case "integer":
            return lambda document, now: _number(next(path(document), None), int)
        case "number":
            return lambda document, now: _number(next(path(document), None), int | float)
    return lambda document, now: None


def _number(value: object, expected: type[int] | UnionType) -> Cell:
    return cast("Cell", value) if isinstance(value, expected) and not isinstance(value, bool) else None
