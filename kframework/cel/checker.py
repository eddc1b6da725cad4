"""Types, names and overloads of a syntax tree, found or missed before any value is looked at.

The rules for type parameters are those of cel-go's checker, since overload resolution depends on each of them.
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
    Node,
    Select,
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
    formatted,
    list_of,
    map_of,
    optional_of,
    unwrapped,
)
from kframework.cel.values import TypeValue, Uint

_STRUCTURED = frozenset({"list", "map", "optional_type"})


class Substitutions:
    """Types by type parameter; a failed attempt to assign leaves no trace."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []  # what was changed, and what stood there
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a type parameter that occurs nowhere else."""
        self._fresh += 1
        return Type(f"${self._fresh}")

    def assign(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        """Return whether each type may stand for the other, and keep what that says about type parameters."""
        self._trail.clear()
        if len(wanted) == len(given) and all(map(self._assign, wanted, given)):
            return True
        for parameter, before in reversed(self._trail):
            if before is None:
                del self._types[parameter]
            else:
                self._types[parameter] = before
        return False

    def resolve(self, type: Type) -> Type:
        """Return a type with what is known of its parameters in their place."""
        if not type.is_parameter:
            return _mapped(type, self.resolve)
        found = self._types.get(type)
        return self.resolve(found) if found is not None else type

    def final(self, type: Type) -> Type:
        """Return a type without type parameters: what is not known of them is dynamic."""
        if not type.is_parameter:
            return _mapped(type, self.final)
        found = self._types.get(type)
        return self.final(found) if found is not None else DYN

    def _assign(self, wanted: Type, given: Type) -> bool:
        if given.is_parameter:
            found = self._substitute(given, wanted)
            if found or given in self._types:
                return found
        if wanted.is_parameter:
            return self._substitute(wanted, given)
        if wanted.is_unknown or given.is_unknown:
            return True
        if wanted.name == "null_type":
            return given.name not in NEVER_NULL
        if given.name == "null_type":
            return wanted.name not in NEVER_NULL
        if wanted.name != given.name:
            return False
        if wanted.name not in _STRUCTURED:
            return True
        return len(wanted.parameters) == len(given.parameters) and all(
            map(self._assign, wanted.parameters, given.parameters)
        )

    def _substitute(self, parameter: Type, type: Type) -> bool:
        """Return whether a type parameter may stand for a type, and keep it, or the more general of it and before."""
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
        if not self._assign(type, known):
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


def instance(types: Sequence[Type], parameters: Mapping[Type, Type]) -> list[Type]:
    """Return types with their parameters replaced."""
    return [parameters[type] if type in parameters else _replaced(type, parameters) for type in types]


def more_general(one: Type, other: Type) -> Type:
    """Return the type that says less."""
    return one if _is_less_specific(one, other) else other


def _replaced(type: Type, parameters: Mapping[Type, Type]) -> Type:
    return Type(type.name, tuple(instance(type.parameters, parameters))) if type.parameters else type


def _mapped(type: Type, change: Callable[[Type], Type]) -> Type:
    return Type(type.name, tuple(map(change, type.parameters))) if type.parameters else type


def _is_less_specific(one: Type, other: Type) -> bool:
    if one.is_dynamic or one.is_parameter:
        return True
    if other.is_dynamic or other.is_parameter or one.name != other.name:
        return False
    return one.name == "type" or (
        len(one.parameters) == len(other.parameters) and all(map(_is_less_specific, one.parameters, other.parameters))
    )


_LITERALS = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}


class Environment(NamedTuple):
    """What an expression may name: functions, variables, the names of types, and the fields of what has fields."""

    functions: Mapping[str, Sequence[Overload]]
    variables: Mapping[str, Type]
    types: Mapping[str, Type]
    fields: Mapping[Type, Mapping[str, Type]]


def check(root: Node, environment: Environment) -> None:
    """Write types and overloads into a tree; raises CelError at the first thing that is wrong."""
    checker = _Checker(environment)
    checker.check(root)
    for node, _ in walk(root):
        node.type = checker.substitutions.final(node.type)


class _Checker:
    """Goes down a tree once; `_scopes` holds what loops and bindings declare, the innermost last."""

    def __init__(self, environment: Environment) -> None:
        self.substitutions = Substitutions()
        self._environment = environment
        self._scopes: list[Mapping[str, Type]] = [environment.variables]

    def check(self, node: Node) -> Type:
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
        """Return the type of a variable, or of a type by its name."""
        name = node.name.removeprefix(".")
        scopes = reversed(self._scopes) if name == node.name else [self._environment.variables]
        found = next((scope[name] for scope in scopes if name in scope), None) or self._environment.types.get(name)
        if found is None:
            raise _undeclared(node, node.name)
        return found

    def _select(self, node: Select) -> Type:
        name = qualified_name(node)
        if name is not None and (found := self._environment.types.get(name.removeprefix("."))) is not None:
            return found
        type = self._field(node, node.operand, node.field)
        return BOOL if node.test else self.substitutions.resolve(type)

    def _field(self, node: Node, operand: Node, field: str, *, is_optional: bool = False) -> Type:
        operand_type = self.substitutions.resolve(self.check(operand))
        inner = unwrapped(operand_type)
        target, type = inner if inner is not None else operand_type, DYN
        if target.name == "map":
            type = target.parameters[1]
        elif target in self._environment.fields:
            found = self._environment.fields[target].get(field)
            if found is None:
                raise CelError(f"undefined field '{field}'", node.position)
            type = found
        elif target.is_parameter:
            self.substitutions.assign([DYN], [target])
        elif not target.is_unknown:
            raise CelError(f"type '{formatted(target)}' does not support field selection", node.position)
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
            raise _undeclared(node, function)
        node.function = function
        return self._resolve(node, overloads)

    def _resolve(self, node: Call, overloads: Sequence[Overload]) -> Type:
        """Find the overloads that take the arguments: one, or several where the run time has to tell."""
        if node.function in ("_&&_", "_||_"):
            for argument in node.args:
                self._expect(argument, BOOL)
            return BOOL
        given = [child.type for child in node.children()]
        fitting: list[Overload] = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_method is (node.target is None):
                continue
            fresh = {Type(name): self.substitutions.fresh() for name in sorted(overload.type_parameters)}
            if not self.substitutions.assign(given, instance(overload.parameters, fresh)):
                continue
            fitting.append(overload)
            its = self.substitutions.resolve(instance([overload.result], fresh)[0])
            if result is None:
                result = its
            elif not result.is_dynamic and its != result:
                result = DYN
        if result is None:
            types = [formatted(self.substitutions.final(type)) for type in given]
            spelled = f"{types[0]}.({', '.join(types[1:])})" if node.target is not None else f"({', '.join(types)})"
            raise CelError(f"found no matching overload for '{node.function}' applied to '{spelled}'", node.position)
        node.overloads = tuple(fitting)
        return result

    def _list(self, node: List) -> Type:
        element: Type | None = None
        for place, child in enumerate(node.elements):
            element = self._join(element, self._present(child, place in node.optional))
        return list_of(element if element is not None else self.substitutions.fresh())

    def _map(self, node: Map) -> Type:
        key: Type | None = None
        value: Type | None = None
        for place, (key_node, value_node) in enumerate(zip(node.keys, node.values, strict=True)):
            key = self._join(key, self.check(key_node))
            value = self._join(value, self._present(value_node, place in node.optional))
        if key is None or value is None:
            return map_of(self.substitutions.fresh(), self.substitutions.fresh())
        return map_of(key, value)

    def _present(self, node: Node, is_optional: bool) -> Type:
        """Return the type of an element or entry; of one marked with `?`, what the optional holds."""
        type = self.check(node)
        if not is_optional:
            return type
        inner = unwrapped(type)
        if inner is None and not type.is_dynamic:
            raise self._mismatch(node, optional_of(type), type)
        return inner if inner is not None else type

    def _join(self, before: Type | None, type: Type) -> Type:
        """Return the type of what may be either; that no literal mixes types is validated later."""
        if before is None:
            return type
        return more_general(before, type) if self.substitutions.assign([before], [type]) else DYN

    def _comprehension(self, node: Comprehension) -> Type:
        range_type = self.substitutions.resolve(self.check(node.iter_range))
        accu = self.check(node.accu_init)
        if range_type.name == "list":
            (element,) = range_type.parameters
            first, second = (INT, element) if node.iter_var2 else (element, ERROR)
        elif range_type.name == "map":
            first, second = range_type.parameters
        elif (range_type.is_unknown and range_type.name != "any") or range_type.is_parameter:
            self.substitutions.assign([DYN], [range_type])
            first, second = DYN, DYN
        else:
            what = f"expression of type '{formatted(range_type)}' cannot be range of a comprehension"
            raise CelError(f"{what} (must be list, map, or dynamic)", node.iter_range.position)
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

    def _expect(self, node: Node, wanted: Type) -> None:
        if not self.substitutions.assign([wanted], [node.type]):
            raise self._mismatch(node, wanted, node.type)

    def _mismatch(self, node: Node, wanted: Type, found: Type) -> CelError:
        wanted, found = self.substitutions.final(wanted), self.substitutions.final(found)
        return CelError(f"expected type '{wanted}' but found '{found}'", node.position)


def _undeclared(node: Node, name: str) -> CelError:
    return CelError(f"undeclared reference to '{name}' (in container '')", node.position)


def is_type_name(node: Node, environment: Environment) -> TypeValue | None:
    """Return the type that a checked node names, None where it names none."""
    name = qualified_name(node)
    if name is None or node.type.name != "type" or name.removeprefix(".") not in environment.types:
        return None
    return TypeValue(node.type.parameters[0].name)
