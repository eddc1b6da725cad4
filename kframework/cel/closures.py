"""The closures of paths, fields, elements, logic and calls: what the compiler puts together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from kframework.cel.costs import LIMIT, MOST_HANDLED, TRAVERSAL, comparison, ordering, size
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.functions import Cost
from kframework.cel.run import Run, Step
from kframework.cel.values import (
    NONE,
    DomainMap,
    Optional,
    Uint,
    equal,
    key_of,
    no_such_overload,
    position_of,
)


def item(container: Any, key: object) -> object:
    """Return what a container has at a key; raises CelError where there is nothing.

    On an optional it is what the value within has there, again as an optional.
    """
    if isinstance(container, Optional):
        return optional_item(container, key)
    if isinstance(container, dict):
        try:
            return container[key if type(key) is str else key_of(key)]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    if isinstance(container, list):
        position = position_of(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelError(f"index out of bounds: {key}")
    raise CelError(f"no such key: {key}")


def optional_item(container: object, key: object) -> Optional:
    """Return what a container has at a key as an optional; raises CelError for a list with a key that is no index."""
    if isinstance(container, Optional):
        if container is NONE:
            return NONE
        container = container.value
    return Optional(item(container, key)) if has_item(container, key) else NONE


def has_item(container: Any, key: object) -> bool:
    """Return whether a container has something at a key; of a domain's map that is always so."""
    if isinstance(container, Optional):
        return container is not NONE and has_item(container.value, key)
    if isinstance(container, DomainMap):
        return True
    if isinstance(container, dict):
        return key_of(key) in container
    return isinstance(container, list) and 0 <= position_of(key) < len(container)


# -- paths -----------------------------------------------------------------------------------------------------------


