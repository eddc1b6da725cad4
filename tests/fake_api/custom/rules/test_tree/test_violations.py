"""Objects that break rules are reported in the words of the API server."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.rules.tree import compile_rules, violations
from kframework.in_memory.schema.causes import invalid, required, too_long

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(schema: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


def actual(schema: dict[str, Any], value: object, old: object = None) -> list[str]:
    tree = compile_rules(schema)
    assert tree is not None
    return list(map(str, violations(tree, value, old, [])))


SIZES = object_schema(spec=ruled(object_schema(least=NUMBER, most=NUMBER), "self.least <= self.most"))


@pytest.mark.parametrize(
    ("schema", "value", "messages"),
    [
        (SIZES, {"spec": {"least": 1, "most": 2}}, []),
        (
            SIZES,
            {"spec": {"least": 3, "most": 2}},
            ["spec: Invalid value: failed rule: self.least <= self.most"],
        ),
        (
            SIZES,
            {"spec": {"least": 3}},
            ['spec: Invalid value: "object": no such key: most evaluating rule: self.least <= self.most'],
        ),
        (SIZES, {}, []),
        (SIZES, {"spec": None}, []),
        (
            ruled(object_schema(), "self.metadata.name.startsWith('a')", message=" begins with a "),
            {"metadata": {"name": "b"}},
            ["<nil>: Invalid value: begins with a"],
        ),
        (object_schema(size=ruled(NUMBER, "self > 1")), {"size": 1}, ["size: Invalid value: 1: failed rule: self > 1"]),
        (
            object_schema(name=ruled(TEXT, "self != 'x'")),
            {"name": "x"},
            ["name: Invalid value: \"x\": failed rule: self != 'x'"],
        ),
        (
            object_schema(sizes={"type": "array", "items": ruled(NUMBER, "self > 1")}),
            {"sizes": [2, 1]},
            ["sizes[1]: Invalid value: 1: failed rule: self > 1"],
        ),
        (
            object_schema(sizes={"type": "object", "additionalProperties": ruled(NUMBER, "self > 1")}),
            {"sizes": {"a": 2, "b": 1}},
            ["sizes[b]: Invalid value: 1: failed rule: self > 1"],
        ),
        (
            {
                **object_schema(size=NUMBER),
                "allOf": [{"properties": {"size": {"x-kubernetes-validations": [{"rule": "self<1"}]}}}],
            },
            {"size": 1},
            ["size: Invalid value: 1: failed rule: self<1"],
        ),
        (
            object_schema(share=ruled({"x-kubernetes-int-or-string": True}, "self < 5")),
            {"share": "50%"},
            ["': call arguments did not match a supported operator, function or macro signature for rule: self < 5"],
        ),
        (ruled(object_schema(size=NUMBER), "self.size"), {}, ["cel expression must evaluate to a bool"]),
        (ruled(object_schema(), "self.x"), {}, ["compilation failed: ERROR: <input>:1:5: undefined field 'x'"]),
        (
            ruled(
                object_schema(words={"type": "array", "items": TEXT}), "self.words.all(a, self.words.all(b, a == b))"
            ),
            {"words": ["a"] * 2_000},
            ["exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.word"],
        ),
    ],
)
def test_rules_are_checked(schema: dict[str, Any], value: object, messages: list[str]) -> None:
    found = actual(schema, value)
    assert len(found) == len(messages)
    for problem, part in zip(found, messages, strict=True):
        assert part in problem


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"fieldPath": ".size"}, "spec.size: Invalid value: failed rule: false"),
        ({"reason": "FieldValueForbidden", "message": "never"}, "spec: Forbidden: never"),
        ({"reason": "FieldValueRequired", "fieldPath": ".name"}, "spec.name: Required value: failed rule: false"),
        ({"reason": "FieldValueDuplicate"}, "spec: Duplicate value: null"),
        ({"messageExpression": "'size is ' + string(self.size)"}, "spec: Invalid value: size is 3"),
        ({"messageExpression": "'  '", "message": "plain"}, "spec: Invalid value: plain"),
        ({"messageExpression": r"'a\nb'", "message": "plain"}, "spec: Invalid value: plain"),
        ({"messageExpression": "self.name", "message": "plain"}, "spec: Invalid value: plain"),
        ({"messageExpression": "self.name"}, "spec: Invalid value: failed rule: false"),
    ],
)
def test_violation_has_a_message(more: dict[str, Any], message: str) -> None:
    assert actual(
        object_schema(spec=ruled(object_schema(size=NUMBER, name=TEXT), "false", **more)), {"spec": {"size": 3}}
    ) == [message]


GROWING = object_schema(spec=object_schema(size=ruled(NUMBER, "self >= oldSelf", message="may only grow")))


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        (None, {"spec": {"size": 1}}, []),
        ({"spec": {}}, {"spec": {"size": 1}}, []),
        ({"spec": {"size": 2}}, {"spec": {"size": 3}}, []),
        ({"spec": {"size": 2}}, {"spec": {"size": 1}}, ["spec.size: Invalid value: 1: may only grow"]),
        ({"spec": {"size": 2}}, {"spec": {}}, []),
    ],
)
def test_transition_rules_compare_old_and_new(old: object, new: object, messages: list[str]) -> None:
    assert actual(GROWING, new, old) == messages


def test_list_elements_are_correlated_by_keys() -> None:
    item = object_schema(name=TEXT, size=ruled(NUMBER, "self == oldSelf", message="fixed"))
    listed = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item}
    old = {"ports": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]}
    moved = {"ports": [{"name": "b", "size": 2}, {"name": "c", "size": 9}, {"name": "a", "size": 5}]}
    assert actual(object_schema(ports=listed), moved, old) == ["ports[2].size: Invalid value: 5: fixed"]


@pytest.mark.parametrize(("old", "messages"), [(None, ["born small"]), ({"size": 1}, [])])
def test_optional_old_self_may_be_absent(old: object, messages: list[str]) -> None:
    rule = "self.size > 5 || (oldSelf.hasValue() && oldSelf.value().size <= 5)"
    found = actual(
        ruled(object_schema(size=NUMBER), rule, optionalOldSelf=True, message="born small"), {"size": 2}, old
    )
    assert [each.rpartition(": ")[2] for each in found] == messages


@pytest.mark.parametrize(
    ("old", "new", "messages"),
    [
        ({"spec": {"a": 9, "b": 1}}, {"spec": {"a": 9, "b": 2}}, []),
        ({"spec": {"a": 9, "b": 1}}, {"spec": {"a": 8, "b": 1}}, ["spec.a: Invalid value: 8: failed rule: self < 5"]),
        ({"list": [9]}, {"list": [9], "spec": {}}, []),
        ({"list": [9]}, {"list": [9, 1]}, ["list[0]: Invalid value: 9: failed rule: self < 5"]),
        ({"kind": "x"}, {"kind": "x"}, ["kind: Invalid value: \"x\": failed rule: self == 'y'"]),
    ],
)
def test_unchanged_violation_may_stay(old: object, new: object, messages: list[str]) -> None:
    small = ruled(NUMBER, "self < 5")
    names = {
        "apiVersion": TEXT,
        "kind": ruled(TEXT, "self == 'y'"),
        "metadata": object_schema(name=TEXT, generateName=TEXT),
    }
    assert (
        actual(
            object_schema(**names, spec=object_schema(a=small, b=NUMBER), list={"type": "array", "items": small}),
            new,
            old,
        )
        == messages
    )


def test_rules_are_skipped_for_invalid_values() -> None:
    tree = compile_rules(SIZES)
    assert tree is not None
    value = {"spec": {"least": 3, "most": 2}}
    message = (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    for problem in (required("spec.name"), too_long("spec.name", 3)):
        assert list(map(str, violations(tree, value, None, [problem]))) == [message]
    assert [each.field for each in violations(tree, value, None, [invalid("spec.name", "x", "is no name")])] == ["spec"]


@pytest.mark.long
def test_all_rules_of_an_object_share_a_budget() -> None:
    words = {"type": "array", "items": TEXT}
    items = ruled(object_schema(words=words), "self.words.all(a, self.words.all(b, a == b))")
    value = {"list": [{"words": ["a"] * 400}] * 25}
    found = actual(object_schema(list={"type": "array", "items": items}), value)
    assert len(found) == 1 and "running out of cost budget, no further validation rules" in found[0]
