from __future__ import annotations

import pytest

from kframework.cel.types import (
    DURATION,
    INT,
    STRING,
    Type,
    format_type,
    list_of,
    map_of,
    optional_of,
    parse_signature,
    type_of,
    unwrap_optional,
)

A = Type("$A")


@pytest.mark.parametrize(
    ("text", "parameters", "result"),
    [
        ("-> int", (), INT),
        ("string, int -> string", (STRING, INT), STRING),
        ("list(A), A -> int", (list_of(A), A), INT),
        ("map(A, list(int)) -> optional(A)", (map_of(A, list_of(INT)),), optional_of(A)),
        ("duration -> type(A)", (DURATION,), type_of(A)),
        ("kubernetes.Quantity -> int", (Type("kubernetes.Quantity"),), INT),
    ],
)
def test_signature_is_parsed(text: str, parameters: tuple[Type, ...], result: Type) -> None:
    assert parse_signature(text) == (parameters, result)


def test_type_is_formatted_as_in_cel() -> None:
    assert str(map_of(STRING, list_of(INT))) == "map(string, list(int))"


def test_optional_type_is_unwrapped() -> None:
    assert unwrap_optional(optional_of(INT)) == INT
    assert unwrap_optional(INT) is None


def test_dynamic_and_unknown_types_are_distinct() -> None:
    assert A.is_parameter and not INT.is_parameter
    assert [Type(name).is_unknown for name in ("dyn", "any", "error", "int")] == [True, True, True, False]
    assert [Type(name).is_dynamic for name in ("dyn", "any", "error", "int")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("int", "int"),
        ("null_type", "null"),
        ("duration", "duration"),
        ("map(string, list(timestamp))", "map(string, list(timestamp))"),
        ("optional(null_type)", "optional_type(null)"),
    ],
)
def test_type_is_formatted_as_in_the_checker_of_cel_go(text: str, written: str) -> None:
    assert format_type(parse_signature(f"{text} -> int")[0][0]) == written
