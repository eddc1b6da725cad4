"""Of which parts values consist."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.shapes import ABSENT, ANY, ONE_VALUE, Elements, Fields, map_of, problems, shape_of
from kframework.objects import Pod
from tests.fake_api.serving import Json, pod, served_as

NAMED = Elements(map_of(ONE_VALUE), ("name", "protocol"), {"protocol": "TCP"})


def test_one_value_has_no_parts() -> None:
    assert ONE_VALUE.parts({"a": 1}) is None
    assert ONE_VALUE.parts(ABSENT) is None


def test_of_what_has_no_type_maps_have_parts() -> None:
    assert list(ANY.parts({"a": [1]}) or {}) == ["f:a"]
    assert ANY.parts([1]) is None
    assert ANY.parts(ABSENT) == {}


def test_fields_of_a_type_are_named_and_keys_of_a_map_are_not() -> None:
    shape = Fields({"known": ONE_VALUE}.get)
    parts = shape.parts({"known": 1, "other": 2}) or {}
    assert {element: (part.value, part.is_named) for element, part in parts.items()} == {
        "f:known": (1, True),
        "f:other": (2, False),
    }
    assert shape.below("f:known").is_named
    assert not map_of(ONE_VALUE).below("f:known").is_named
    assert shape.parts("text") is None


def test_elements_have_their_keys_for_names() -> None:
    item = {"name": "a", "value": 1}
    assert NAMED.name(item) == 'k:{"name":"a","protocol":"TCP"}'
    assert Elements(ONE_VALUE, (), {}).name("x") == 'v:"x"'
    assert Elements(ONE_VALUE, ("name",), {}).name({}) == "k:{}"
    assert [part.value for part in (NAMED.parts([item]) or {}).values()] == [item]


def test_elements_that_stand_twice_are_one_value() -> None:
    twice = [{"name": "a", "value": 1}, {"name": "a", "value": 2}, {"name": "b"}]
    first, second = (NAMED.parts(twice) or {}).values()
    assert (first.shape is ONE_VALUE, first.value) == (True, [twice[0], twice[1]])
    assert second.value == {"name": "b"}


NAMELESS = (
    ".spec.containers: element 0: associative list with keys has an element that omits all key fields"
    ' ["name"] (and doesn\'t have default values for any key fields)'
)


@pytest.mark.parametrize(
    ("said", "complaint"),
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
def test_in_words(said: Json, complaint: list[str]) -> None:
    assert list(problems(shape_of(served_as(Pod)), pod(**said))) == complaint


def test_of_what_has_no_type_everything_can_be_applied() -> None:
    assert list(problems(ANY, {"a": [{"b": 1}, {"b": 1}]})) == []
