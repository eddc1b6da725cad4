"""The rules of a schema, compiled, each at the part that it is about, and which of them an object breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from kframework.cel.checker import Environment
from kframework.cel.environment import build_environment
from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.program import TOO_COSTLY, CelProgram, compile_program
from kframework.cel.types import BOOL, STRING, Type, optional_of
from kframework.cel.values import NONE, Optional
from kframework.fake_api.custom.rules.types import Fields, as_resource, declared_type, escaped, seen
from kframework.fake_api.custom.rules.written import read_field_path
from kframework.fake_api.schema.causes import Cause, duplicate, forbidden, invalid, required
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import entries, flag, mapping, text


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it is written and compiled; in the place of what does not compile there is why.

    `field` is where in the value the fault lies, empty for the value itself.
    """

    written: Schema
    program: CelProgram | CelError
    message: CelProgram | CelError | None
    field: str

    @property
    def is_transition(self) -> bool:
        """Whether it compares a value with what was there before."""
        return isinstance(self.program, CelProgram) and "oldSelf" in self.program.names

    @property
    def title(self) -> str:
        """Its message, or its text."""
        return (text(self.written, "message") or text(self.written, "rule")).strip()


@dataclass(frozen=True, slots=True)
class Tree:
    """The rules about a value, and those about what is in it."""

    schema: Schema
    rules: Sequence[Rule]
    all_of: Sequence[Tree]
    properties: Mapping[str, Tree]
    others: Tree | None
    items: Tree | None


def tree_of(schema: Schema) -> Tree | None:
    """Compile the rules of the schema of a custom resource; None if it has none."""
    whole = as_resource(schema)
    return _tree(whole, whole, "selfType", {})


def _tree(schema: Schema, node: Schema, name: str, fields: Fields) -> Tree | None:
    """Compile the rules of a schema about values of `node`: the same schema, but for the parts of an `allOf`."""
    if node.get("x-kubernetes-embedded-resource") is True:
        node = as_resource(node)
    known, properties = mapping(node, "properties"), dict[str, Tree]()
    for property, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict) and isinstance(own := known.get(property), dict):
            tree = _tree(inner, own, f"{name}.{escaped(property) or property}", fields)
            if tree is not None:
                properties[property] = tree
    type = declared_type(node, name, fields) if (written := entries(schema, "x-kubernetes-validations")) else None
    whole = Tree(
        schema=node,
        rules=compiled(node, written, type, fields) if type is not None else (),
        all_of=[each for part in entries(schema, "allOf") if (each := _tree(part, node, name, fields)) is not None],
        properties=properties,
        others=_inner(schema, node, "additionalProperties", f"{name}.@elem", fields),
        items=_inner(schema, node, "items", f"{name}.@idx", fields),
    )
    return whole if whole.rules or whole.all_of or whole.properties or whole.others or whole.items else None


def _inner(schema: Schema, node: Schema, field: str, name: str, fields: Fields) -> Tree | None:
    inner, own = schema.get(field), node.get(field)
    return _tree(inner, own, name, fields) if isinstance(inner, dict) and isinstance(own, dict) else None


def compiled(schema: Schema, written: Sequence[Schema], type: Type, fields: Fields) -> list[Rule]:
    """Compile rules about values of a schema, which are of a type."""
    own = build_environment({"self": type, "oldSelf": type}, fields)
    optional = build_environment({"self": type, "oldSelf": optional_of(type)}, fields)
    rules: list[Rule] = []
    for each in written:
        declared = optional if flag(each, "optionalOldSelf") else own
        message = text(each, "messageExpression")
        rules.append(
            Rule(
                each,
                _program(text(each, "rule"), declared, BOOL, "cel expression must evaluate to a bool"),
                _program(message, declared, STRING, "messageExpression must evaluate to a string") if message else None,
                read_field_path(text(each, "fieldPath"), schema) or "",
            )
        )
    return rules


def explained(error: CelError, prefix: str) -> str:
    """Say why an expression does not compile; with the prefix and the place where the text itself is at fault."""
    return f"{prefix}{error}" if error.position is not None else error.text


def _program(expression: str, declared: Environment, wanted: Type, problem: str) -> CelProgram | CelError:
    try:
        return compile_program(expression, declared, lambda type: "" if type == wanted else problem)
    except CelError as error:
        return error


