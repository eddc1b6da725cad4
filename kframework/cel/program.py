"""An expression, compiled: parsed, checked, validated, its constants folded.

What only folding finds wrong does not compile either, as in cel-go; a folded constant costs nothing at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kframework.cel.checker import Environment, check, is_type_name
from kframework.cel.compiler import compile_tree
from kframework.cel.costs import LIMIT
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.library.regex import pattern
from kframework.cel.library.strings import TAKES, clauses, not_taken
from kframework.cel.parser import parse
from kframework.cel.run import Run, Step, carried_out
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Node, Select, walk
from kframework.cel.types import Type, formatted
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
            values = [element.value for element in node.elements if isinstance(element, Literal)]
            if not node.optional and len(values) == len(node.elements):
                return _literal(node, values)
        case Map():
            node.keys = _all(node.keys, environment)
            node.values = _all(node.values, environment)
            values = [child.value for child in node.children() if isinstance(child, Literal)]
            if not node.optional and len(values) == 2 * len(node.keys):
                keys, values = values[: len(node.keys)], values[len(node.keys) :]
                return _literal(node, dict(zip(map(key_of, keys), values, strict=True)))
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


#: What may be given a constant that does not read.
_READERS = frozenset({"duration", "timestamp", "matches"})


def validate(root: Node) -> None:
    """Look through a checked tree; raises CelError at what is wrong."""
    exempt: set[Node] = set()
    for node, _ in walk(root):
        if isinstance(node, Call):
            constant = next(iter(node.args), None)
            if node.function in _READERS and isinstance(constant, Literal):
                # Of `matches` as a function of two this is the text, in cel-go too.
                try:
                    pattern(str(constant.value)) if node.function == "matches" else carried_out(node)(constant.value)
                except CelError:
                    raise CelError(f"invalid {node.function} argument", constant.position) from None
            if node.function == "format":
                exempt.update(inner for inner, _ in walk(node))
                _validate_format(node)
        elif isinstance(node, List) and node not in exempt:
            _validate_alike(node.elements, node.optional)
        elif isinstance(node, Map) and node not in exempt:
            _validate_alike(node.keys, frozenset())
            _validate_alike(node.values, node.optional)


def _validate_alike(nodes: Sequence[Node], optional: frozenset[int]) -> None:
    types = [node.type for node in nodes]
    for place in optional:
        types[place] = next(iter(types[place].parameters), types[place])  # what it holds
    for node, type in zip(nodes, types, strict=True):
        if type != types[0]:
            problem = f"expected type '{formatted(types[0])}' but found '{formatted(type)}'"
            raise CelError(problem, node.position)


def _validate_format(node: Call) -> None:
    match node:
        case Call(target=Literal(value=str() as text), args=[List(elements=elements)]):
            try:
                letters = [clause[0] for _, clause in clauses(text, len(elements)) if clause is not None]
                for letter, element in zip(letters, elements, strict=False):
                    for value in _formatted(element) if letter == "s" else [element]:
                        # Only dyn passes: of `any` cel-go's check does not know what it may be.
                        if value.type.name != "dyn" and value.type.name not in TAKES[letter][0]:
                            raise not_taken(letter, str(value.type))
            except CelError as error:
                raise CelError(error.text, node.position) from None
            if (used := len(letters)) < len(elements):
                problem = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
                raise CelError(problem, node.position)


def _formatted(node: Node) -> Iterator[Node]:
    """Yield a value and, of a list or map that is written out, those within."""
    yield node
    if isinstance(node, (List, Map)):
        for child in node.children():
            yield from _formatted(child)


_TOO_DEEP: Final = "expression recursion limit exceeded"
TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled expression, of a type that the checker found; `names` are the variables that it reads."""

    expression: str
    type: Type
    names: frozenset[str]
    _step: Step

    def evaluate(self, run: Run) -> object:
        """Return what it comes to, and leave in the run what it cost; raises CelError."""
        try:
            value: object = self._step(run)
        except CelError as error:
            raise CelError(error.text, None, self.expression) from None
        except CostLimitExceeded:
            raise CelError(TOO_COSTLY, None, self.expression) from None
        except RecursionError:  # where the caller's own stack is deep already
            raise CelError(_TOO_DEEP, None, self.expression) from None
        if run.cost > LIMIT:
            raise CelError(TOO_COSTLY, None, self.expression)
        return value


def compile_program(expression: str, environment: Environment, problem: Callable[[Type], str]) -> Program:
    """Compile an expression as Kubernetes 1.36 does; raises CelError.

    `problem` says what is wrong with the type that it is of, nothing where that is right.
    """
    try:
        root = parse(expression)
        check(root, environment)
        validate(root)
        if said := problem(root.type):
            raise CelError(said)
        names = frozenset(node.name for node, _ in walk(root) if isinstance(node, Ident)) & environment.variables.keys()
        try:
            step = compile_tree(fold(root, environment))
        except CelError as error:
            raise CelError(f"program instantiation failed: {error.text}") from None
        return Program(expression, root.type, names, step)
    except CelError as error:
        raise error.within(expression) from None
    except RecursionError:  # where the caller's own stack is deep already
        raise CelError(_TOO_DEEP, None, expression) from None
