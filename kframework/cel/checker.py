"""Resolve the types, names and overloads of a syntax tree.

Type parameters follow cel-go's checker rule by rule, because overload resolution depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kframework.cel.errors import CelError
from kframework.cel.functions import Overload
from kframework.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    List,
    Literal,
    Map,
    Select,
    SyntaxNode,
    qualified_name,
    walk,
)
from kframework.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NEVER_NULL,
    NULL,
    STRING,
    UINT,
    Type,
    format_type,
    list_of,
    map_of,
    optional_of,
    unwrap_optional,
)
from kframework.cel.values import TypeValue, Uint

_STRUCTURED = frozenset({"list", "map", "optional_type"})


class Substitutions:
    """Types by type parameter; a failed unification changes nothing."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []  # changed parameters with their previous types
        self._parameter_count = 0

    def new_parameter(self) -> Type:
        self._parameter_count += 1
        return Type(f"${self._parameter_count}")

    def unify(self, expected: Sequence[Type], actual: Sequence[Type]) -> bool:
        """Return whether the types match pairwise; if so, keep what that implies for type parameters."""
        self._trail.clear()
        if len(expected) == len(actual) and all(map(self._unify, expected, actual)):
            return True
        for parameter, before in reversed(self._trail):
            if before is None:
                del self._types[parameter]
            else:
                self._types[parameter] = before
        return False

    def resolve(self, type: Type, unbound: Type | None = None) -> Type:
        """Replace type parameters by what is known of them, others by `unbound` if it is given."""
        if not type.is_parameter:
            return _map_parameters(type, lambda part: self.resolve(part, unbound))
        bound = self._types.get(type)
        return self.resolve(bound, unbound) if bound is not None else unbound or type

    def _unify(self, expected: Type, actual: Type) -> bool:
        if actual.is_parameter:
            is_bound = self._bind(actual, expected)
            if is_bound or actual in self._types:
                return is_bound
        if expected.is_parameter:
            return self._bind(expected, actual)
        if expected.is_unknown or actual.is_unknown:
            return True
        if expected.name == "null_type":
            return actual.name not in NEVER_NULL
        if actual.name == "null_type":
            return expected.name not in NEVER_NULL
        if expected.name != actual.name:
            return False
        if expected.name not in _STRUCTURED:
            return True
        return len(expected.parameters) == len(actual.parameters) and all(
            map(self._unify, expected.parameters, actual.parameters)
        )

    def _bind(self, parameter: Type, type: Type) -> bool:
        """Bind a parameter to the more general of this type and its own; return whether they are compatible."""
        if parameter == type:
            return True
        known = self._types.get(parameter)
        if known is None:
            if self._occurs(parameter, type):
                return False
            self._set(parameter, type)
            return True
        if type == known:
            return True
        if not self._unify(type, known):
            return False
        general = more_general(type, known)
        if not self._occurs(parameter, general):
            self._set(parameter, general)
        return True

    def _set(self, parameter: Type, type: Type) -> None:
        self._trail.append((parameter, self._types.get(parameter)))
        self._types[parameter] = type

    def _occurs(self, parameter: Type, type: Type) -> bool:
        if type == parameter:
            return True
        if type.is_parameter:
            known = self._types.get(type)
            return known is not None and self._occurs(parameter, known)
        return any(self._occurs(parameter, part) for part in type.parameters)


def instantiate(types: Sequence[Type], parameters: Mapping[Type, Type]) -> list[Type]:
    def replace(type: Type) -> Type:
        return parameters[type] if type in parameters else _map_parameters(type, replace)

    return list(map(replace, types))


def more_general(first: Type, second: Type) -> Type:
    return first if _is_less_specific(first, second) else second


def _map_parameters(type: Type, change: Callable[[Type], Type]) -> Type:
    return Type(type.name, tuple(map(change, type.parameters))) if type.parameters else type