def compiled_causes(schema: Schema, path: str) -> Iterator[Cause]:
    """Yield what does not compile in a schema without other faults, and what compares what cannot be compared."""
    yield from _of_schema(as_resource(schema), path, "selfType", {}, "")


def _of_schema(schema: Schema, path: str, name: str, fields: Fields, loose: str) -> Iterator[Cause]:
    """Yield the same of a part; `loose` is the part around it whose elements are not those of before."""
    if schema.get("x-kubernetes-embedded-resource") is True:
        schema = as_resource(schema)
    in_properties = path if schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic") else loose
    for property, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            place = f"{path}.properties[{property}]"
            yield from _of_schema(inner, place, f"{name}.{escaped(property) or property}", fields, in_properties)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from _of_schema(others, f"{path}.additionalProperties", f"{name}.@elem", fields, loose)
    if isinstance(items := schema.get("items"), dict):
        in_items = loose if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _of_schema(items, f"{path}.items", f"{name}.@idx", fields, in_items)
    if written := entries(schema, "x-kubernetes-validations"):
        place = f"{path}.x-kubernetes-validations"
        type = declared_type(schema, name, fields)
        if type is None:
            said = "failed to construct type information for x-kubernetes-validations rules"
            yield Cause(place, f"Internal error: internal error: {said}", "InternalError")
            return
        for index, rule in enumerate(compiled(schema, written, type, fields)):
            yield from _of_rule(rule, f"{place}[{index}]", loose)


