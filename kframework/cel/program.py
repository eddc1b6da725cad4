"""Compile an expression: parse, check, validate, fold constants.

An error during folding is a compile error, as in cel-go; a folded constant costs nothing in an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kframework.cel.checker import Environment, check, named_type
from kframework.cel.compiler import compile_tree
from kframework.cel.costs import COST_LIMIT
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.evaluation import Evaluation, Step, find_implementation
from kframework.cel.library.regex import compile_pattern
from kframework.cel.library.strings import CLAUSE_TYPES, clause_error, parse_clauses
from kframework.cel.parser import parse
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Select, SyntaxNode, walk
from kframework.cel.types import Type, format_type
from kframework.cel.values import to_key

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
_REGEXES = frozenset({"matches", "find", "findAll"})


def fold(node: SyntaxNode, environment: Environment) -> SyntaxNode:
    """Return a checked tree with constants folded; raises CelError for an invalid constant."""
    if (type_value := named_type(node, environment)) is not None:
        return _to_literal(node, type_value)
    match node:
        case Select():
            node.operand = fold(node.operand, environment)
        case Call():
            node.target = fold(node.target, environment) if node.target is not None else None
            node.args = _fold_all(node.args, environment)
            return _fold_call(node)
        case List():
            node.elements = _fold_all(node.elements, environment)
            values = [element.value for element in node.elements if isinstance(element, Literal)]
            if not node.optional and len(values) == len(node.elements):
                return _to_literal(node, values)
        case Map():
            node.keys = _fold_all(node.keys, environment)
            node.values = _fold_all(node.values, environment)
            values = [child.value for child in node.children() if isinstance(child, Literal)]
            if not node.optional and len(values) == 2 * len(node.keys):
                keys, values = values[: len(node.keys)], values[len(node.keys) :]
                return _to_literal(node, dict(zip(map(to_key, keys), values, strict=True)))
        case Comprehension():
            node.iter_range = fold(node.iter_range, environment)
            node.accu_init = fold(node.accu_init, environment)
            node.condition = fold(node.condition, environment)
            node.step = fold(node.step, environment)
            node.result = fold(node.result, environment)
    return node


def _fold_all(nodes: list[SyntaxNode], environment: Environment) -> list[SyntaxNode]:
    return [fold(node, environment) for node in nodes]


def _fold_call(node: Call) -> SyntaxNode:
    if node.function in _CONVERSIONS and node.target is None and isinstance(node.args[0], Literal):
        apply = find_implementation(node)
        try:
            return _to_literal(node, apply(node.args[0].value))
        except CelError as error:
            raise CelError(error.text, node.position) from None
    if node.function in _REGEXES and isinstance(regex := list(node.children())[1], Literal):
        compile_pattern(str(regex.value))
    is_one = len(node.overloads) == 1
    if node.function == "@in" and is_one and isinstance(node.args[1], Literal) and node.args[1].value == []:
        return _to_literal(node, False)
    return node


def _to_literal(node: SyntaxNode, value: object) -> Literal:
    literal = Literal(node.position, value)
    literal.type = node.type
    return literal


#: Functions whose constant argument is validated.
_VALIDATED_FUNCTIONS = frozenset({"duration", "timestamp", "matches"})


def validate(root: SyntaxNode) -> None:
    exempt: set[SyntaxNode] = set()
    for node, _ in walk(root):
        if isinstance(node, Call):
            constant = next(iter(node.args), None)
            if node.function in _VALIDATED_FUNCTIONS and isinstance(constant, Literal):
                # For `matches` called as a function this is the text, as in cel-go.
                try:
                    value = constant.value
                    compile_pattern(str(value)) if node.function == "matches" else find_implementation(node)(value)
                except CelError:
                    raise CelError(f"invalid {node.function} argument", constant.position) from None
            if node.function == "format":
                exempt.update(inner for inner, _ in walk(node))
                _validate_format(node)
        elif isinstance(node, List) and node not in exempt:
            _validate_same_type(node.elements, node.optional)
        elif isinstance(node, Map) and node not in exempt:
            _validate_same_type(node.keys, frozenset())
            _validate_same_type(node.values, node.optional)


def _validate_same_type(nodes: Sequence[SyntaxNode], optional: frozenset[int]) -> None:
    types = [node.type for node in nodes]
    for index in optional:
        types[index] = next(iter(types[index].parameters), types[index])  # the optional's content
    for node, type in zip(nodes, types, strict=True):
        if type != types[0]:
            problem = f"expected type '{format_type(types[0])}' but found '{format_type(type)}'"
            raise CelError(problem, node.position)


def _validate_format(node: Call) -> None:
    match node:
        case Call(target=Literal(value=str() as text), args=[List(elements=elements)]):
            try:
                letters = [clause[0] for _, clause in parse_clauses(text, len(elements)) if clause is not None]
                for letter, element in zip(letters, elements, strict=False):
                    for value in _formatted_nodes(element) if letter == "s" else [element]:
                        # Only dyn passes: cel-go's check rejects `any`.
                        if value.type.name != "dyn" and value.type.name not in CLAUSE_TYPES[letter][0]:
                            raise clause_error(letter, str(value.type))
            except CelError as error:
                raise CelError(error.text, node.position) from None
            if (used := len(letters)) < len(elements):
                problem = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
                raise CelError(problem, node.position)


def _formatted_nodes(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield a value and, of a list or map to format, its contents."""
    yield node
    if isinstance(node, (List, Map)):
        for child in node.children():
            yield from _formatted_nodes(child)


_TOO_DEEP: Final = "expression recursion limit exceeded"
TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True, eq=False)
class CelProgram:
    """A compiled expression with its type; `names` are the variables that it reads."""

    expression: str
    type: Type
    names: frozenset[str]
    _step: Step

    def evaluate(self, run: Evaluation) -> object:
        """Evaluate the expression, and add its cost to `run`; raises CelError."""
        try:
            value: object = self._step(run)
        except CelError as error:
            raise CelError(error.text, None, self.expression) from None
        except CostLimitExceeded:
            raise CelError(TOO_COSTLY, None, self.expression) from None
        except RecursionError:  # the caller's own stack is deep already
            raise CelError(_TOO_DEEP, None, self.expression) from None
        if run.cost > COST_LIMIT:
            raise CelError(TOO_COSTLY, None, self.expression)
        return value


def compile_program(expression: str, environment: Environment, problem: Callable[[Type], str]) -> CelProgram:
    """Compile an expression as Kubernetes 1.36 does; raises CelError.

    `problem` returns what is wrong with the expression's type, "" if it is valid.
    """
    try:
        root = parse(expression)
        check(root, environment)
        validate(root)
        if type_problem := problem(root.type):
            raise CelError(type_problem)
        names = frozenset(node.name for node, _ in walk(root) if isinstance(node, Ident)) & environment.variables.keys()
        try:
            step = compile_tree(fold(root, environment))
        except CelError as error:
            raise CelError(f"program instantiation failed: {error.text}") from None
        return CelProgram(expression, root.type, names, step)
    except CelError as error:
        raise error.with_expression(expression) from None
    except RecursionError:  # the caller's own stack is deep already
        raise CelError(_TOO_DEEP, None, expression) from None