def _is_less_specific(first: Type, second: Type) -> bool:
    if first.is_dynamic or first.is_parameter:
        return True
    if second.is_dynamic or second.is_parameter or first.name != second.name:
        return False
    return first.name == "type" or (
        len(first.parameters) == len(second.parameters)
        and all(map(_is_less_specific, first.parameters, second.parameters))
    )


_LITERALS = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}


class Environment(NamedTuple):
    """The names that an expression may use: functions, variables, types, and the fields of types."""

    functions: Mapping[str, Sequence[Overload]]
    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    fields: Mapping[Type, Mapping[str, Type]]


def check(root: SyntaxNode, environment: Environment) -> None:
    """Write types and overloads into a tree; raises CelError at the first problem."""
    checker = _Checker(environment)
    checker.check(root)
    for node, _ in walk(root):
        node.type = checker.substitutions.resolve(node.type, DYN)


class _Checker:
    """Checks a tree in one pass; `_scopes` are the variables of loops and bindings, the innermost last."""

    def __init__(self, environment: Environment) -> None:
        self.substitutions = Substitutions()
        self._environment = environment
        self._scopes: list[Mapping[str, Type]] = [environment.variables]

    def check(self, node: SyntaxNode) -> Type:
        match node:
            case Literal(value=value):
                node.type = _LITERALS[type(value)]
            case Ident():
                node.type = self._ident(node)
            case Select():
                node.type = self._select(node)
            case Call(function="_?._"):
                operand, field = node.args
                field.type = STRING
                name = str(field.value if isinstance(field, Literal) else None)
                node.type = self.substitutions.resolve(self._field(node, operand, name, is_optional=True))
            case Call():
                node.type = self._call(node)
            case List():
                node.type = self._list(node)
            case Map():
                node.type = self._map(node)
            case Comprehension():
                node.type = self._comprehension(node)
        return node.type

    def _ident(self, node: Ident) -> Type:
        name = node.name.removeprefix(".")
        scopes = reversed(self._scopes) if name == node.name else [self._environment.variables]
        type = next((scope[name] for scope in scopes if name in scope), None) or self._environment.types.get(name)
        if type is None:
            raise _undeclared_error(node, node.name)
        return type

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name is not None and (type := self._environment.types.get(name.removeprefix("."))) is not None:
            return type
        type = self._field(node, node.operand, node.field)
        return BOOL if node.test else self.substitutions.resolve(type)

    def _field(self, node: SyntaxNode, operand: SyntaxNode, field: str, *, is_optional: bool = False) -> Type:
        operand_type = self.substitutions.resolve(self.check(operand))
        inner = unwrap_optional(operand_type)
        target, type = inner if inner is not None else operand_type, DYN
        if target.name == "map":
            type = target.parameters[1]
        elif target in self._environment.fields:
            field_type = self._environment.fields[target].get(field)
            if field_type is None:
                raise CelError(f"undefined field '{field}'", node.position)
            type = field_type
        elif target.is_parameter:
            self.substitutions.unify([DYN], [target])
        elif not target.is_unknown:
            raise CelError(f"type '{format_type(target)}' does not support field selection", node.position)
        return optional_of(type) if inner is not None or is_optional else type

    def _call(self, node: Call) -> Type:
        for argument in node.args:
            self.check(argument)
        name = qualified_name(node.target)
        if name is not None and f"{name}.{node.function}".removeprefix(".") in self._environment.functions:
            node.function, node.target = f"{name}.{node.function}", None
        function = node.function.removeprefix(".")
        if node.target is not None:
            self.check(node.target)
        overloads = self._environment.functions.get(function)
        if overloads is None:
            raise _undeclared_error(node, function)
        node.function = function
        return self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: Sequence[Overload]) -> Type:
        """Find the overloads for the arguments; if several remain, the choice is made at run time."""
        if node.function in ("_&&_", "_||_"):
            for argument in node.args:
                self._expect(argument, BOOL)
            return BOOL
        argument_types = [child.type for child in node.children()]
        matching: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_method is (node.target is None):
                continue
            fresh = {Type(name): self.substitutions.new_parameter() for name in sorted(overload.type_parameters)}
            if not self.substitutions.unify(argument_types, instantiate(overload.parameters, fresh)):
                continue
            matching.append(overload)
            overload_result = self.substitutions.resolve(instantiate([overload.result], fresh)[0])
            if result is None:
                result = overload_result
            elif not result.is_dynamic and overload_result != result:
                result = DYN
        if result is None:
            types = [format_type(self.substitutions.resolve(type, DYN)) for type in argument_types]
            text = f"{types[0]}.({', '.join(types[1:])})" if node.target is not None else f"({', '.join(types)})"
            raise CelError(f"found no matching overload for '{node.function}' applied to '{text}'", node.position)
        node.overloads = tuple(matching)
        return result

    def _list(self, node: List) -> Type:
        element: Type | None = None
        for index, child in enumerate(node.elements):
            element = self._join(element, self._element_type(child, index in node.optional))
        return list_of(element if element is not None else self.substitutions.new_parameter())

    def _map(self, node: Map) -> Type:
        key: Type | None = None
        value: Type | None = None
        for index, (key_node, value_node) in enumerate(zip(node.keys, node.values, strict=True)):
            key = self._join(key, self.check(key_node))
            value = self._join(value, self._element_type(value_node, index in node.optional))
        if key is None or value is None:
            return map_of(self.substitutions.new_parameter(), self.substitutions.new_parameter())
        return map_of(key, value)

    def _element_type(self, node: SyntaxNode, is_optional: bool) -> Type:
        """Return the type of an element or entry; of one marked with `?`, the optional's content."""
        type = self.check(node)
        if not is_optional:
            return type
        inner = unwrap_optional(type)
        if inner is None and not type.is_dynamic:
            raise self._mismatch(node, optional_of(type), type)
        return inner if inner is not None else type

    def _join(self, before: Type | None, type: Type) -> Type:
        """Return a type for both; mixed literals are rejected by `program.validate`."""
        if before is None:
            return type
        return more_general(before, type) if self.substitutions.unify([before], [type]) else DYN

    def _comprehension(self, node: Comprehension) -> Type:
        range_type = self.substitutions.resolve(self.check(node.iter_range))
        accu = self.check(node.accu_init)
        if range_type.name == "list":
            (element,) = range_type.parameters
            first, second = (INT, element) if node.iter_var2 else (element, ERROR)
        elif range_type.name == "map":
            first, second = range_type.parameters
        elif (range_type.is_unknown and range_type.name != "any") or range_type.is_parameter:
            self.substitutions.unify([DYN], [range_type])
            first, second = DYN, DYN
        else:
            problem = f"expression of type '{format_type(range_type)}' cannot be range of a comprehension"
            raise CelError(f"{problem} (must be list, map, or dynamic)", node.iter_range.position)
        self._scopes.append({node.accu_var: accu})
        self._scopes.append({node.iter_var: first} | ({node.iter_var2: second} if node.iter_var2 else {}))
        self.check(node.condition)
        self._expect(node.condition, BOOL)
        self.check(node.step)
        self._expect(node.step, accu)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self.substitutions.resolve(result)

    def _expect(self, node: SyntaxNode, expected: Type) -> None:
        if not self.substitutions.unify([expected], [node.type]):
            raise self._mismatch(node, expected, node.type)

    def _mismatch(self, node: SyntaxNode, expected: Type, actual: Type) -> CelError:
        expected, actual = (self.substitutions.resolve(type, DYN) for type in (expected, actual))
        return CelError(f"expected type '{expected}' but found '{actual}'", node.position)


def _undeclared_error(node: SyntaxNode, name: str) -> CelError:
    return CelError(f"undeclared reference to '{name}' (in container '')", node.position)


def named_type(node: SyntaxNode, environment: Environment) -> TypeValue | None:
    """Return the type that a checked node names, None if it is no type name."""
    name = qualified_name(node)
    if name is None or node.type.name != "type" or name.removeprefix(".") not in environment.types:
        return None
    return TypeValue(node.type.parameters[0].name)
