"""The syntax tree of an expression, into which the checker writes what it finds: types, and the overloads of calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kframework.cel.functions import Overload
from kframework.cel.types import DYN, Type


@dataclass(slots=True, eq=False)
class Node:
    """Anything that has a value; `position` is the character that error texts point at."""

    position: int
    type: Type = field(init=False, default=DYN)

    def children(self) -> Iterator[Node]:
        """Yield the nodes right under this one."""
        yield from ()


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A value that stands in the text, or was found before any value was looked at."""

    value: object


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A variable or the name of a type."""

    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`; one that is a `test` is `has(operand.field)`."""

    operand: Node
    field: str
    test: bool = False

    def children(self) -> Iterator[Node]:
        yield self.operand


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, a method of `target`, or an operator, which goes by a name such as `_+_`.

    A row of `&&` or of `||` is one call of many arguments.
    """

    function: str
    target: Node | None
    args: list[Node]
    overloads: tuple[Overload, ...] = field(init=False, default=())

    def children(self) -> Iterator[Node]:
        if self.target is not None:
            yield self.target
        yield from self.args


@dataclass(slots=True, eq=False)
class List(Node):
    """`[a, ?b]`; `optional` holds the places of the elements that may be absent."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()

    def children(self) -> Iterator[Node]:
        yield from self.elements


@dataclass(slots=True, eq=False)
class Map(Node):
    """`{k: v, ?k: v}`; `optional` holds the places of the entries that may be absent."""

    keys: list[Node]
    values: list[Node]
    optional: frozenset[int] = frozenset()

    def children(self) -> Iterator[Node]:
        yield from self.keys
        yield from self.values


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A loop, which only macros write: it gathers an accu; `iter_var2` is empty in a loop of one variable."""

    iter_range: Node
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Node
    condition: Node
    step: Node
    result: Node

    def children(self) -> Iterator[Node]:
        yield from (self.iter_range, self.accu_init, self.condition, self.step, self.result)


def qualified_name(node: Node | None) -> str | None:
    """Return `a.b.c` where a node reads as a dotted name, None otherwise."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix is not None else None
    return None


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield every node with its depth, the root first, without recursion."""
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(child, depth + 1) for child in node.children()]
