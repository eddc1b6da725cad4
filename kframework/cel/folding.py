"""What an expression comes to whatever the variables: constants in the place of literals and conversions of constants.

cel-go does the same, and a constant costs nothing there; what fails here does not compile.
"""

from __future__ import annotations

from kframework.cel.calls import carried_out
from kframework.cel.checker import Environment, is_type_name
from kframework.cel.errors import CelError
from kframework.cel.library.regex import pattern
from kframework.cel.syntax import Call, Comprehension, List, Literal, Map, Node, Select
from kframework.cel.values import key_of

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
_REGEXES = frozenset({"matches", "find", "findAll"})


def fold(node: Node, environment: Environment) -> Node:
    """Return a checked tree with its constants found; raises CelError for one that does not read."""
    if (named := is_type_name(node, environment)) is not None:
        return _literal(node, named)
    match node:
        case Select():
            node.operand = fold(node.operand, environment)
        case Call():
            node.target = fold(node.target, environment) if node.target is not None else None
            node.args = _all(node.args, environment)
            return _call(node)
        case List():
            node.elements = _all(node.elements, environment)
            if not node.optional and all(isinstance(element, Literal) for element in node.elements):
                return _literal(node, [_value(element) for element in node.elements])
        case Map():
            node.keys = _all(node.keys, environment)
            node.values = _all(node.values, environment)
            if not node.optional and all(isinstance(child, Literal) for child in node.children()):
                pairs = zip(map(_value, node.keys), map(_value, node.values), strict=True)
                return _literal(node, {key_of(key): value for key, value in pairs})
        case Comprehension():
            node.iter_range = fold(node.iter_range, environment)
            node.accu_init = fold(node.accu_init, environment)
            node.condition = fold(node.condition, environment)
            node.step = fold(node.step, environment)
            node.result = fold(node.result, environment)
    return node


def _all(nodes: list[Node], environment: Environment) -> list[Node]:
    return [fold(node, environment) for node in nodes]


def _call(node: Call) -> Node:
    if node.function in _CONVERSIONS and node.target is None and isinstance(node.args[0], Literal):
        apply = carried_out(node)
        try:
            return _literal(node, apply(node.args[0].value))
        except CelError as error:
            raise CelError(error.text, node.position) from None
    if node.function in _REGEXES and isinstance(regex := list(node.children())[1], Literal):
        pattern(str(regex.value))
    is_one = len(node.overloads) == 1
    if node.function == "@in" and is_one and isinstance(node.args[1], Literal) and node.args[1].value == []:
        return _literal(node, False)
    return node


def _literal(node: Node, value: object) -> Literal:
    literal = Literal(node.position, value)
    literal.type = node.type
    return literal


def _value(node: Node) -> object:
    assert isinstance(node, Literal)
    return node.value
