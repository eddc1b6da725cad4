"""From a checked syntax tree to Python closures: each takes a run, adds to its cost, and returns a value.

What costs how much is cel-go's: a variable and each step into it 1, a list 10, a map 30, constants nothing. A CelError
goes up as an exception; what cel-go evaluates and counts after an error is evaluated and counted here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import iadd
from typing import Final

from kframework.cel import closures
from kframework.cel.closures import has_item, item, optional_item
from kframework.cel.costs import LIMIT, comparison, one
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.parser import ACCU
from kframework.cel.run import Deferred, Run, Step, carried_out, cost_of
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Node, Select
from kframework.cel.values import NONE, Optional, equal, key_of, keys_of, type_name

#: How a loop begins, whether it goes on (None where it always does), what it does, and what comes of it.
Parts = tuple[Step, Step | None, Step, Step]


def binding(slot: int, value: Step, result: Step) -> Step:
    """Return a closure that gives a value a name: it is evaluated when it is first asked for, and then kept."""
    deferred = Deferred(value)

    def bind(run: Run) -> object:
        run.slots[slot] = deferred
        return result(run)

    return bind


def loop(iter_range: Step, variables: Sequence[int], accu: int, parts: Parts) -> Step:
    """Return a closure that goes through a list or map until the condition is false, errors or not.

    What fails in a step is what has been gathered so far: the next step may make up for it, as `false && e` does.
    """
    is_two = len(variables) == 2
    init, condition, step, result = parts

    def run_loop(run: Run) -> object:
        slots = run.slots
        items = _values(iter_range(run), is_two)
        slots[accu] = init(run)
        for values in items:
            slots.update(zip(variables, values, strict=True))
            if condition is not None:
                try:
                    if condition(run) is False:
                        break
                except CelError:
                    pass
            try:
                slots[accu] = step(run)
            except CelError as error:
                slots[accu] = error
            if run.cost > LIMIT:
                raise CostLimitExceeded
        return result(run)

    return run_loop


def _values(items: object, is_two: bool) -> Iterator[tuple[object, ...]]:
    """Yield the elements of a list or the keys of a map; for two variables elements with their places, or entries."""
    if isinstance(items, list):
        return iter(enumerate(items)) if is_two else zip(items, strict=True)
    if isinstance(items, dict):
        keys = keys_of(items)
        return zip(keys, items.values(), strict=True) if is_two else zip(keys, strict=True)
    if is_two:
        raise CelError(f"unsupported comprehension range type: {type_name(items)}")
    raise CelError(f"got '{type_name(items)}', expected iterable type")


_LIST: Final = 10
_MAP: Final = 30
#: What reads a constant, whatever the variables.
_READERS = frozenset({"quantity", "semver", "ip", "cidr", "url"})
#: What takes time that its cost does not tell.
_FREE = frozenset({"_+_", "format", "replace", "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"})
#: What is a path into a variable: evaluated in one go, and counted as such.
_PATHS = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})


def compile_tree(root: Node) -> Step:
    """Return the closure of a checked and folded tree."""
    return _Compiler().step(root)


def _is_path(node: Node) -> bool:
    return isinstance(node, (Ident, Select)) or (isinstance(node, Call) and node.function in _PATHS)


class _Compiler:
    """Turns nodes into closures; `_slots` says where in a run the variables in scope stand."""

    def __init__(self) -> None:
        self._slots: Mapping[str, int] = {}
        self._accus: set[int] = set()
        self._count = 0

    def step(self, node: Node) -> Step:
        """Return what evaluates a node."""
        match node:
            case Literal(value=value):
                return lambda run: value
            case Select(operand=operand, field=field, test=True):
                container = self._operand(operand, 0)

                def presence(run: Run) -> bool:
                    found = container(run)
                    run.cost += 1
                    return has_item(found, field)

                return presence
            case List():
                return self._list(node)
            case Map():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        return self._path(node, 1) if _is_path(node) else self._call(node)

    def _path(self, node: Node, base: int) -> Step:
        """Return what evaluates a path; `base` is what its root costs, nothing for one that is part of another path."""
        match node:
            case (
                Select(operand=operand, field=key, test=False)
                | Call(function="_[_]", args=[operand, Literal(value=key)])
            ):
                stepwise = closures.at(self._operand(operand, base), key)
                path = self._declared_path(node)
                return closures.declared_path(path[0], path[1:], base, stepwise) if path is not None else stepwise
            case Call(function="_[_]", args=[operand, key]):
                return closures.at_computed(self._operand(operand, base), self._path(key, 0), item)
            case Call(function="_[?_]" | "_?._", args=[operand, key]):
                return closures.at_computed(self._operand(operand, base), self._path(key, 0), optional_item)
            case Call(function="_?_:_", args=[condition, truthy, falsy]):
                return closures.conditional(self.step(condition), self._path(truthy, 0), self._path(falsy, 0))
            case Ident(name=name) if name in self._slots:
                slot = self._slots[name]
                return closures.gathered(slot, base) if slot in self._accus else closures.variable(slot, base)
            case Ident(name=name):
                return closures.declared(name.removeprefix("."), base)
        return self.step(node)

    def _operand(self, node: Node, base: int) -> Step:
        if _is_path(node) and not (isinstance(node, Select) and node.test):
            return self._path(node, base)
        inner = self.step(node)
        return closures.counted(inner, base) if base else inner

    def _declared_path(self, node: Node) -> tuple[str, ...] | None:
        """Return a variable of the environment and the constant keys that lead on from it; None for other paths."""
        match node:
            case Ident(name=name) if name not in self._slots:
                return (name.removeprefix("."),)
            case (
                Select(operand=operand, field=key, test=False)
                | Call(function="_[_]", args=[operand, Literal(value=str() as key)])
            ):
                before = self._declared_path(operand)
                return (*before, key) if before is not None else None
        return None

    def _call(self, node: Node) -> Step:
        assert isinstance(node, Call)
        steps = list(map(self.step, node.children()))
        match node.function:
            case "_&&_":
                return closures.row(steps, False)
            case "_||_":
                return closures.row(steps, True)
            case "@not_strictly_false":
                return closures.not_strictly_false(steps[0])
            case "or":
                return closures.either(steps)
            case "orValue":
                return closures.value_or(steps)
            case "_==_" if isinstance(right := node.args[1], Literal) and isinstance(right.value, str):
                return closures.equals_text(steps[0], right.value)
            case "_==_":
                return closures.binary(steps, equal, comparison)
            case "_!=_":
                return closures.differs(steps)
            case "_+_" if node.type.name == "list" and isinstance(left := node.args[0], Ident) and left.name == ACCU:
                return closures.binary(steps, iadd, one)  # nothing else can see the list that a loop fills yet
            case "@in" if (members := _members(node)) is not None:
                return closures.among(steps[0], members)
        if (parsed := _parsed(node)) is not None:
            return parsed
        if node.function in _FREE and (node.function != "_+_" or node.type.name == "list"):
            return closures.handling(self._applied(node, list(map(closures.handling, steps))))
        return self._applied(node, steps)

    def _applied(self, node: Call, steps: list[Step]) -> Step:
        apply, cost = carried_out(node), cost_of(node)
        if len(steps) == 1:
            return closures.unary(steps[0], apply, cost)
        # Of two arguments the second is not evaluated after an error in the first in these calls.
        has_constant_regex = node.function in ("matches", "find", "findAll") and isinstance(node.args[-1], Literal)
        stops_at_errors = has_constant_regex or (len(node.overloads) > 1 and not node.overloads[0].is_generic)
        if len(steps) == 2 and not stops_at_errors:
            return closures.binary(steps, apply, cost)
        return closures.nary(steps, apply, cost)

    def _list(self, node: List) -> Step:
        steps = enumerate(map(self.step, node.elements))
        elements = [(step, place in node.optional) for place, step in steps]

        def make(run: Run) -> list[object]:
            made: list[object] = []
            for element, is_optional in elements:
                value = element(run)
                if not is_optional:
                    made.append(value)
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional list element from non-optional value {value}")
                elif value is not NONE:
                    made.append(value.value)
            run.cost += _LIST
            return made

        return make

    def _map(self, node: Map) -> Step:
        pairs = zip(map(self.step, node.keys), map(self.step, node.values), strict=True)
        entries = [(key, value, place in node.optional) for place, (key, value) in enumerate(pairs)]

        def make(run: Run) -> dict[object, object]:
            made: dict[object, object] = {}
            for key_step, value_step, is_optional in entries:
                key, value = key_of(key_step(run)), value_step(run)
                if not is_optional:
                    made[key] = value
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
                elif value is NONE:
                    made.pop(key, None)
                else:
                    made[key] = value.value
            run.cost += _MAP
            return made

        return make

    def _comprehension(self, node: Comprehension) -> Step:
        iter_range = self.step(node.iter_range)
        init = _fresh(node.accu_init) or self.step(node.accu_init)
        outside = self._slots
        accu = self._declare(node.accu_var)
        self._accus.add(accu)
        around = self._slots
        variables = [self._declare(name) for name in (node.iter_var, node.iter_var2) if name]
        always = isinstance(node.condition, Literal) and node.condition.value is True
        condition = None if always else self.step(node.condition)
        step = self.step(node.step)
        self._slots = around
        result = self.step(node.result)
        self._slots = outside
        if isinstance(node.iter_range, Literal) and not node.iter_range.value:
            return binding(accu, init, result)
        return loop(iter_range, variables, accu, (init, condition, step, result))

    def _declare(self, name: str) -> int:
        """Give a variable a place in the run, and bring it into scope."""
        self._slots = {**self._slots, name: self._count}
        self._count += 1
        return self._count - 1


def _parsed(node: Call) -> Step | None:
    """Return what gives `quantity("40Gi")` and its like: it is read once, and costs what it costs each time."""
    values = [child.value for child in node.children() if isinstance(child, Literal)]
    if node.function not in _READERS or len(values) < len(node.args) or node.target is not None:
        return None
    try:
        value = carried_out(node)(*values)
    except CelError:
        return None  # it fails in each run
    return closures.counted(lambda run: value, cost_of(node)(*values))


def _members(node: Call) -> frozenset[object] | None:
    """Return the constants of a list as a set, None where they cannot be one."""
    items = node.args[1]
    if not isinstance(items, Literal) or not isinstance(items.value, list) or len(node.overloads) != 1:
        return None
    if any(type(value) not in closures.SETTABLE for value in items.value):
        return None
    return frozenset(map(key_of, items.value))


def _fresh(init: Node) -> Step | None:
    """Return what makes the empty list or map that a loop fills, new in each run."""
    if isinstance(init, Literal) and isinstance(init.value, (list, dict)) and not init.value:
        kind = type(init.value)
        return lambda run: kind()
    return None