def _of_rule(rule: Rule, place: str, loose: str) -> Iterator[Cause]:
    named = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    absent = {"reason": None, "optionalOldSelf": None}
    shown = {name[0].upper() + name[1:]: rule.written.get(name, absent.get(name, "")) for name in named}
    if isinstance(rule.program, CelError):
        yield invalid(f"{place}.rule", shown, explained(rule.program, "compilation failed: "))
    if isinstance(rule.message, CelError):
        said = explained(rule.message, "messageExpression compilation failed: ")
        yield invalid(f"{place}.messageExpression", shown, said)
    if rule.is_transition:
        if loose:
            said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
            yield invalid(f"{place}.rule", text(rule.written, "rule"), said)
    elif isinstance(rule.program, CelError):
        return
    elif (optional := rule.written.get("optionalOldSelf")) is not None:
        yield invalid(f"{place}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


#: What all rules about an object may cost together (`RuntimeCELCostBudget`); one of them may cost a tenth.
_BUDGET: Final = 10_000_000
_LONGEST_MESSAGE: Final = 5 * 1024
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_SPENT_ON_MESSAGE: Final = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
#: Causes of these kinds about a value leave its rules without an answer.
_BLOCKING: Final = frozenset(
    f"FieldValue{kind}" for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
#: What may differ between versions of a kind, while an object is always seen in one.
_NEVER_OLD: Final = frozenset({"apiVersion", "kind"})


class _OutOfBudgetError(Exception):
    """Raised where no further rule is asked, after why has been said."""


def broken(tree: Tree, value: object, old: object, causes: list[Cause]) -> list[Cause]:
    """List the rules that an object breaks; `old` is what it was before, None if it is new.

    `causes` are about its schema: if they leave the rules without an answer, that is said instead.
    """
    if any(each.reason in _BLOCKING for each in causes):
        return [invalid("<nil>", None, _NOT_CHECKED)]
    judgement = _Judgement()
    try:
        judgement.judge(tree, "", value, old, is_unchanged=False)
    except _OutOfBudgetError:
        pass  # the last of the causes says it
    return judgement.causes


class _Judgement:
    """Goes down a tree and an object together; what is left of the budget goes with it."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self._left = _BUDGET

    def judge(self, tree: Tree, path: str, value: object, old: object, *, is_unchanged: bool) -> None:
        """Judge a value and all in it; what was wrong may stay where what is around `is_unchanged` (KEP-4008)."""
        if value is None:
            return
        around = is_unchanged
        is_unchanged = is_unchanged or (old is not None and value == old)
        for rule in tree.rules:
            if not rule.is_transition or old is not None or flag(rule.written, "optionalOldSelf"):
                self._ask(rule, tree.schema, path, value, old, is_unchanged)
        for part in tree.all_of:
            self.judge(part, path, value, old, is_unchanged=around)
        if isinstance(value, list) and tree.items is not None:
            is_map = tree.schema.get("x-kubernetes-list-type") == "map"
            before = {_key_of(tree.schema, item): item for item in old} if is_map and isinstance(old, list) else {}
            for index, item in enumerate(value):
                was = before.get(_key_of(tree.schema, item)) if before else None
                self.judge(tree.items, f"{path}[{index}]", item, was, is_unchanged=is_unchanged)
        elif isinstance(value, dict):
            was_here = old if isinstance(old, dict) else {}
            for name, item in value.items():
                if tree.others is not None:
                    self.judge(tree.others, f"{path}[{name}]", item, was_here.get(name), is_unchanged=is_unchanged)
                if (inner := tree.properties.get(name)) is not None:
                    place = f"{path}.{name}" if path else name
                    is_new = place in _NEVER_OLD
                    was = None if is_new else was_here.get(name)
                    self.judge(inner, place, item, was, is_unchanged=is_unchanged and not is_new)

    def _ask(self, rule: Rule, schema: Schema, path: str, value: object, old: object, is_unchanged: bool) -> None:
        """Ask one rule, and note what it has to say."""
        kind = text(schema, "type")
        if self._left <= 0:
            self._end(path, kind, _SPENT)
        if isinstance(rule.program, CelError):
            self._note(path, kind, f"rule compile error: {explained(rule.program, 'compilation failed: ')}")
            return
        try:
            variables = _variables(rule, schema, value, old)
            holds = self._evaluate(rule.program, variables, path, kind, _SPENT)
        except CelError as error:
            if error.text == TOO_COSTLY:
                said = f"no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
                self._end(path, kind, f"'{error.text}': {said}")
            said = f"{error.text} evaluating rule"
            if error.text.startswith("no such overload"):
                what = "call arguments did not match a supported operator, function or macro signature for rule"
                said = f"'{error.text}': {what}"
            self._note(path, kind, f"{said}: {rule.title}")
            return
        if holds is True or (is_unchanged and not rule.is_transition):
            return
        place = f"{path}.{rule.field}" if path and rule.field else path or rule.field or "<nil>"
        detail = self._said(rule, variables, place, kind)
        shown = None if kind in ("object", "array") else value
        match rule.written.get("reason"):
            case "FieldValueForbidden":
                cause = forbidden(place, detail)
            case "FieldValueRequired":
                cause = required(place, detail)
            case "FieldValueDuplicate":
                cause = duplicate(place, shown)
            case _ if shown is None:
                cause = Cause(place, f"Invalid value: {detail}", "FieldValueInvalid")
            case _:
                cause = invalid(place, shown, detail)
        self.causes.append(cause)

    def _evaluate(
        self, program: CelProgram, variables: Mapping[str, object], path: str, kind: str, spent: str
    ) -> object:
        run = Evaluation(variables)
        try:
            return program.evaluate(run)
        finally:
            if run.cost > self._left:
                self._end(path, kind, spent)
            self._left -= run.cost

    def _said(self, rule: Rule, variables: Mapping[str, object], place: str, kind: str) -> str:
        """Return the message of a broken rule: its expression's, where that comes to one line of text."""
        plain = rule.title if text(rule.written, "message") else f"failed rule: {rule.title}"
        if not isinstance(rule.message, CelProgram):
            return plain
        try:
            found = self._evaluate(rule.message, variables, place, kind, _SPENT_ON_MESSAGE)
        except CelError as error:
            if error.text == TOO_COSTLY:
                said = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
                self._end(place, kind, f'{said}: "{rule.message.expression}"')
            return plain
        said = found.strip() if isinstance(found, str) else ""
        return said if said and "\n" not in said and len(said) <= _LONGEST_MESSAGE else plain

    def _note(self, path: str, kind: str, detail: str) -> None:
        self.causes.append(invalid(path or "<nil>", kind, detail))

    def _end(self, path: str, kind: str, detail: str) -> NoReturn:
        self._note(path, kind, detail)
        raise _OutOfBudgetError


def _variables(rule: Rule, schema: Schema, value: object, old: object) -> dict[str, object]:
    """Return what a rule sees."""
    variables = {"self": seen(schema, value)}
    if rule.is_transition:
        before = seen(schema, old)
        if flag(rule.written, "optionalOldSelf"):
            before = NONE if old is None else Optional(before)
        variables["oldSelf"] = before
    return variables


def _key_of(schema: Schema, item: object) -> str:
    keys, fields = schema.get("x-kubernetes-list-map-keys"), item if isinstance(item, dict) else {}
    return repr([fields.get(key) for key in keys] if isinstance(keys, list) else [])
