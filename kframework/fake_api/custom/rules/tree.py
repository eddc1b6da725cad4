"""The rules of a schema, compiled, each at the part that it is about, and what keeps them from compiling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kframework.cel.checker import Environment
from kframework.cel.environment import environment
from kframework.cel.errors import CelError
from kframework.cel.program import Program, compile_program
from kframework.cel.types import BOOL, STRING, Type, optional_of
from kframework.fake_api.custom.rules.types import Fields, as_resource, declared_type, escaped
from kframework.fake_api.custom.rules.written import read_field_path
from kframework.fake_api.schema.causes import Cause, invalid
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import entries, flag, mapping, text


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it is written and compiled; in the place of what does not compile there is why.

    `field` is where in the value the fault lies, empty for the value itself.
    """

    written: Schema
    program: Program | CelError
    message: Program | CelError | None
    field: str

    @property
    def is_transition(self) -> bool:
        """Whether it compares a value with what was there before."""
        return isinstance(self.program, Program) and "oldSelf" in self.program.names

    @property
    def is_optional(self) -> bool:
        """Whether it is asked where nothing was there before, too."""
        return flag(self.written, "optionalOldSelf")

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
    type = declared_type(node, name, fields) if (written := entries(schema, "x-kubernetes-validations")) else None
    tree = Tree(
        schema=node,
        rules=compiled(node, written, type, fields) if type is not None else (),
        all_of=[each for part in entries(schema, "allOf") if (each := _tree(part, node, name, fields)) is not None],
        properties=dict(_properties(schema, node, name, fields)),
        others=_inner(schema, node, "additionalProperties", f"{name}.@elem", fields),
        items=_inner(schema, node, "items", f"{name}.@idx", fields),
    )
    return tree if tree.rules or tree.all_of or tree.properties or tree.others or tree.items else None


def _properties(schema: Schema, node: Schema, name: str, fields: Fields) -> Iterator[tuple[str, Tree]]:
    known = mapping(node, "properties")
    for property, inner in mapping(schema, "properties").items():
        own = known.get(property)
        if isinstance(inner, dict) and isinstance(own, dict):
            tree = _tree(inner, own, f"{name}.{escaped(property) or property}", fields)
            if tree is not None:
                yield property, tree


def _inner(schema: Schema, node: Schema, field: str, name: str, fields: Fields) -> Tree | None:
    inner, own = schema.get(field), node.get(field)
    return _tree(inner, own, name, fields) if isinstance(inner, dict) and isinstance(own, dict) else None


def compiled(schema: Schema, written: Sequence[Schema], type: Type, fields: Fields) -> list[Rule]:
    """Compile rules about values of a schema, which are of a type."""
    own = environment({"self": type, "oldSelf": type}, fields)
    optional = environment({"self": type, "oldSelf": optional_of(type)}, fields)
    rules: list[Rule] = []
    for each in written:
        declared = optional if flag(each, "optionalOldSelf") else own
        message = text(each, "messageExpression")
        rules.append(
            Rule(
                each,
                _program(text(each, "rule"), declared, _no_bool),
                _program(message, declared, _no_string) if message else None,
                read_field_path(text(each, "fieldPath"), schema) or "",
            )
        )
    return rules


def explained(error: CelError, prefix: str) -> str:
    """Say why an expression does not compile; with the prefix and the place where the text itself is at fault."""
    return f"{prefix}{error}" if error.position is not None else error.text


def _program(expression: str, declared: Environment, problem: Callable[[Type], str]) -> Program | CelError:
    try:
        return compile_program(expression, declared, problem)
    except CelError as error:
        return error


def _no_bool(type: Type) -> str:
    return "" if type == BOOL else "cel expression must evaluate to a bool"


def _no_string(type: Type) -> str:
    return "" if type == STRING else "messageExpression must evaluate to a string"


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
    if isinstance(rule.program, CelError):
        yield invalid(f"{place}.rule", _told(rule.written), explained(rule.program, "compilation failed: "))
    if isinstance(rule.message, CelError):
        said = explained(rule.message, "messageExpression compilation failed: ")
        yield invalid(f"{place}.messageExpression", _told(rule.written), said)
    if rule.is_transition:
        if loose:
            said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
            yield invalid(f"{place}.rule", text(rule.written, "rule"), said)
    elif isinstance(rule.program, CelError):
        return
    elif (optional := rule.written.get("optionalOldSelf")) is not None:
        yield invalid(f"{place}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _told(written: Schema) -> dict[str, object]:
    """Return a rule as messages show it: with all that it may say."""
    named = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    absent = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: written.get(name, absent.get(name, "")) for name in named}
