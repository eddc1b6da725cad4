"""Rules are written as rules, whether they compile or not."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.rules.spec import has_rules, parse_field_path, rule_spec_causes

SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}}
SUPPORTED = '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ({"rule": "self.size > 0"}, []),
        ({"rule": " "}, ["rules[0].rule: Required value: rule is not specified"]),
        ({"rule": "true", "message": " "}, ['rules[0].message: Invalid value: " ": must be non-empty if specified']),
        (
            {"rule": "true", "message": "a\nb"},
            ['rules[0].message: Invalid value: "a\\nb": must not contain line breaks'],
        ),
        (
            {"rule": "true &&\ntrue"},
            ["rules[0].message: Required value: message must be specified if rule contains line breaks"],
        ),
        ({"rule": "true &&\ntrue", "message": "no"}, []),
        (
            {"rule": "true", "messageExpression": " "},
            ["rules[0].messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            {"rule": "true", "reason": "Whim"},
            [
                f'rules[0].reason: Unsupported value: "Whim": supported values: {SUPPORTED}',
            ],
        ),
        ({"rule": "true", "fieldPath": ".size"}, []),
        (
            {"rule": "true", "fieldPath": ".length"},
            ['rules[0].fieldPath: Invalid value: ".length": must be a valid path'],
        ),
        (
            {"rule": "true", "fieldPath": "\n"},
            [
                'rules[0].fieldPath: Invalid value: "\\n": must be non-empty if specified',
                'rules[0].fieldPath: Invalid value: "\\n": must not contain line breaks',
                'rules[0].fieldPath: Invalid value: "\\n": must be a valid path',
            ],
        ),
    ],
)
def test_rules_are_checked(rule: dict[str, Any], found: list[str]) -> None:
    assert list(map(str, rule_spec_causes([rule], SCHEMA, "rules"))) == found


def test_rules_at_any_depth_are_detected() -> None:
    rules = [{"rule": "true"}]
    assert not has_rules(SCHEMA)
    assert has_rules({"properties": {"a": {"items": {"x-kubernetes-validations": rules}}}})
    assert has_rules({"allOf": [{"x-kubernetes-validations": rules}]})


NUMBER = {"type": "number"}
NESTED = {
    "properties": {
        "spec": {"properties": {"a.b": NUMBER, "size": NUMBER, "it's": NUMBER}},
        "labels": {"additionalProperties": {"properties": {"text": NUMBER}}},
        "items": {"type": "array", "items": NUMBER},
    }
}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (".spec", "spec"),
        (".spec.size", "spec.size"),
        ("['spec'].size", "spec.size"),
        (".spec['a.b']", "spec.a.b"),
        (r".spec['it\'s']", "spec.it's"),
        (".labels.app", "labels[app]"),
        (".labels['my-app'].text", "labels[my-app].text"),
        (".spec.length", None),
        (".spec.size.unit", None),
        (".items[0]", None),
        ("spec", None),
        (".spec[size]", None),
        (".spec['size", None),
        (".spec['\\q']", None),
    ],
)
def test_field_path_is_parsed(path: str, written: str | None) -> None:
    assert parse_field_path(path, NESTED) == written
