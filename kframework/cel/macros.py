"""Macros: calls that are written out as loops before anything is checked.

Each takes the place of the call, its target and its arguments, and says what it expands to. The loops are those of
cel-go, step by step, since its costs are counted on them. To `cel.bind` and its like a loop over nothing gives a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kframework.cel.errors import CelError
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Node, Select

#: What a loop gathers goes by a name that nobody can write.
ACCU = "@result"
_SORTED = "@sorted"
_Quantifier = tuple[Node, Node, Node, Node]


def expanded(position: int, function: str, target: Node | None, args: list[Node]) -> Node:
    """Return the call, or what it is written out as where it is a macro; raises CelError for a macro's wrong use."""
    macro = _MACROS.get((function, len(args), target is not None))
    found = macro(_Call(position, target, args)) if macro is not None else None
    return found if found is not None else Call(position, function, target, args)


class _Call:
    """A call that may be a macro, and how to write the parts of what it expands to."""

    def __init__(self, position: int, target: Node | None, args: list[Node]) -> None:
        self.position = position
        self.args = args
        self._target = target

    @property
    def target(self) -> Node:
        return cast(Node, self._target)  # a macro of a method has one

    def literal(self, value: object) -> Node:
        return Literal(self.position, value)

    def accu(self) -> Node:
        return Ident(self.position, ACCU)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self.position, function, None, list(args))

    def method(self, function: str, target: Node, *args: Node) -> Node:
        return Call(self.position, function, target, list(args))

    def list(self, *elements: Node) -> Node:
        return List(self.position, list(elements))

    def name(self, place: int, problem: str) -> str:
        argument = self.args[place]
        if not isinstance(argument, Ident) or argument.name.startswith("."):
            raise CelError(problem, argument.position)
        if argument.name == "__result__":
            raise CelError("iteration variable overwrites accumulator variable", argument.position)
        return argument.name

    def loop(self, iter_var: str, iter_var2: str, parts: _Quantifier) -> Node:
        init, condition, step, result = parts
        return Comprehension(self.position, self.target, iter_var, iter_var2, ACCU, init, condition, step, result)

    def bind(self, name: str, value: Node, result: Node) -> Node:
        nothing, never, named = self.list(), self.literal(False), Ident(self.position, name)
        return Comprehension(self.position, nothing, "#unused", "", name, value, never, named, result)


def _all(call: _Call, predicate: Node) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.accu())
    return call.literal(True), condition, call.call("_&&_", call.accu(), predicate), call.accu()


def _exists(call: _Call, predicate: Node) -> _Quantifier:
    condition = call.call("@not_strictly_false", call.call("!_", call.accu()))
    return call.literal(False), condition, call.call("_||_", call.accu(), predicate), call.accu()


def _exists_one(call: _Call, predicate: Node) -> _Quantifier:
    counted = call.call("_+_", call.accu(), call.literal(1))
    step = call.call("_?_:_", predicate, counted, call.accu())
    return call.literal(0), call.literal(True), step, call.call("_==_", call.accu(), call.literal(1))


def _gathered(call: _Call, init: Node, added: Node, condition: Node | None) -> _Quantifier:
    step = added if condition is None else call.call("_?_:_", condition, added, call.accu())
    return init, call.literal(True), step, call.accu()


def _appended(call: _Call, element: Node, condition: Node | None) -> _Quantifier:
    return _gathered(call, call.list(), call.call("_+_", call.accu(), call.list(element)), condition)


def _quantifier(make: Callable[[_Call, Node], _Quantifier]) -> Callable[[_Call], Node]:
    return lambda call: call.loop(call.name(0, "argument must be a simple name"), "", make(call, call.args[1]))


def _quantifier2(make: Callable[[_Call, Node], _Quantifier]) -> Callable[[_Call], Node]:
    return lambda call: call.loop(*_two_names(call), make(call, call.args[2]))


def _two_names(call: _Call) -> tuple[str, str]:
    first, second = (call.name(place, "argument must be a simple name") for place in (0, 1))
    if first == second:
        raise CelError(f"duplicate variable name: {first}", call.args[1].position)
    return first, second


def _map(call: _Call) -> Node:
    name = call.name(0, "argument is not an identifier")
    *condition, element = call.args[1:]
    return call.loop(name, "", _appended(call, element, condition[0] if condition else None))


def _filter(call: _Call) -> Node:
    name = call.name(0, "argument is not an identifier")
    return call.loop(name, "", _appended(call, call.args[0], call.args[1]))


def _transform_list(call: _Call) -> Node:
    names = _two_names(call)
    *condition, element = call.args[2:]
    return call.loop(*names, _appended(call, element, condition[0] if condition else None))


def _transform_map(call: _Call) -> Node:
    key, value = _two_names(call)
    *condition, element = call.args[2:]
    inserted = call.call("cel.@mapInsert", call.accu(), Ident(call.position, key), element)
    empty = Map(call.position, [], [])
    return call.loop(key, value, _gathered(call, empty, inserted, condition[0] if condition else None))


def _transform_map_entry(call: _Call) -> Node:
    names = _two_names(call)
    *condition, entry = call.args[2:]
    inserted = call.call("cel.@mapInsert", call.accu(), entry)
    empty = Map(call.position, [], [])
    return call.loop(*names, _gathered(call, empty, inserted, condition[0] if condition else None))


def _has(call: _Call) -> Node:
    argument = call.args[0]
    if not isinstance(argument, Select) or argument.test:
        raise CelError("invalid argument to has() macro", argument.position)
    return Select(call.position, argument.operand, argument.field, test=True)


def _bind(call: _Call) -> Node | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    name = call.name(0, "cel.bind() variable names must be simple identifiers")
    return call.bind(name, call.args[1], call.args[2])


def _opt_map(call: _Call) -> Node:
    return _if_present(call, "optMap", lambda found: call.call("optional.of", found))


def _opt_flat_map(call: _Call) -> Node:
    return _if_present(call, "optFlatMap", lambda found: found)


def _if_present(call: _Call, macro: str, wrapped: Callable[[Node], Node]) -> Node:
    name = call.name(0, f"{macro}() variable name must be a simple identifier")
    found = call.bind(name, call.method("value", call.target), call.args[1])
    present = call.method("hasValue", call.target)
    return call.call("_?_:_", present, wrapped(found), call.call("optional.none"))


def _sort_by(call: _Call) -> Node:
    if not isinstance(call.target, (List, Select, Ident, Comprehension, Call)):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise CelError(problem, call.target.position)
    unsorted = Ident(call.position, _SORTED)
    keys = _map(_Call(call.position, unsorted, call.args))
    return call.bind(_SORTED, call.target, call.method("@sortByAssociatedKeys", unsorted, keys))


_MACROS: dict[tuple[str, int, bool], Callable[[_Call], Node | None]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(_all),
    ("exists", 2, True): _quantifier(_exists),
    ("exists_one", 2, True): _quantifier(_exists_one),
    ("existsOne", 2, True): _quantifier(_exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _quantifier2(_all),
    ("exists", 3, True): _quantifier2(_exists),
    ("exists_one", 3, True): _quantifier2(_exists_one),
    ("existsOne", 3, True): _quantifier2(_exists_one),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}
