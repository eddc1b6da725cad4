"""Compile the rules of a schema into a tree, and find those that an object violates."""

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
from kframework.fake_api.custom.rules.spec import parse_field_path
from kframework.fake_api.custom.rules.types import Fields, declared_type, escape_name, to_cel_value, with_object_fields
from kframework.in_memory.schema.causes import Cause, duplicate, forbidden, invalid, required
from kframework.in_memory.schema.validator import Schema
from kframework.objects.plain_data import entries, flag, mapping, text


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its compiled expressions, or the error of those that do not compile.

    `field` is the path of the faulty field, empty for the value itself.
    """

    spec: Schema
    program: CelProgram | CelError
    message: CelProgram | CelError | None
    field: str

    @property
    def is_transition(self) -> bool:
        return isinstance(self.program, CelProgram) and "oldSelf" in self.program.names

    @property
    def title(self) -> str:
        return (text(self.spec, "message") or text(self.spec, "rule")).strip()


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The rules of a value, and of its parts."""

    schema: Schema
    rules: Sequence[Rule]
    all_of: Sequence[RuleTree]
    properties: Mapping[str, RuleTree]
    others: RuleTree | None
    items: RuleTree | None


def compile_rules(schema: Schema) -> RuleTree | None:
    root = with_object_fields(schema)
    return _build(root, root, "selfType", {})


def _build(schema: Schema, node: Schema, name: str, fields: Fields) -> RuleTree | None:
    """Compile the rules in `schema` about values of `node`, which differs only inside an `allOf`."""
    if node.get("x-kubernetes-embedded-resource") is True:
        node = with_object_fields(node)
    known, properties = mapping(node, "properties"), dict[str, RuleTree]()
    for property, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict) and isinstance(own := known.get(property), dict):
            subtree = _build(inner, own, f"{name}.{escape_name(property) or property}", fields)
            if subtree is not None:
                properties[property] = subtree
    type = declared_type(node, name, fields) if (specs := entries(schema, "x-kubernetes-validations")) else None
    tree = RuleTree(
        schema=node,
        rules=compile_schema_rules(node, specs, type, fields) if type is not None else (),
        all_of=[each for part in entries(schema, "allOf") if (each := _build(part, node, name, fields)) is not None],
        properties=properties,
        others=_compile_inner(schema, node, "additionalProperties", f"{name}.@elem", fields),
        items=_compile_inner(schema, node, "items", f"{name}.@idx", fields),
    )
    return tree if tree.rules or tree.all_of or tree.properties or tree.others or tree.items else None


def _compile_inner(schema: Schema, node: Schema, field: str, name: str, fields: Fields) -> RuleTree | None:
    inner, own = schema.get(field), node.get(field)
    return _build(inner, own, name, fields) if isinstance(inner, dict) and isinstance(own, dict) else None


def compile_schema_rules(schema: Schema, specs: Sequence[Schema], type: Type, fields: Fields) -> list[Rule]:
    required_environment = build_environment({"self": type, "oldSelf": type}, fields)
    optional_environment = build_environment({"self": type, "oldSelf": optional_of(type)}, fields)
    rules: list[Rule] = []
    for each in specs:
        declared = optional_environment if flag(each, "optionalOldSelf") else required_environment
        message = text(each, "messageExpression")
        rules.append(
            Rule(
                each,
                _compile(text(each, "rule"), declared, BOOL, "cel expression must evaluate to a bool"),
                _compile(message, declared, STRING, "messageExpression must evaluate to a string") if message else None,
                parse_field_path(text(each, "fieldPath"), schema) or "",
            )
        )
    return rules


def explain_error(error: CelError, prefix: str) -> str:
    return f"{prefix}{error}" if error.position is not None else error.text


def _compile(expression: str, declared: Environment, wanted: Type, problem: str) -> CelProgram | CelError:
    try:
        return compile_program(expression, declared, lambda type: "" if type == wanted else problem)
    except CelError as error:
        return error


def compilation_causes(schema: Schema, path: str) -> Iterator[Cause]:
    """Yield the errors of rules in an otherwise valid schema, including transition rules that cannot work."""
    yield from _schema_causes(with_object_fields(schema), path, "selfType", {}, "")


