"""Rules that do not compile keep a definition from being one."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.rules.tree import compiled_causes

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


WRITTEN = (
    '{"Rule":"self.x > 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}'
)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (ruled(of(size=NUMBER), "self.size > 1"), []),
        (
            of(spec=ruled(of(), "self.x > 1")),
            [
                "schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: "
                + WRITTEN.replace(">", r"\u003e")
                + ": compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x > 1\n | ....^"
            ],
        ),
        (of(size=ruled(NUMBER, "self")), ["cel expression must evaluate to a bool"]),
        (
            of(name=ruled(TEXT, "self.find('(') == ''")),
            ["program instantiation failed: error parsing regexp: missing ): `(`"],
        ),
        (of(name=ruled(TEXT, "true", messageExpression="1")), ["messageExpression must evaluate to a string"]),
        (
            of(name=ruled(TEXT, "true", messageExpression="x")),
            ["messageExpression: Invalid value: {", "messageExpression compilation failed: ERROR: <input>:1:1: undecl"],
        ),
        (of(free=ruled({"x-kubernetes-preserve-unknown-fields": True}, "true")), ["Internal error: internal error: f"]),
        (of(size=ruled(NUMBER, "true", optionalOldSelf=True)), ["may not be set if oldSelf is not used in rule"]),
        (of(size=ruled(NUMBER, "self == oldSelf")), []),
        (
            of(list={"type": "array", "items": ruled(NUMBER, "self == oldSelf")}),
            ["oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[list]"],
        ),
        (
            of(
                list={
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": ruled(of(name=TEXT), "self == oldSelf"),
                }
            ),
            [],
        ),
        (of(map={"type": "object", "additionalProperties": ruled(NUMBER, "self == oldSelf")}), []),
        (
            of(pod={"type": "object", "x-kubernetes-embedded-resource": True} | ruled({}, "self.metadata.name != ''")),
            [],
        ),
    ],
)
def test_rules(schema: dict[str, Any], said: list[str]) -> None:
    causes = list(map(str, compiled_causes(schema, "schema")))
    assert len(causes) == bool(said)
    assert all(part in causes[0] for part in said)
