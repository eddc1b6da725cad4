"""The rules of a schema, compiled where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.cel.errors import CelError
from kframework.cel.program import CelProgram
from kframework.fake_api.custom.rules.tree import RuleTree, compile_rules


def ruled(schema: dict[str, Any], **rule: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [rule]}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NUMBER = {"type": "integer"}


def test_schema_without_rules_has_no_tree() -> None:
    assert compile_rules(object_schema(size=NUMBER)) is None


def test_tree_contains_only_paths_to_rules() -> None:
    rule = ruled(NUMBER, rule="self > 0")
    listed = {"type": "array", "items": rule}
    key_element = {"type": "object", "additionalProperties": rule}
    tree = compile_rules(object_schema(size=NUMBER, spec=object_schema(listed=listed, key_element=key_element)))
    assert tree is not None and set(tree.properties) == {"spec"} and not tree.rules
    spec = tree.properties["spec"]
    assert set(spec.properties) == {"listed", "key_element"}
    for inner in (spec.properties["listed"].items, spec.properties["key_element"].others):
        assert isinstance(inner, RuleTree) and [rule.title for rule in inner.rules] == ["self > 0"]


def test_rules_in_all_of_see_the_enclosing_value() -> None:
    part = {"properties": {"size": {"x-kubernetes-validations": [{"rule": "self < 5"}]}}}
    tree = compile_rules({**object_schema(size=NUMBER), "allOf": [part]})
    assert tree is not None
    (inner,) = tree.all_of
    (rule,) = inner.properties["size"].rules
    assert isinstance(rule.program, CelProgram)


def test_value_without_a_type_has_no_rules() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True}
    assert compile_rules(object_schema(free=ruled(free, rule="true"))) is None


@pytest.mark.parametrize(
    ("rule", "is_transition"),
    [
        ({"rule": "self.size > 0"}, False),
        ({"rule": "self.size > oldSelf.size"}, True),
        ({"rule": "!oldSelf.hasValue()", "optionalOldSelf": True}, True),
    ],
)
def test_transition_rules_are_recognized(rule: dict[str, Any], is_transition: bool) -> None:
    tree = compile_rules(ruled(object_schema(size=NUMBER), **rule))
    assert tree is not None
    (compiled,) = tree.rules
    assert compiled.is_transition == is_transition


def test_uncompilable_rule_keeps_its_error() -> None:
    tree = compile_rules(
        ruled(object_schema(size=NUMBER), rule="self.size", messageExpression="self.length", fieldPath=".size")
    )
    assert tree is not None
    (rule,) = tree.rules
    assert isinstance(rule.program, CelError) and rule.program.text == "cel expression must evaluate to a bool"
    assert isinstance(rule.message, CelError) and rule.message.text == "undefined field 'length'"
    assert rule.field == "size"
