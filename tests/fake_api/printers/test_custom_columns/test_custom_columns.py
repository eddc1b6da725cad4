"""The columns of kinds that are not built in."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.custom_columns import custom_layout
from kframework.objects import PrinterColumn

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
DOCUMENT: dict[str, object] = {
    "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"},
    "spec": {"word": "x", "count": 3, "half": 0.5, "on": True, "list": ["p", "q"], "map": {"a": 1}, "none": None},
}


@pytest.mark.parametrize(
    ("type_name", "path", "cell"),
    [
        ("string", ".spec.word", "x"),
        ("string", ".spec.count", "3"),
        ("string", ".spec.on", "true"),
        ("string", ".spec.list[*]", "p q"),
        ("string", ".spec.list", '["p","q"]'),
        ("string", ".spec.map", '{"a":1}'),
        ("string", ".spec.none", None),
        ("string", ".spec.nothing", None),
        ("integer", ".spec.count", 3),
        ("integer", ".spec.on", None),
        ("integer", ".spec.word", None),
        ("number", ".spec.half", 0.5),
        ("boolean", ".spec.on", True),
        ("boolean", ".spec.count", None),
        ("date", ".metadata.creationTimestamp", "5m"),
        ("date", ".spec.word", "<invalid>"),
        ("date", ".spec.nothing", None),
        ("nonsense", ".spec.word", None),
    ],
)
def test_cell_shows_a_value_of_its_columns_type(type_name: str, path: str, cell: object) -> None:
    column = PrinterColumn(name="STATUS", type=type_name, json_path=path, priority=1)
    laid_out = custom_layout((column,))
    assert [each["name"] for each in laid_out.columns] == ["Name", "STATUS"]
    assert (laid_out.columns[1]["type"], laid_out.columns[1]["priority"]) == (type_name, 1)
    assert laid_out.cells(DOCUMENT, NOW) == ("a", cell)


def test_without_columns_the_age_is_shown() -> None:
    laid_out = custom_layout(())
    assert [each["name"] for each in laid_out.columns] == ["Name", "Age"]
    assert laid_out.cells(DOCUMENT, NOW) == ("a", "5m")
