"""From a checked syntax tree to Python closures: each takes a run, adds to its cost, and returns a value.

What costs how much is cel-go's: a variable and each step into it 1, a list 10, a map 30, constants nothing. A CelError
goes up as an exception; what cel-go evaluates and counts after an error is evaluated and counted here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kframework.plugins.dynamic_resources.cel.calls import carried_out, cost_of
from kframework.plugins.dynamic_resources.cel.containers import has_item, item, no_such_key, optional_item
from kframework.plugins.dynamic_resources.cel.costs import comparison, one, ordering
from kframework.plugins.dynamic_resources.cel.errors import CelError
from kframework.plugins.dynamic_resources.cel.functions import Cost
from kframework.plugins.dynamic_resources.cel.loops import binding, loop
from kframework.plugins.dynamic_resources.cel.run import Run, Step
from kframework.plugins.dynamic_resources.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    List,
    Literal,
    Map,
    Node,
    Select,
)
from kframework.plugins.dynamic_resources.cel.values import (
    NONE,
    Optional,
    Uint,
    equal,
    key_of,
    no_such_overload,
)

_LIST: Final = 10
_MAP: Final = 30
#: What is a path into a variable: evaluated in one go, and counted as such.
_PATHS = frozenset({"_[_]", "_[?_]", "_?._", "_?_:_"})
_SETTABLE = frozenset({bool, int, Uint, float, str})


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
            case Select(test=True):
                return self._presence(node)
            case List():
                return self._list(node)
            case Map():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        return self._path(node, 1) if _is_path(node) else self._call(node)

    # -- paths --

    def _path(self, node: Node, base: int) -> Step:
        """Return what evaluates a path; `base` is what its root costs."""
        match node:
            case Select(test=False) if (keys := self._device_keys(node)) is not None:
                return _device_path(keys, base) or _at(self._operand(node.operand, base), node.field)
            case Select(test=False):
                return _at(self._operand(node.operand, base), node.field)
            case Call(function="_[_]", args=[operand, Literal(value=key)]):
                keys = self._device_keys(node)
                fast = _device_path(keys, base) if keys is not None else None
                return fast or _at(self._operand(operand, base), key)
            case Call(function="_[_]", args=[operand, key]):
                return _at_computed(self._operand(operand, base), self._uncounted(key), item)
            case Call(function="_[?_]" | "_?._", args=[operand, key]):
                return _at_computed(self._operand(operand, base), self._uncounted(key), optional_item)
            case Call(function="_?_:_", args=[condition, truthy, falsy]):
                return _conditional(self.step(condition), self._uncounted(truthy), self._uncounted(falsy))
            case Ident(name=name) if name in self._slots:
                slot = self._slots[name]
                return _gathered(slot, base) if slot in self._accus else _variable(slot, base)
            case Ident():
                return _device(base)
        return self.step(node)

    def _uncounted(self, node: Node) -> Step:
        """Return what evaluates a node that is part of a path: its own root is not counted."""
        return self._path(node, 0)

    def _operand(self, node: Node, base: int) -> Step:
        if _is_path(node) and not (isinstance(node, Select) and node.test):
            return self._path(node, base)
        inner = self.step(node)
        return _counted(inner, base) if base else inner

    def _device_keys(self, node: Node) -> tuple[str, ...] | None:
        """Return the keys of a path that leads from the device by constant names."""
        match node:
            case Ident(name=name) if name not in self._slots:
                return ()
            case (
                Select(operand=operand, field=key, test=False)
                | Call(function="_[_]", args=[operand, Literal(value=str() as key)])
            ):
                before = self._device_keys(operand)
                return (*before, key) if before is not None else None
        return None

    def _presence(self, node: Select) -> Step:
        operand, field = self._operand(node.operand, 0), node.field

        def presence(run: Run) -> bool:
            container = operand(run)
            run.cost += 1
            return has_item(container, field)

        return presence

    # -- calls --

    def _call(self, node: Node) -> Step:
        assert isinstance(node, Call)
        steps = [self.step(child) for child in node.children()]
        match node.function:
            case "_&&_":
                return _row(steps, decisive=False)
            case "_||_":
                return _row(steps, decisive=True)
            case "@not_strictly_false":
                return _not_strictly_false(steps[0])
            case "or":
                return _or(steps)
            case "orValue":
                return _or_value(steps)
            case "_==_":
                return _binary(steps, equal, comparison)
            case "_!=_":
                return _binary(steps, _different, ordering)
            case "_+_" if node.type.name == "list" and _is_accu(node.args[0]):
                return _binary(steps, _extended, one)
            case "@in" if (members := _members(node)) is not None:
                return _among(steps[0], members)
        apply, cost = carried_out(node), cost_of(node)
        if len(steps) == 1:
            return _unary(steps[0], apply, cost)
        if len(steps) == 2 and not _stops_at_errors(node):
            return _binary(steps, apply, cost)
        return _nary(steps, apply, cost)

    # -- lists, maps and loops --

    def _list(self, node: List) -> Step:
        elements = [(self.step(child), place in node.optional) for place, child in enumerate(node.elements)]

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
        condition, step = self.step(node.condition), self.step(node.step)
        self._slots = around
        result = self.step(node.result)
        self._slots = outside
        if isinstance(node.iter_range, Literal) and not node.iter_range.value:
            return binding(accu, init, result)
        return loop(iter_range, variables, accu, init, condition, step, result)

    def _declare(self, name: str) -> int:
        """Give a variable a place in the run, and bring it into scope."""
        self._slots = {**self._slots, name: self._count}
        self._count += 1
        return self._count - 1


# -- closures: paths -------------------------------------------------------------------------------------------------


def _device(base: int) -> Step:
    def device(run: Run) -> object:
        run.cost += base
        return run.device

    return device


def _variable(slot: int, base: int) -> Step:
    def variable(run: Run) -> object:
        run.cost += base
        return run.slots[slot]

    return variable


def _gathered(slot: int, base: int) -> Step:
    def gathered(run: Run) -> object:
        run.cost += base
        return run.gathered(slot)

    return gathered


def _device_path(keys: tuple[str, ...], base: int) -> Step | None:
    """Return what reads a field of the device, or an attribute or capacity by its domain and name: the usual paths."""
    if len(keys) == 1:
        field, cost = keys[0], base + 1

        def read_field(run: Run) -> object:
            run.cost += cost
            return run.device[field]

        return read_field
    if len(keys) != 3:
        return None
    (field, domain, name), cost = keys, base + 3

    def read(run: Run) -> object:
        run.cost += cost
        try:
            return run.device[field][domain][name]
        except KeyError:
            raise no_such_key(name) from None

    return read


def _at(operand: Step, key: object) -> Step:
    def at(run: Run) -> object:
        container = operand(run)
        run.cost += container is not NONE
        return item(container, key)

    return at


def _at_computed(operand: Step, key: Step, read: Callable[[Any, object], object]) -> Step:
    def at(run: Run) -> object:
        container = operand(run)
        found = key(run)
        run.cost += 1
        value = read(container, found)
        run.cost -= value is NONE
        return value

    return at


def _conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def choose(run: Run) -> object:
        chosen: object = condition(run)
        if chosen is True:
            return truthy(run)
        if chosen is False:
            return falsy(run)
        raise no_such_overload("_?_:_", (chosen,))

    return choose


def _counted(step: Step, cost: int) -> Step:
    def counted(run: Run) -> object:
        run.cost += cost
        return step(run)

    return counted


# -- closures: logic -------------------------------------------------------------------------------------------------


def _row(terms: Sequence[Step], *, decisive: bool) -> Step:
    """Return `&&` or `||` of terms: one that is `decisive` ends it, and makes up for errors on either side."""

    def row(run: Run) -> bool:
        failure: CelError | None = None
        for term in terms:
            try:
                value: object = term(run)
            except CelError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if value is not (not decisive):
                failure = failure or no_such_overload("_||_" if decisive else "_&&_", (value,))
        if failure is not None:
            raise failure
        return not decisive

    return row


def _not_strictly_false(step: Step) -> Step:
    def not_strictly_false(run: Run) -> bool:
        run.cost += 1
        try:
            return step(run) is not False
        except CelError:
            return True

    return not_strictly_false


def _or(steps: Sequence[Step]) -> Step:
    left, right = steps

    def either(run: Run) -> object:
        value = left(run)
        return right(run) if value is NONE else value

    return either


def _or_value(steps: Sequence[Step]) -> Step:
    left, right = steps

    def value_or(run: Run) -> object:
        value = left(run)
        if value is NONE:
            return right(run)
        return value.value if isinstance(value, Optional) else value

    return value_or


def _different(left: object, right: object) -> bool:
    try:
        return not equal(left, right)
    except CelError:
        return True


# -- closures: calls -------------------------------------------------------------------------------------------------


def _unary(argument: Step, apply: Callable[..., object], cost: Cost) -> Step:
    def call(run: Run) -> object:
        try:
            value = argument(run)
        except CelError:
            run.cost += 1
            raise
        run.charge(cost(value))
        return apply(value)

    return call


def _binary(steps: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    left, right = steps

    def call(run: Run) -> object:
        try:
            one_value = left(run)
        except CelError:
            _evaluate_anyway(right, run)
            raise
        try:
            other_value = right(run)
        except CelError:
            run.cost += 1
            raise
        run.charge(cost(one_value, other_value))
        return apply(one_value, other_value)

    return call


def _evaluate_anyway(step: Step, run: Run) -> None:
    """Evaluate what stands beside an error, for its cost alone."""
    run.cost += 1
    try:
        step(run)
    except CelError:
        return


def _nary(arguments: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    def call(run: Run) -> object:
        values: list[object] = []
        try:
            for argument in arguments:
                values.append(argument(run))  # noqa: PERF401 - how far it came counts
        except CelError:
            run.cost += len(values) == len(arguments) - 1
            raise
        run.charge(cost(*values))
        return apply(*values)

    return call


def _stops_at_errors(node: Call) -> bool:
    """Return whether of two arguments the second is not evaluated after an error in the first."""
    has_constant_regex = node.function in ("matches", "find", "findAll") and isinstance(node.args[-1], Literal)
    return has_constant_regex or (len(node.overloads) > 1 and not node.overloads[0].is_generic)


def _among(value: Step, members: frozenset[object]) -> Step:
    """Return `value in [constants]`, which costs nothing beside the value."""

    def among(run: Run) -> bool:
        found = value(run)
        return type(found) in _SETTABLE and key_of(found) in members

    return among


def _members(node: Call) -> frozenset[object] | None:
    """Return the constants of a list as a set, None where they cannot be one."""
    items = node.args[1]
    if not isinstance(items, Literal) or not isinstance(items.value, list) or len(node.overloads) != 1:
        return None
    if any(type(value) not in _SETTABLE for value in items.value):
        return None
    return frozenset(map(key_of, items.value))


# -- closures: what loops gather --------------------------------------------------------------------------------------


def _fresh(init: Node) -> Step | None:
    """Return what makes the empty list or map that a loop fills, new in each run."""
    if isinstance(init, Literal) and isinstance(init.value, (list, dict)) and not init.value:
        kind = type(init.value)
        return lambda run: kind()
    return None


def _is_accu(node: Node) -> bool:
    return isinstance(node, Ident) and node.name == "@result"


def _extended(accu: list[object], added: list[object]) -> list[object]:
    """Append to the list that a loop fills; nothing else can see it yet."""
    accu += added
    return accu
