from __future__ import annotations

import pytest

from kframework.cel.errors import CelError
from kframework.cel.library.quantity import CelQuantity
from kframework.cel.library.standard import add
from kframework.cel.values import (
    NONE,
    BoolKey,
    CelDuration,
    DomainMap,
    KeyedList,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    compare,
    is_element,
    is_equal,
    is_zero,
    map_keys,
    to_index,
    to_key,
    type_name,
)

QUANTITY = CelQuantity.parse("1")
NAN = float("nan")


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1, True),
        (1, 1.0, True),
        (Uint(1), 1, True),
        (True, 1, False),
        (1, "1", False),
        (None, None, True),
        (None, 0, False),
        (NAN, NAN, False),
        (2**53 + 1, float(2**53), True),
        ([1, [2.0]], [1.0, [2]], True),
        ([True], [1], False),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": True}, {"a": 1}, False),
        (DomainMap(), {}, True),
        (DomainMap({"a": {}}), DomainMap({"b": {}}), False),
        ({}, 1, False),
        (Optional(1), Optional(1.0), True),
        (NONE, NONE, True),
        (NONE, Optional(1), False),
        (CelDuration(1), CelDuration(1), True),
        (TypeValue("int"), TypeValue("int"), True),
        (QUANTITY, CelQuantity.parse("1000m"), True),
        ("1", QUANTITY, False),
        ([QUANTITY], ["1"], True),  # cel-go treats incomparable values inside lists as equal
    ],
)
def test_values_have_an_equality(left: object, right: object, expected: bool) -> None:
    assert is_equal(left, right) is expected


def test_type_of_kubernetes_is_not_compared_with_another() -> None:
    with pytest.raises(CelError, match="no such overload"):
        is_equal(QUANTITY, "1")
    assert not is_element(QUANTITY, ["1"])
    assert is_element(QUANTITY, ["1", QUANTITY])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 2, -1),
        (2, 1.5, 1),
        (Uint(1), 1, 0),
        ("a", "b", -1),
        (b"b", b"a", 1),
        (False, True, -1),
        (CelDuration(1), CelDuration(2), -1),
        (Timestamp(2), Timestamp(1), 1),
        (2**63 - 1, 2.0**63, 0),
    ],
)
def test_values_have_an_order(left: object, right: object, expected: int) -> None:
    assert compare(left, right) == expected


@pytest.mark.parametrize(
    ("left", "right"), [(1, "1"), (True, 1), ([1], [1]), (None, None), (NAN, 1.0), (1, NAN), (QUANTITY, QUANTITY)]
)
def test_unordered_values_cannot_be_compared(left: object, right: object) -> None:
    with pytest.raises(CelError):
        compare(left, right)


def test_bool_key_is_no_number() -> None:
    assert to_key(True) is BoolKey.TRUE
    assert to_key(1) == 1
    assert map_keys({BoolKey.FALSE: 1, "a": 2}) == [False, "a"]
    with pytest.raises(CelError, match="unsupported key type: list"):
        to_key([])


def test_list_index_is_a_whole_number() -> None:
    assert [to_index(index) for index in (1, Uint(2), 3.0)] == [1, 2, 3]
    for index in (1.5, "1", True):
        with pytest.raises(CelError):
            to_index(index)


def test_missing_domain_is_empty() -> None:
    domains = DomainMap({"a": {"x": 1}})
    assert domains["a"] == {"x": 1}
    assert domains["b"] == {}
    assert "b" not in domains


def test_zero_value_is_recognized() -> None:
    assert all(map(is_zero, [0, Uint(0), 0.0, "", b"", [], {}, False, None, CelDuration(0)]))
    assert not any(map(is_zero, [1, "a", [0], {"a": 0}, True, CelDuration(1), Timestamp(0), NONE, QUANTITY]))


def test_every_value_has_a_type() -> None:
    values = [True, 1, Uint(1), 1.0, "", b"", [], {}, None, NONE, QUANTITY, DomainMap(), TypeValue("int"), object()]
    assert [type_name(value) for value in values] == (
        "bool int uint double string bytes list map null_type optional_type kubernetes.Quantity map type dyn".split()
    )


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (KeyedList(["a", "b"]), KeyedList(["b", "a"]), True),
        (KeyedList(["a", "b"]), ["b", "a"], True),
        (["a", "b"], KeyedList(["b", "a"]), False),
        (KeyedList(["a"]), KeyedList(["a", "b"]), False),
        (KeyedList([{"k": 1, "v": 2}, {"k": 2}], ("k",)), [{"k": 2}, {"k": 1, "v": 2}], True),
        (KeyedList([{"k": 1, "v": 2}], ("k",)), [{"k": 1, "v": 3}], False),
        (KeyedList([["a"]]), KeyedList([["a"]]), True),
        (KeyedList([]), {}, False),
    ],
)
def test_sets_and_maps_are_equal_in_any_order(left: object, right: object, same: bool) -> None:
    assert is_equal(left, right) is same


def test_adding_to_sets_and_maps_keeps_positions() -> None:
    assert add(KeyedList(["a", "b"]), ["c", "a"]) == ["a", "b", "c"]
    whole = add(KeyedList([{"k": 1, "v": 1}, {"k": 2}], ("k",)), [{"k": 3}, {"k": 1, "v": 2}])
    assert whole == [{"k": 1, "v": 2}, {"k": 2}, {"k": 3}] and isinstance(whole, KeyedList)