def _schema_causes(schema: Schema, path: str, name: str, fields: Fields, loose: str) -> Iterator[Cause]:
    """Yield the same for a part; `loose` is the enclosing part whose elements cannot be correlated with old ones."""
    if schema.get("x-kubernetes-embedded-resource") is True:
        schema = with_object_fields(schema)
    in_properties = path if schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic") else loose
    for property, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            inner_name = f"{name}.{escape_name(property) or property}"
            inner_path = f"{path}.properties[{property}]"
            yield from _schema_causes(inner, inner_path, inner_name, fields, in_properties)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from _schema_causes(others, f"{path}.additionalProperties", f"{name}.@elem", fields, loose)
    if isinstance(items := schema.get("items"), dict):
        in_items = loose if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _schema_causes(items, f"{path}.items", f"{name}.@idx", fields, in_items)
    if specs := entries(schema, "x-kubernetes-validations"):
        location = f"{path}.x-kubernetes-validations"
        type = declared_type(schema, name, fields)
        if type is None:
            message = "failed to construct type information for x-kubernetes-validations rules"
            yield Cause(location, f"Internal error: internal error: {message}", "InternalError")
            return
        for index, rule in enumerate(compile_schema_rules(schema, specs, type, fields)):
            yield from _rule_causes(rule, f"{location}[{index}]", loose)


