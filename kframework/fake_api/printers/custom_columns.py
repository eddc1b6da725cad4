"""The columns of kinds that are not built in, as their CustomResourceDefinitions describe them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import UnionType
from typing import cast

import msgspec

from kframework.fake_api.printers.ages import since
from kframework.fake_api.printers.json_paths import Step, json_path
from kframework.fake_api.printers.layouts import Cell, Document, Layout, layout
from kframework.objects import PrinterColumn


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
