"""Values are held against schemas, and what is wrong is said in the API server's words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validator import causes, json_type


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({}, {"anything": 1}, []),
        ({"type": "integer"}, "x", ['a: Invalid value: "string": a in body must be of type integer: "string"']),
        ({"type": "integer"}, 1.0, []),
        ({"type": "integer"}, 1.5, ['a: Invalid value: "number": a in body must be of type integer: "number"']),
        ({"type": "number"}, 1, []),
        ({"type": "boolean"}, 1, ['a: Invalid value: "integer": a in body must be of type boolean: "integer"']),
        ({"type": "string"}, None, ['a: Invalid value: "null": a in body must be of type string: "null"']),
        ({"type": "string", "nullable": True}, None, []),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            ['a: Invalid value: "boolean": a in body must be of type integer,string: "boolean"'],
        ),
        ({"x-kubernetes-int-or-string": True}, "50%", []),
        ({"maxLength": 2}, "abc", ["a: Too long: may not be more than 2 bytes"]),
        ({"minLength": 1}, "", ['a: Invalid value: "": a in body should be at least 1 chars long']),
        ({"pattern": "^a+$"}, "b", ["a: Invalid value: \"b\": a in body should match '^a+$'"]),
        ({"pattern": "("}, "b", []),
        ({"enum": ["x", 1]}, "z", ['a: Unsupported value: "z": supported values: "x", "1"']),
        ({"minimum": 1}, 0, ["a: Invalid value: 0: a in body should be greater than or equal to 1"]),
        ({"minimum": 1, "exclusiveMinimum": True}, 1, ["a: Invalid value: 1: a in body should be greater than 1"]),
        ({"maximum": 5}, 6, ["a: Invalid value: 6: a in body should be less than or equal to 5"]),
        ({"maximum": 5, "exclusiveMaximum": True}, 5, ["a: Invalid value: 5: a in body should be less than 5"]),
        ({"multipleOf": 0.5}, 0.7, ["a: Invalid value: 0.7: a in body should be a multiple of 0.5"]),
        ({"format": "ipv4"}, "x", ['a: Invalid value: "x": a in body must be of type ipv4: "x"']),
        ({"minItems": 1}, [], ["a: Invalid value: 0: a in body should have at least 1 items"]),
        ({"maxItems": 1}, [1, 2], ["a: Too many: 2: must have at most 1 items"]),
        (
            {"items": {"type": "string"}},
            ["x", 1],
            ['a[1]: Invalid value: "integer": a[1] in body must be of type string: "integer"'],
        ),
        ({"required": ["b", "c"]}, {"b": 1}, ["a.c: Required value"]),
        ({"minProperties": 1}, {}, ["a: Invalid value: 0: a in body should have at least 1 properties"]),
        (
            {"additionalProperties": {"type": "string"}},
            {"k": 1},
            ['a.k: Invalid value: "integer": a.k in body must be of type string: "integer"'],
        ),
        ({"x-kubernetes-embedded-resource": True}, {"kind": "X"}, ["a.apiVersion: Required value"]),
        (
            {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]},
            {"b": 1, "c": 1},
            ['<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        (
            {"oneOf": [{"required": ["b"]}, {"required": ["c"]}]},
            {},
            [
                '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid',
                "a.b: Required value",
            ],
        ),
        (
            {"anyOf": [{"required": ["b"]}]},
            {},
            ['<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)', "a.b: Required value"],
        ),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, 1, []),
        ({"not": {"required": ["b"]}}, {"b": 1}, ['<nil>: Invalid value: "": "a" must not validate the schema (not)']),
        (
            {"allOf": [{"required": ["b"]}]},
            {},
            ["a.b: Required value", '<nil>: Invalid value: "": "a" must validate all the schemas (allOf)'],
        ),
    ],
)
def test_invalid_value_has_causes(schema: Any, value: Any, found: list[str]) -> None:
    assert list(map(str, causes(schema, value, "a"))) == found


def test_deeply_nested_value_is_not_validated() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    assert causes(schema, value) == []


def test_values_have_json_types() -> None:
    values: list[object] = [None, True, 1, 1.5, "x", [], {}]
    assert [json_type(each) for each in values] == "null boolean integer number string array object".split()
