"""The parts of values."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.shapes import (
    ABSENT,
    ATOMIC,
    UNTYPED,
    ListShape,
    StructShape,
    map_shape,
    problems,
    resource_shape,
)
from kframework.objects import Pod
from tests.fake_api.local_api import Json, pod, resource_of

NAMED = ListShape(map_shape(ATOMIC), ("name", "protocol"), {"protocol": "TCP"})


def test_atomic_value_has_no_parts() -> None:
    assert ATOMIC.parts({"a": 1}) is None
    assert ATOMIC.parts(ABSENT) is None


def test_untyped_maps_have_parts() -> None:
    assert list(UNTYPED.parts({"a": [1]}) or {}) == ["f:a"]
    assert UNTYPED.parts([1]) is None
    assert UNTYPED.parts(ABSENT) == {}


def test_fields_of_a_type_are_named_and_keys_of_a_map_are_not() -> None:
    shape = StructShape({"known": ATOMIC}.get)
    parts = shape.parts({"known": 1, "other": 2}) or {}
    assert {element: (part.value, part.is_named) for element, part in parts.items()} == {
        "f:known": (1, True),
        "f:other": (2, False),
    }
    assert shape.child("f:known").is_named
    assert not map_shape(ATOMIC).child("f:known").is_named
    assert shape.parts("text") is None


def test_list_elements_are_named_by_their_keys() -> None:
    item = {"name": "a", "value": 1}
    assert NAMED.name(item) == 'k:{"name":"a","protocol":"TCP"}'
    assert ListShape(ATOMIC, (), {}).name("x") == 'v:"x"'
    assert ListShape(ATOMIC, ("name",), {}).name({}) == "k:{}"
    assert [part.value for part in (NAMED.parts([item]) or {}).values()] == [item]


def test_duplicate_elements_are_one_value() -> None:
    twice = [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]
    first, second = (NAMED.parts(twice) or {}).values()
    assert (first.shape is ATOMIC, first.value) == (True, [twice[0], twice[1]])
    assert second.value == {"name": "b"}


NAMELESS = (
    ".spec.containers: element 0: associative list with keys has an element that omits all key fields"
    ' ["name"] (and doesn\'t have default values for any key fields)'
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"nodeNam": "n"}, [".spec.nodeNam: field not declared in schema"]),
        (
            {"containers": [{"name": "c", "x": 1}]},
            ['.spec.containers[name="c"].x: field not declared in schema'],
        ),
        ({"containers": [{"name": "c"}] * 3}, ['.spec.containers: duplicate entries for key [name="c"]']),
        ({"containers": [{}]}, [NAMELESS]),
        (
            {"containers": ["c"]},
            [".spec.containers: element 0: associative list with keys may not have non-map elements"],
        ),
        ({"nodeSelector": {"any": "thing"}}, []),
    ],
)
def test_problems_are_formatted(fields: Json, expected: list[str]) -> None:
    assert list(problems(resource_shape(resource_of(Pod)), pod(**fields))) == expected


def test_untyped_values_can_be_applied() -> None:
    assert list(problems(UNTYPED, {"a": [{"b": 1}, {"b": 1}]})) == []
