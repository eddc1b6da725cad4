"""Reading data of any shape."""

from __future__ import annotations

import pytest

from kframework.objects.plain_data import entries, flag, mapping, name, number, text, value

DOCUMENT = {
    "metadata": {"name": "a", "labels": {"a/b": "c"}},
    "spec": {"number": 3, "on": True, "list": [{"x": 1}, 2, {"y": 3}], "empty": ""},
}


def test_present_value_is_returned() -> None:
    assert value(DOCUMENT, "spec.number") == number(DOCUMENT, "spec.number") == 3
    assert text(DOCUMENT, "metadata.name") == name(DOCUMENT) == "a"
    assert mapping(DOCUMENT, "metadata.labels") == {"a/b": "c"}
    assert entries(DOCUMENT, "spec.list") == [{"x": 1}, {"y": 3}]
    assert flag(DOCUMENT, "spec.on")


@pytest.mark.parametrize("path", ["nothing", "spec.nothing.below", "spec.number.below", "spec.list.x", "spec.empty"])
def test_absent_value_is_empty(path: str) -> None:
    assert not value(DOCUMENT, path)
    assert text(DOCUMENT, path, "default") == "default"
    assert (number(DOCUMENT, path), flag(DOCUMENT, path)) == (0, False)
    assert (mapping(DOCUMENT, path), entries(DOCUMENT, path)) == ({}, [])


def test_value_of_another_type_is_empty() -> None:
    assert text(DOCUMENT, "spec.number") == ""
    assert number(DOCUMENT, "metadata.name") == 0
    assert not flag(DOCUMENT, "spec.number")
    assert mapping(DOCUMENT, "spec.list") == {}
    assert entries(DOCUMENT, "metadata") == []
