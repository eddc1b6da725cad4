"""The rules of a schema, compiled where they stand."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.cel.errors import CelError
from kframework.cel.program import CelProgram
from kframework.fake_api.custom.rules.tree import Tree, tree_of


def ruled(schema: dict[str, Any], **rule: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [rule]}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NUMBER = {"type": "integer"}


def test_a_schema_without_rules_has_no_tree() -> None:
    assert tree_of(of(size=NUMBER)) is None


def test_a_tree_has_what_leads_to_rules_alone() -> None:
    rule = ruled(NUMBER, rule="self > 0")
    listed = {"type": "array", "items": rule}
    keyed = {"type": "object", "additionalProperties": rule}
    tree = tree_of(of(size=NUMBER, spec=of(listed=listed, keyed=keyed)))
    assert tree is not None and set(tree.properties) == {"spec"} and not tree.rules
    spec = tree.properties["spec"]
    assert set(spec.properties) == {"listed", "keyed"}
    for inner in (spec.properties["listed"].items, spec.properties["keyed"].others):
        assert isinstance(inner, Tree) and [rule.title for rule in inner.rules] == ["self > 0"]


def test_rules_in_all_of_see_what_stands_around_them() -> None:
    part = {"properties": {"size": {"x-kubernetes-validations": [{"rule": "self < 5"}]}}}
    tree = tree_of({**of(size=NUMBER), "allOf": [part]})
    assert tree is not None
    (inner,) = tree.all_of
    (rule,) = inner.properties["size"].rules
    assert isinstance(rule.program, CelProgram)


def test_what_rules_cannot_see_has_none() -> None:
    free = {"x-kubernetes-preserve-unknown-fields": True}
    assert tree_of(of(free=ruled(free, rule="true"))) is None


@pytest.mark.parametrize(
    ("rule", "is_transition"),
    [
        ({"rule": "self.size > 0"}, False),
        ({"rule": "self.size > oldSelf.size"}, True),
        ({"rule": "!oldSelf.hasValue()", "optionalOldSelf": True}, True),
    ],
)
def test_rules_may_compare_with_before(rule: dict[str, Any], is_transition: bool) -> None:
    tree = tree_of(ruled(of(size=NUMBER), **rule))
    assert tree is not None
    (compiled,) = tree.rules
    assert compiled.is_transition == is_transition


def test_what_does_not_compile_is_kept_with_why() -> None:
    tree = tree_of(ruled(of(size=NUMBER), rule="self.size", messageExpression="self.length", fieldPath=".size"))
    assert tree is not None
    (rule,) = tree.rules
    assert isinstance(rule.program, CelError) and rule.program.text == "cel expression must evaluate to a bool"
    assert isinstance(rule.message, CelError) and rule.message.text == "undefined field 'length'"
    assert rule.field == "size"
