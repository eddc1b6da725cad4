"""Rules that do not compile keep a definition from being one."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.rules.tree import compilation_causes

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


WRITTEN = (
    '{"Rule":"self.x > 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}'
)


@pytest.mark.parametrize(
    ("schema", "parts"),
    [
        (ruled(object_schema(size=NUMBER), "self.size > 1"), []),
        (
            object_schema(spec=ruled(object_schema(), "self.x > 1")),
            [
                "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: "
                + WRITTEN.replace(">", r"\u003e")
                + ": compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x > 1\n | ....^"
            ],
        ),
        (object_schema(size=ruled(NUMBER, "self")), ["cel expression must evaluate to a bool"]),
        (
            object_schema(name=ruled(TEXT, "self.find('(') == ''")),
            ["program instantiation failed: error parsing regexp: missing ): `(`"],
        ),
        (
            object_schema(name=ruled(TEXT, "true", messageExpression="1")),
            ["messageExpression must evaluate to a string"],
        ),
        (
            object_schema(name=ruled(TEXT, "true", messageExpression="x")),
            ["messageExpression: Invalid value: {", "messageExpression compilation failed: ERROR: <input>:1:1: undecl"],
        ),
        (
            object_schema(free=ruled({"x-kubernetes-preserve-unknown-fields": True}, "true")),
            ["Internal error: internal error: f"],
        ),
        (
            object_schema(size=ruled(NUMBER, "true", optionalOldSelf=True)),
            ["may not be set if oldSelf is not used in rule"],
        ),
        (object_schema(size=ruled(NUMBER, "self == oldSelf")), []),
        (
            object_schema(list={"type": "array", "items": ruled(NUMBER, "self == oldSelf")}),
            ["oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[list]"],
        ),
        (
            object_schema(
                list={
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": ruled(object_schema(name=TEXT), "self == oldSelf"),
                }
            ),
            [],
        ),
        (object_schema(map={"type": "object", "additionalProperties": ruled(NUMBER, "self == oldSelf")}), []),
        (
            object_schema(
                pod={"type": "object", "x-kubernetes-embedded-resource": True} | ruled({}, "self.metadata.name != ''")
            ),
            [],
        ),
    ],
)
def test_rules_are_checked(schema: dict[str, Any], parts: list[str]) -> None:
    causes = list(map(str, compilation_causes(schema, "schema")))
    assert len(causes) == bool(parts)
    assert all(part in causes[0] for part in parts)
