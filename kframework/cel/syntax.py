"""The syntax tree of an expression, with the types and overloads found by the checker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kframework.cel.functions import Overload
from kframework.cel.types import DYN, Type


@dataclass(slots=True, eq=False)
class SyntaxNode:
    """A node; `position` is the index of its character in error messages."""

    position: int
    type: Type = field(init=False, default=DYN)

    def children(self) -> Iterator[SyntaxNode]:
        yield from ()


@dataclass(slots=True, eq=False)
class Literal(SyntaxNode):
    """A literal or folded constant."""

    value: object


@dataclass(slots=True, eq=False)
class Ident(SyntaxNode):
    """A variable or a type name."""

    name: str


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    """`operand.field`, or `has(operand.field)` if `test` is set."""

    operand: SyntaxNode
    field: str
    test: bool = False

    def children(self) -> Iterator[SyntaxNode]:
        yield self.operand


@dataclass(slots=True, eq=False)
class Call(SyntaxNode):
    """A function, a method of `target`, or an operator such as `_+_`.

    A chain of `&&` or `||` is one call with many arguments.
    """

    function: str
    target: SyntaxNode | None
    args: list[SyntaxNode]
    overloads: tuple[Overload, ...] = field(init=False, default=())

    def children(self) -> Iterator[SyntaxNode]:
        if self.target is not None:
            yield self.target
        yield from self.args


@dataclass(slots=True, eq=False)
class List(SyntaxNode):
    """`[a, ?b]`; `optional` holds the indexes of optional elements."""

    elements: list[SyntaxNode]
    optional: frozenset[int] = frozenset()

    def children(self) -> Iterator[SyntaxNode]:
        yield from self.elements


@dataclass(slots=True, eq=False)
class Map(SyntaxNode):
    """`{k: v, ?k: v}`; `optional` holds the indexes of optional entries."""

    keys: list[SyntaxNode]
    values: list[SyntaxNode]
    optional: frozenset[int] = frozenset()

    def children(self) -> Iterator[SyntaxNode]:
        yield from self.keys
        yield from self.values


@dataclass(slots=True, eq=False)
class Comprehension(SyntaxNode):
    """A loop, created by macros only: it fills an accumulator; `iter_var2` is empty if there is one variable."""

    iter_range: SyntaxNode
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode

    def children(self) -> Iterator[SyntaxNode]:
        yield from (self.iter_range, self.accu_init, self.condition, self.step, self.result)


def qualified_name(node: SyntaxNode | None) -> str | None:
    """Return `a.b.c` for a dotted name, None for other nodes."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix is not None else None
    return None


def walk(root: SyntaxNode) -> Iterator[tuple[SyntaxNode, int]]:
    """Yield every node with its depth, the root first, without recursion."""
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in node.children()]