def declared(name: str, base: int) -> Step:
    """Return what reads a variable of the environment; it raises CelError in a run that has none of the name."""

    def read(run: Run) -> object:
        run.cost += base
        try:
            return run.variables[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None

    return read


def declared_path(name: str, keys: Sequence[str], base: int, stepwise: Step) -> Step:
    """Return what reads a path of one or three keys from a variable in one go; other paths are read `stepwise`.

    So is one that leads nowhere: the step where it ends says why.
    """
    cost = base + len(keys)
    if len(keys) == 1:
        (field,) = keys

        def read_field(run: Run) -> object:
            try:
                value: object = run.variables[name][field]
            except (KeyError, TypeError):
                return stepwise(run)
            run.cost += cost
            return value

        return read_field
    if len(keys) != 3:
        return stepwise
    first, second, third = keys

    def read(run: Run) -> object:
        try:
            value: object = run.variables[name][first][second][third]
        except (KeyError, TypeError):
            return stepwise(run)
        run.cost += cost
        return value

    return read


def variable(slot: int, base: int) -> Step:
    """Return what reads the variable of a loop."""

    def read(run: Run) -> object:
        run.cost += base
        return run.slots[slot]

    return read


def gathered(slot: int, base: int) -> Step:
    """Return what reads what a loop has gathered, or what a binding stands for."""

    def read(run: Run) -> object:
        run.cost += base
        return run.gathered(slot)

    return read


def at(operand: Step, key: object) -> Step:
    """Return what reads a container at a constant key."""

    def read(run: Run) -> object:
        container = operand(run)
        run.cost += container is not NONE
        return item(container, key)

    return read


def at_computed(operand: Step, key: Step, access: Callable[[Any, object], object]) -> Step:
    """Return what reads a container at a key, by `access`; an optional without a value costs nothing."""

    def read(run: Run) -> object:
        container = operand(run)
        found = key(run)
        run.cost += 1
        value = access(container, found)
        run.cost -= value is NONE
        return value

    return read


def counted(step: Step, cost: int) -> Step:
    """Return a step that costs so much more."""

    def add(run: Run) -> object:
        run.cost += cost
        return step(run)

    return add


# -- logic -----------------------------------------------------------------------------------------------------------


def conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    """Return what evaluates one of two."""

    def choose(run: Run) -> object:
        chosen: object = condition(run)
        if chosen is True:
            return truthy(run)
        if chosen is False:
            return falsy(run)
        raise no_such_overload("_?_:_", (chosen,))

    return choose


def row(terms: Sequence[Step], decisive: bool) -> Step:
    """Return `&&` or `||` of terms: one that is `decisive` ends it, and makes up for errors on either side."""

    def evaluate(run: Run) -> bool:
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

    return evaluate


def not_strictly_false(step: Step) -> Step:
    """Return whether a loop goes on: an error does not end it."""

    def evaluate(run: Run) -> bool:
        run.cost += 1
        try:
            return step(run) is not False
        except CelError:
            return True

    return evaluate


def either(steps: Sequence[Step]) -> Step:
    """Return `x.or(y)`."""
    left, right = steps

    def evaluate(run: Run) -> object:
        value = left(run)
        return right(run) if value is NONE else value

    return evaluate


def value_or(steps: Sequence[Step]) -> Step:
    """Return `x.orValue(y)`."""
    left, right = steps

    def evaluate(run: Run) -> object:
        value = left(run)
        if value is NONE:
            return right(run)
        return value.value if isinstance(value, Optional) else value

    return evaluate


# -- calls -----------------------------------------------------------------------------------------------------------


def unary(argument: Step, apply: Callable[..., object], cost: Cost) -> Step:
    """Return a call of one argument."""

    def call(run: Run) -> object:
        try:
            value = argument(run)
        except CelError:
            run.cost += 1
            raise
        run.cost += cost(value)
        if run.cost > LIMIT:
            raise CostLimitExceeded
        return apply(value)

    return call


def binary(steps: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    """Return a call of two arguments, of which the second is evaluated after an error in the first too."""
    left, right = steps

    def call(run: Run) -> object:
        try:
            one = left(run)
        except CelError:
            run.cost += 1
            with suppress(CelError):
                right(run)  # for its cost alone
            raise
        try:
            other = right(run)
        except CelError:
            run.cost += 1
            raise
        run.cost += cost(one, other)
        if run.cost > LIMIT:
            raise CostLimitExceeded
        return apply(one, other)

    return call


def nary(arguments: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    """Return a call that an error ends."""

    def call(run: Run) -> object:
        values: list[object] = []
        try:
            for argument in arguments:
                values.append(argument(run))  # noqa: PERF401 - how far it came counts
        except CelError:
            run.cost += len(values) == len(arguments) - 1
            raise
        run.cost += cost(*values)
        if run.cost > LIMIT:
            raise CostLimitExceeded
        return apply(*values)

    return call


def handling(step: Step) -> Step:
    """Return a step whose values are large now and then, while nothing is charged for their size."""

    def evaluate(run: Run) -> object:
        value = step(run)
        run.handled += size(value)
        if run.handled > MOST_HANDLED:
            raise CostLimitExceeded
        return value

    return evaluate


# -- comparisons -----------------------------------------------------------------------------------------------------


def differs(steps: Sequence[Step]) -> Step:
    """Return `x != y`: what cannot be compared differs."""

    def different(left: object, right: object) -> bool:
        try:
            return not equal(left, right)
        except CelError:
            return True

    return binary(steps, different, ordering)


def equals_text(left: Step, text: str) -> Step:
    """Return `x == "text"`, the most usual test of all."""
    length = len(text)

    def evaluate(run: Run) -> bool:
        try:
            value = left(run)
        except CelError:
            run.cost += 1
            raise
        if type(value) is str:
            run.cost += ceil(min(len(value), length) * TRAVERSAL)
            return value == text
        run.cost += comparison(value, text)
        return equal(value, text)

    return evaluate


def among(value: Step, members: frozenset[object]) -> Step:
    """Return `value in [constants]`, which costs nothing beside the value."""

    def evaluate(run: Run) -> bool:
        found = value(run)
        return type(found) in SETTABLE and key_of(found) in members

    return evaluate


#: What may be a member of a set of constants.
SETTABLE = frozenset({bool, int, Uint, float, str})
