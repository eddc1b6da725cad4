"""How columns are written down and filled."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.layouts import lay_out, parse_columns


def test_column_has_a_type_and_a_priority() -> None:
    assert parse_columns("Name, (Count:integer)=spec.count") == [
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        {"name": "Count", "type": "integer", "format": "", "description": "", "priority": 1},
    ]


def test_cell_without_a_path_is_computed() -> None:
    cells = lay_out("Name, Sum:integer, Age", {"Sum": lambda document, now: len(document)}).cells
    assert cells({"metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:00Z"}}, 5) == ("a", 1, "5s")


@pytest.mark.parametrize(
    ("column", "found", "cell"),
    [
        ("Phase=spec.x|Pending", "Bound", "Bound"),
        ("Phase=spec.x|Pending", "", "Pending"),
        ("Phase=spec.x|Pending", True, "Pending"),
        ("Capacity=spec.x|0", 5, "5"),
        ("Min Available=spec.x|N/A", 0, "0"),
        ("Desired:integer=spec.x|1", None, 1),
        ("Desired:integer=spec.x|1", 0, 0),
        ("Ready:integer=spec.x", "", 0),
        ("Attached:boolean=spec.x", True, True),
        ("Attached:boolean=spec.x", "true", False),
    ],
)
def test_cell_shows_the_value_at_its_path(column: str, found: object, cell: object) -> None:
    assert lay_out(column).cells({"spec": {"x": found}}, 0) == (cell,)
