"""Sets of fields as they are written."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.managed_fields import field, in_order, in_words, keyed, read, valued, written

CONTAINER = keyed({"name": "web"})
PATHS = frozenset(
    {
        (field("a"),),
        (field("a"), field("b")),
        (field("list"), CONTAINER),
        (field("list"), CONTAINER, field("image")),
        (field("set"), valued("x")),
    }
)
WRITTEN = {
    "f:a": {".": {}, "f:b": {}},
    "f:list": {'k:{"name":"web"}': {".": {}, "f:image": {}}},
    "f:set": {'v:"x"': {}},
}


def test_a_set_is_written_and_read() -> None:
    assert written(PATHS) == WRITTEN
    assert read(WRITTEN) == PATHS
    assert written([]) == {}
    assert read({}) == frozenset()


def test_keys_are_read_in_any_order_and_spacing() -> None:
    assert read({'k:{"protocol": "TCP", "containerPort":80}': {}}) == {
        (keyed({"containerPort": 80, "protocol": "TCP"}),)
    }


def test_what_a_later_version_may_write_is_left_out() -> None:
    assert read({"x:new": {}, "f:a": {}}) == {(field("a"),)}


@pytest.mark.parametrize("wrong", [1, {"f:a": 1}, {"k:{": {}}])
def test_what_is_no_set_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="not a"):
        read(wrong)


def test_paths_in_words() -> None:
    path = (field("spec"), field("ports"), keyed({"protocol": "TCP", "port": 80}), field("name"))
    assert in_words(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert in_words((field("finalizers"), valued("x"))) == '.finalizers[="x"]'
    assert in_words((field("list"), "i:3")) == ".list[3]"


def test_those_of_a_place_come_before_those_below() -> None:
    paths = [(field("a"), field("b")), (field("z"),), (field("a"),)]
    assert in_order(paths) == [(field("a"),), (field("z"),), (field("a"), field("b"))]
