"""What the checker lets pass and cel-go refuses: constants that do not read, mixed lists and maps, format strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kframework.cel.calls import carried_out
from kframework.cel.errors import CelError
from kframework.cel.library.regex import pattern
from kframework.cel.library.string_format import TAKES, clauses, not_taken
from kframework.cel.syntax import Call, List, Literal, Map, Node, walk
from kframework.cel.types import Type, formatted

#: What may be given a constant that does not read.
_READERS = frozenset({"duration", "timestamp", "matches"})


def validate(root: Node) -> None:
    """Look through a checked tree; raises CelError at what is wrong."""
    exempt: set[Node] = set()
    for node, _ in walk(root):
        if isinstance(node, Call):
            if node.function in _READERS:
                _validate_constant(node)
            if node.function == "format":
                exempt.update(inner for inner, _ in walk(node))
                _validate_format(node)
        elif isinstance(node, (List, Map)) and node not in exempt:
            _validate_literal(node)


def _validate_constant(node: Call) -> None:
    """Look at the first argument: of `matches` as a function of two that is the text, in cel-go too."""
    match node.args:
        case [Literal(value=value) as constant, *_]:
            try:
                pattern(str(value)) if node.function == "matches" else carried_out(node)(value)
            except CelError:
                raise CelError(f"invalid {node.function} argument", constant.position) from None


def _validate_literal(node: List | Map) -> None:
    if isinstance(node, List):
        _validate_alike(node.elements, node.optional)
    else:
        _validate_alike(node.keys, frozenset())
        _validate_alike(node.values, node.optional)


def _validate_alike(nodes: Sequence[Node], optional: frozenset[int]) -> None:
    types = [_held(node.type) if place in optional else node.type for place, node in enumerate(nodes)]
    for node, type in zip(nodes, types, strict=True):
        if type != types[0]:
            problem = f"expected type '{formatted(types[0])}' but found '{formatted(type)}'"
            raise CelError(problem, node.position)


def _held(type: Type) -> Type:
    return type.parameters[0] if type.parameters else type


def _validate_format(node: Call) -> None:
    match node:
        case Call(target=Literal(value=str() as text), args=[List(elements=elements)]):
            try:
                used = _check_clauses(text, elements)
            except CelError as error:
                raise CelError(error.text, node.position) from None
            if used < len(elements):
                problem = f"too many arguments supplied to string.format (expected {used}, got {len(elements)})"
                raise CelError(problem, node.position)


def _check_clauses(text: str, elements: Sequence[Node]) -> int:
    letters = [clause[0] for _, clause in clauses(text, len(elements)) if clause is not None]
    for letter, element in zip(letters, elements, strict=False):
        for node in _formatted(element) if letter == "s" else [element]:
            # Only dyn passes: of `any` cel-go's check does not know what it may be.
            if node.type.name != "dyn" and node.type.name not in TAKES[letter][0]:
                raise not_taken(letter, str(node.type))
    return len(letters)


def _formatted(node: Node) -> Iterator[Node]:
    """Yield a value and, of a list or map that is written out, those within."""
    yield node
    if isinstance(node, (List, Map)):
        for child in node.children():
            yield from _formatted(child)
