"""Sets of fields as they are written."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.managed_fields import (
    decode_fields,
    encode_fields,
    field_element,
    format_field_path,
    key_element,
    sort_paths,
    value_element,
)

CONTAINER = key_element({"name": "web"})
PATHS = frozenset(
    {
        (field_element("a"),),
        (field_element("a"), field_element("b")),
        (field_element("list"), CONTAINER),
        (field_element("list"), CONTAINER, field_element("image")),
        (field_element("set"), value_element("x")),
    }
)
WRITTEN = {
    "f:a": {".": {}, "f:b": {}},
    "f:list": {'k:{"name":"web"}': {".": {}, "f:image": {}}},
    "f:set": {'v:"x"': {}},
}


def test_set_is_encoded_and_decoded() -> None:
    assert encode_fields(PATHS) == WRITTEN
    assert decode_fields(WRITTEN) == PATHS
    assert encode_fields([]) == {}
    assert decode_fields({}) == frozenset()


def test_keys_are_read_in_any_order_and_spacing() -> None:
    assert decode_fields({'k:{"protocol": "TCP", "containerPort":80}': {}}) == {
        (key_element({"containerPort": 80, "protocol": "TCP"}),)
    }


def test_unknown_elements_are_ignored() -> None:
    assert decode_fields({"x:new": {}, "f:a": {}}) == {(field_element("a"),)}


@pytest.mark.parametrize("wrong", [1, {"f:a": 1}, {"k:{": {}}])
def test_invalid_set_is_an_error(wrong: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        decode_fields(wrong)


def test_path_is_formatted() -> None:
    path = (
        field_element("spec"),
        field_element("ports"),
        key_element({"protocol": "TCP", "port": 80}),
        field_element("name"),
    )
    assert format_field_path(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert format_field_path((field_element("finalizers"), value_element("x"))) == '.finalizers[="x"]'
    assert format_field_path((field_element("list"), "i:3")) == ".list[3]"


def test_field_comes_before_those_below() -> None:
    paths = [(field_element("a"), field_element("b")), (field_element("z"),), (field_element("a"),)]
    assert sort_paths(paths) == [(field_element("a"),), (field_element("z"),), (field_element("a"), field_element("b"))]
