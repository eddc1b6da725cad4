"""Compile a checked syntax tree into Python closures: each takes an Evaluation, adds to its cost, and returns a value.

Costs are cel-go's: a variable and each step into it 1, a list 10, a map 30, constants nothing. A CelError is a Python
exception; what cel-go still evaluates and charges after an error is evaluated and charged here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import iadd
from typing import Final

from kframework.cel import closures
from kframework.cel.closures import get_item, get_optional_item, has_item
from kframework.cel.costs import COST_LIMIT, comparison, constant
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.evaluation import DeferredValue, Evaluation, Step, find_cost, find_implementation
from kframework.cel.parser import ACCU
from kframework.cel.syntax import Call, Comprehension, Ident, List, Literal, Map, Select, SyntaxNode
from kframework.cel.values import NONE, Optional, is_equal, map_keys, to_key, type_name

#: The initial accumulator, the condition (None if always true), the step, and the result of a loop.
LoopParts = tuple[Step, Step | None, Step, Step]


def binding(slot: int, value: Step, result: Step) -> Step:
    """Return a closure that binds a name to a value, which is evaluated on first use."""
    deferred = DeferredValue(value)

    def bind(run: Evaluation) -> object:
        run.slots[slot] = deferred
        return result(run)

    return bind


def loop(iter_range: Step, variables: Sequence[int], accu: int, parts: LoopParts) -> Step:
    """Return a closure that iterates over a list or map until the condition is false, despite errors.

    A step's error becomes the accumulator: the next step may recover from it, as `false && e` does.
    """
    is_two = len(variables) == 2
    init, condition, step, result = parts

    def run_loop(run: Evaluation) -> object:
        slots = run.slots
        items = _iterate(iter_range(run), is_two)
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
            if run.cost > COST_LIMIT:
                raise CostLimitExceeded
        return result(run)

    return run_loop


def _iterate(items: object, is_two: bool) -> Iterator[tuple[object, ...]]:
    """Yield elements of a list or keys of a map; for two variables, indexes and elements, or keys and values."""
    if isinstance(items, list):
        return iter(enumerate(items)) if is_two else zip(items, strict=True)
    if isinstance(items, dict):
        keys = map_keys(items)
        return zip(keys, items.values(), strict=True) if is_two else zip(keys, strict=True)
    if is_two:
        raise CelError(f"unsupported comprehension range type: {type_name(items)}")
    raise CelError(f"got '{type_name(items)}', expected iterable type")


_LIST_COST: Final = 10
_MAP_COST: Final = 30
_CONSTANT_PARSERS = frozenset({"quantity", "semver", "ip", "cidr", "url"})
#: Functions that take time that their cost does not include.
_UNCHARGED = frozenset({"_+_", "format", "replace", "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"})
#: Functions that continue a path: it is evaluated at once and charged as a path.
_PATH_FUNCTIONS = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})


def compile_tree(root: SyntaxNode) -> Step:
    return _Compiler().step(root)


def _is_path(node: SyntaxNode) -> bool:
    return isinstance(node, (Ident, Select)) or (isinstance(node, Call) and node.function in _PATH_FUNCTIONS)


class _Compiler:
    """Compiles nodes into closures; `_slots` are the slots of the variables in scope."""

    def __init__(self) -> None:
        self._slots: Mapping[str, int] = {}
        self._accus: set[int] = set()
        self._count = 0

    def step(self, node: SyntaxNode) -> Step:
        match node:
            case Literal(value=value):
                return lambda run: value
            case Select(operand=operand, field=field, test=True):
                container = self._operand(operand, 0)

                def has_field(run: Evaluation) -> bool:
                    value = container(run)
                    run.cost += 1
                    return has_item(value, field)

                return has_field
            case List():
                return self._list(node)
            case Map():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        return self._path(node, 1) if _is_path(node) else self._call(node)

    def _path(self, node: SyntaxNode, base: int) -> Step:
        """Return the closure of a path; `base` is the cost of its root, 0 inside another path."""
        match node:
            case (
                Select(operand=operand, field=key, test=False)
                | Call(function="_[_]", args=[operand, Literal(value=key)])
            ):
                stepwise = closures.read_key(self._operand(operand, base), key)
                path = self._declared_path(node)
                return closures.read_path(path[0], path[1:], base, stepwise) if path is not None else stepwise
            case Call(function="_[_]", args=[operand, key]):
                return closures.read_computed_key(self._operand(operand, base), self._path(key, 0), get_item)
            case Call(function="_[?_]" | "_?._", args=[operand, key]):
                return closures.read_computed_key(self._operand(operand, base), self._path(key, 0), get_optional_item)
            case Call(function="_?_:_", args=[condition, truthy, falsy]):
                return closures.conditional(self.step(condition), self._path(truthy, 0), self._path(falsy, 0))
            case Ident(name=name) if name in self._slots:
                slot = self._slots[name]
                return closures.read_accumulator(slot, base) if slot in self._accus else closures.read_slot(slot, base)
            case Ident(name=name):
                return closures.read_variable(name.removeprefix("."), base)
        return self.step(node)

    def _operand(self, node: SyntaxNode, base: int) -> Step:
        if _is_path(node) and not (isinstance(node, Select) and node.test):
            return self._path(node, base)
        inner = self.step(node)
        return closures.add_cost(inner, base) if base else inner

    def _declared_path(self, node: SyntaxNode) -> tuple[str, ...] | None:
        """Return a variable of the environment and the constant keys that follow it; None for other paths."""
        match node:
            case Ident(name=name) if name not in self._slots:
                return (name.removeprefix("."),)
            case (
                Select(operand=operand, field=key, test=False)
                | Call(function="_[_]", args=[operand, Literal(value=str() as key)])
            ):
                prefix = self._declared_path(operand)
                return (*prefix, key) if prefix is not None else None
        return None

    def _call(self, node: SyntaxNode) -> Step:
        assert isinstance(node, Call)
        steps = list(map(self.step, node.children()))
        match node.function:
            case "_&&_":
                return closures.logical_chain(steps, False)
            case "_||_":
                return closures.logical_chain(steps, True)
            case "@not_strictly_false":
                return closures.not_strictly_false(steps[0])
            case "or":
                return closures.optional_or(steps)
            case "orValue":
                return closures.optional_or_value(steps)
            case "_==_" if isinstance(right := node.args[1], Literal) and isinstance(right.value, str):
                return closures.equals_text(steps[0], right.value)
            case "_==_":
                return closures.binary(steps, is_equal, comparison)
            case "_!=_":
                return closures.not_equal(steps)
            case "_+_" if node.type.name == "list" and isinstance(left := node.args[0], Ident) and left.name == ACCU:
                return closures.binary(steps, iadd, constant)  # in place: only the loop can access its list yet
            case "@in" if (members := _constant_members(node)) is not None:
                return closures.constant_membership(steps[0], members)
        if (step := _parse_constant(node)) is not None:
            return step
        if node.function in _UNCHARGED and (node.function != "_+_" or node.type.name == "list"):
            return closures.limit_size(self._apply(node, list(map(closures.limit_size, steps))))
        return self._apply(node, steps)

    def _apply(self, node: Call, steps: list[Step]) -> Step:
        apply, cost = find_implementation(node), find_cost(node)
        if len(steps) == 1:
            return closures.unary(steps[0], apply, cost)
        # These calls do not evaluate the second argument after an error in the first.
        has_constant_regex = node.function in ("matches", "find", "findAll") and isinstance(node.args[-1], Literal)
        stops_at_errors = has_constant_regex or (len(node.overloads) > 1 and not node.overloads[0].is_generic)
        if len(steps) == 2 and not stops_at_errors:
            return closures.binary(steps, apply, cost)
        return closures.nary(steps, apply, cost)

    def _list(self, node: List) -> Step:
        steps = enumerate(map(self.step, node.elements))
        elements = [(step, index in node.optional) for index, step in steps]

        def build(run: Evaluation) -> list[object]:
            result: list[object] = []
            for element, is_optional in elements:
                value = element(run)
                if not is_optional:
                    result.append(value)
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional list element from non-optional value {value}")
                elif value is not NONE:
                    result.append(value.value)
            run.cost += _LIST_COST
            return result

        return build

    def _map(self, node: Map) -> Step:
        pairs = zip(map(self.step, node.keys), map(self.step, node.values), strict=True)
        entries = [(key, value, index in node.optional) for index, (key, value) in enumerate(pairs)]

        def build(run: Evaluation) -> dict[object, object]:
            result: dict[object, object] = {}
            for key_step, value_step, is_optional in entries:
                key, value = to_key(key_step(run)), value_step(run)
                if not is_optional:
                    result[key] = value
                elif not isinstance(value, Optional):
                    raise CelError(f"cannot initialize optional entry '{key}' from non-optional value {value}")
                elif value is NONE:
                    result.pop(key, None)
                else:
                    result[key] = value.value
            run.cost += _MAP_COST
            return result

        return build

    def _comprehension(self, node: Comprehension) -> Step:
        iter_range = self.step(node.iter_range)
        init = _new_container(node.accu_init) or self.step(node.accu_init)
        outer_scope = self._slots
        accu = self._declare(node.accu_var)
        self._accus.add(accu)
        loop_scope = self._slots
        variables = [self._declare(name) for name in (node.iter_var, node.iter_var2) if name]
        is_endless = isinstance(node.condition, Literal) and node.condition.value is True
        condition = None if is_endless else self.step(node.condition)
        step = self.step(node.step)
        self._slots = loop_scope
        result = self.step(node.result)
        self._slots = outer_scope
        if isinstance(node.iter_range, Literal) and not node.iter_range.value:
            return binding(accu, init, result)
        return loop(iter_range, variables, accu, (init, condition, step, result))

    def _declare(self, name: str) -> int:
        self._slots = {**self._slots, name: self._count}
        self._count += 1
        return self._count - 1


def _parse_constant(node: Call) -> Step | None:
    """Return a constant such as `quantity("40Gi")`, parsed once but charged on each evaluation."""
    values = [child.value for child in node.children() if isinstance(child, Literal)]
    if node.function not in _CONSTANT_PARSERS or len(values) < len(node.args) or node.target is not None:
        return None
    try:
        value = find_implementation(node)(*values)
    except CelError:
        return None  # it fails in each evaluation
    return closures.add_cost(lambda run: value, find_cost(node)(*values))


def _constant_members(node: Call) -> frozenset[object] | None:
    """Return a list of constants as a set, None if that is impossible."""
    items = node.args[1]
    if not isinstance(items, Literal) or not isinstance(items.value, list) or len(node.overloads) != 1:
        return None
    if any(type(value) not in closures.SET_MEMBER_TYPES for value in items.value):
        return None
    return frozenset(map(to_key, items.value))


def _new_container(init: SyntaxNode) -> Step | None:
    """Return a closure that creates the empty list or map of a loop, one per evaluation."""
    if isinstance(init, Literal) and isinstance(init.value, (list, dict)) and not init.value:
        kind = type(init.value)
        return lambda run: kind()
    return None