def _rule_causes(rule: Rule, location: str, loose: str) -> Iterator[Cause]:
    names = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    absent = {"reason": None, "optionalOldSelf": None}
    fields = {name[0].upper() + name[1:]: rule.spec.get(name, absent.get(name, "")) for name in names}
    if isinstance(rule.program, CelError):
        yield invalid(f"{location}.rule", fields, explain_error(rule.program, "compilation failed: "))
    if isinstance(rule.message, CelError):
        message = explain_error(rule.message, "messageExpression compilation failed: ")
        yield invalid(f"{location}.messageExpression", fields, message)
    if rule.is_transition:
        if loose:
            message = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
            yield invalid(f"{location}.rule", text(rule.spec, "rule"), message)
    elif isinstance(rule.program, CelError):
        return
    elif (optional := rule.spec.get("optionalOldSelf")) is not None:
        yield invalid(f"{location}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


#: Cost limit of all rules of an object (`RuntimeCELCostBudget`); one evaluation may cost a tenth.
_BUDGET: Final = 10_000_000
_MAX_MESSAGE_LENGTH: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_OUT_OF_BUDGET_ON_MESSAGE: Final = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
#: Reasons of causes that make rules pointless.
_BLOCKING: Final = frozenset(
    f"FieldValue{kind}" for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
#: Fields that may differ between versions of a kind, so they have no old value.
_NEVER_OLD: Final = frozenset({"apiVersion", "kind"})


class _OutOfBudgetError(Exception):
    """Raised to stop evaluation after the budget is spent."""


def violations(tree: RuleTree, value: object, old: object, causes: list[Cause]) -> list[Cause]:
    """List the rules that an object violates; `old` is its previous version, None if it is new.

    `causes` are its schema violations; if they prevent evaluation, the result says so instead.
    """
    if any(each.reason in _BLOCKING for each in causes):
        return [invalid("<nil>", None, _NOT_CHECKED)]
    evaluation = _RuleEvaluation()
    try:
        evaluation.evaluate(tree, "", value, old, is_unchanged=False)
    except _OutOfBudgetError:
        pass  # the last cause says so
    return evaluation.causes


class _RuleEvaluation:
    """Evaluates a tree of rules for an object, within a cost budget."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self._remaining = _BUDGET

    def evaluate(self, tree: RuleTree, path: str, value: object, old: object, *, is_unchanged: bool) -> None:
        """Evaluate the rules of a value and its parts; unchanged values may stay invalid (KEP-4008)."""
        if value is None:
            return
        is_parent_unchanged = is_unchanged
        is_unchanged = is_unchanged or (old is not None and value == old)
        for rule in tree.rules:
            if not rule.is_transition or old is not None or flag(rule.spec, "optionalOldSelf"):
                self._check(rule, tree.schema, path, value, old, is_unchanged)
        for part in tree.all_of:
            self.evaluate(part, path, value, old, is_unchanged=is_parent_unchanged)
        if isinstance(value, list) and tree.items is not None:
            is_map = tree.schema.get("x-kubernetes-list-type") == "map"
            old_items = {_list_key(tree.schema, item): item for item in old} if is_map and isinstance(old, list) else {}
            for index, item in enumerate(value):
                was = old_items.get(_list_key(tree.schema, item)) if old_items else None
                self.evaluate(tree.items, f"{path}[{index}]", item, was, is_unchanged=is_unchanged)
        elif isinstance(value, dict):
            old_fields = old if isinstance(old, dict) else {}
            for name, item in value.items():
                if tree.others is not None:
                    self.evaluate(tree.others, f"{path}[{name}]", item, old_fields.get(name), is_unchanged=is_unchanged)
                if (inner := tree.properties.get(name)) is not None:
                    location = f"{path}.{name}" if path else name
                    is_new = location in _NEVER_OLD
                    was = None if is_new else old_fields.get(name)
                    self.evaluate(inner, location, item, was, is_unchanged=is_unchanged and not is_new)

    def _check(self, rule: Rule, schema: Schema, path: str, value: object, old: object, is_unchanged: bool) -> None:
        kind = text(schema, "type")
        if self._remaining <= 0:
            self._stop(path, kind, _OUT_OF_BUDGET)
        if isinstance(rule.program, CelError):
            self._add_cause(path, kind, f"rule compile error: {explain_error(rule.program, 'compilation failed: ')}")
            return
        try:
            variables = _variables(rule, schema, value, old)
            holds = self._run(rule.program, variables, path, kind, _OUT_OF_BUDGET)
        except CelError as error:
            if error.text == TOO_COSTLY:
                limit = f"no further validation rules will be run due to call cost exceeds limit for rule: {rule.title}"
                self._stop(path, kind, f"'{error.text}': {limit}")
            message = f"{error.text} evaluating rule"
            if error.text.startswith("no such overload"):
                problem = "call arguments did not match a supported operator, function or macro signature for rule"
                message = f"'{error.text}': {problem}"
            self._add_cause(path, kind, f"{message}: {rule.title}")
            return
        if holds is True or (is_unchanged and not rule.is_transition):
            return
        location = f"{path}.{rule.field}" if path and rule.field else path or rule.field or "<nil>"
        detail = self._message(rule, variables, location, kind)
        reported = None if kind in ("object", "array") else value
        match rule.spec.get("reason"):
            case "FieldValueForbidden":
                cause = forbidden(location, detail)
            case "FieldValueRequired":
                cause = required(location, detail)
            case "FieldValueDuplicate":
                cause = duplicate(location, reported)
            case _ if reported is None:
                cause = Cause(location, f"Invalid value: {detail}", "FieldValueInvalid")
            case _:
                cause = invalid(location, reported, detail)
        self.causes.append(cause)

    def _run(self, program: CelProgram, variables: Mapping[str, object], path: str, kind: str, spent: str) -> object:
        run = Evaluation(variables)
        try:
            return program.evaluate(run)
        finally:
            if run.cost > self._remaining:
                self._stop(path, kind, spent)
            self._remaining -= run.cost

    def _message(self, rule: Rule, variables: Mapping[str, object], location: str, kind: str) -> str:
        """Return the message of a violated rule, from `messageExpression` if that yields one line of text."""
        plain = rule.title if text(rule.spec, "message") else f"failed rule: {rule.title}"
        if not isinstance(rule.message, CelProgram):
            return plain
        try:
            result = self._run(rule.message, variables, location, kind, _OUT_OF_BUDGET_ON_MESSAGE)
        except CelError as error:
            if error.text == TOO_COSTLY:
                message = "no further validation rules will be run due to call cost exceeds limit for messageExpression"
                self._stop(location, kind, f'{message}: "{rule.message.expression}"')
            return plain
        message = result.strip() if isinstance(result, str) else ""
        return message if message and "\n" not in message and len(message) <= _MAX_MESSAGE_LENGTH else plain

    def _add_cause(self, path: str, kind: str, detail: str) -> None:
        self.causes.append(invalid(path or "<nil>", kind, detail))

    def _stop(self, path: str, kind: str, detail: str) -> NoReturn:
        self._add_cause(path, kind, detail)
        raise _OutOfBudgetError


def _variables(rule: Rule, schema: Schema, value: object, old: object) -> dict[str, object]:
    variables = {"self": to_cel_value(schema, value)}
    if rule.is_transition:
        before = to_cel_value(schema, old)
        if flag(rule.spec, "optionalOldSelf"):
            before = NONE if old is None else Optional(before)
        variables["oldSelf"] = before
    return variables


def _list_key(schema: Schema, item: object) -> str:
    keys, fields = schema.get("x-kubernetes-list-map-keys"), item if isinstance(item, dict) else {}
    return repr([fields.get(key) for key in keys] if isinstance(keys, list) else [])
