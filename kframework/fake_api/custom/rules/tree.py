"""The rules of a schema, compiled, each at the part that it is about."""

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
