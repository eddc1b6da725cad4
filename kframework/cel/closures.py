"""Closures for paths, fields, elements, logic and calls, from which the compiler builds a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import ceil
from typing import Any

from kframework.cel.costs import COST_LIMIT, MAX_HANDLED, TRAVERSAL_FACTOR, comparison, ordering, size
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.evaluation import Evaluation, Step
from kframework.cel.functions import Cost
from kframework.cel.values import NONE, DomainMap, Optional, Uint, is_equal, is_same, no_such_overload, to_index, to_key


def get_item(container: Any, key: object) -> object:
    """Return a container's value at a key; raises CelError if it has none.

    An optional is unwrapped, and the result wrapped again.
    """
    if isinstance(container, Optional):
        return get_optional_item(container, key)
    if isinstance(container, dict):
        try:
            return container[key if type(key) is str else to_key(key)]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    if isinstance(container, list):
        position = to_index(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelError(f"index out of bounds: {key}")
    raise CelError(f"no such key: {key}")


def get_optional_item(container: object, key: object) -> Optional:
    """Return a container's value at a key as an optional; raises CelError for a list with an invalid index."""
    if isinstance(container, Optional):
        if container is NONE:
            return NONE
        container = container.value
    return Optional(get_item(container, key)) if has_item(container, key) else NONE


def has_item(container: Any, key: object) -> bool:
    """Return whether a container has a value at a key; a DomainMap always has."""
    if isinstance(container, Optional):
        return container is not NONE and has_item(container.value, key)
    if isinstance(container, DomainMap):
        return True
    if isinstance(container, dict):
        return to_key(key) in container
    return isinstance(container, list) and 0 <= to_index(key) < len(container)


# -- paths -----------------------------------------------------------------------------------------------------------


def read_variable(name: str, base: int) -> Step:
    """Return a step that reads a variable of the environment; raises CelError if the evaluation does not set it."""

    def read(run: Evaluation) -> object:
        run.cost += base
        try:
            return run.variables[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None

    return read


def read_path(name: str, keys: Sequence[str], base: int, stepwise: Step) -> Step:
    """Return a step that reads a path of one or three keys at once; other paths, and missing keys, use `stepwise`.

    `stepwise` raises the error of the key that is missing.
    """
    cost = base + len(keys)
    if len(keys) == 1:
        (field,) = keys

        def read_field(run: Evaluation) -> object:
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

    def read(run: Evaluation) -> object:
        try:
            value: object = run.variables[name][first][second][third]
        except (KeyError, TypeError):
            return stepwise(run)
        run.cost += cost
        return value

    return read


def read_slot(slot: int, base: int) -> Step:
    def read(run: Evaluation) -> object:
        run.cost += base
        return run.slots[slot]

    return read


def read_accumulator(slot: int, base: int) -> Step:
    def read(run: Evaluation) -> object:
        run.cost += base
        return run.read_accumulator(slot)

    return read


def read_key(operand: Step, key: object) -> Step:
    def read(run: Evaluation) -> object:
        container = operand(run)
        run.cost += container is not NONE
        return get_item(container, key)

    return read


def read_computed_key(operand: Step, key: Step, access: Callable[[Any, object], object]) -> Step:
    """Return a step that reads a container at a computed key by `access`; an empty optional costs nothing."""

    def read(run: Evaluation) -> object:
        container = operand(run)
        computed = key(run)
        run.cost += 1
        value = access(container, computed)
        run.cost -= value is NONE
        return value

    return read


def add_cost(step: Step, cost: int) -> Step:
    def add(run: Evaluation) -> object:
        run.cost += cost
        return step(run)

    return add


# -- logic -----------------------------------------------------------------------------------------------------------


def conditional(condition: Step, truthy: Step, falsy: Step) -> Step:
    def choose(run: Evaluation) -> object:
        value: object = condition(run)
        if value is True:
            return truthy(run)
        if value is False:
            return falsy(run)
        raise no_such_overload("_?_:_", (value,))

    return choose


def logical_chain(terms: Sequence[Step], decisive: bool) -> Step:
    """Return `&&` or `||` of terms: a `decisive` term ends it and overrides errors on either side."""

    def evaluate(run: Evaluation) -> bool:
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
    """Return a step for a loop's condition; an error does not end the loop."""

    def evaluate(run: Evaluation) -> bool:
        run.cost += 1
        try:
            return step(run) is not False
        except CelError:
            return True

    return evaluate


def optional_or(steps: Sequence[Step]) -> Step:
    left, right = steps

    def evaluate(run: Evaluation) -> object:
        value = left(run)
        return right(run) if value is NONE else value

    return evaluate


def optional_or_value(steps: Sequence[Step]) -> Step:
    left, right = steps

    def evaluate(run: Evaluation) -> object:
        value = left(run)
        if value is NONE:
            return right(run)
        return value.value if isinstance(value, Optional) else value

    return evaluate


# -- calls -----------------------------------------------------------------------------------------------------------


def unary(argument: Step, apply: Callable[..., object], cost: Cost) -> Step:
    def call(run: Evaluation) -> object:
        try:
            value = argument(run)
        except CelError:
            run.cost += 1
            raise
        run.cost += cost(value)
        if run.cost > COST_LIMIT:
            raise CostLimitExceeded
        return apply(value)

    return call


def binary(steps: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    """Return a call with two arguments; after an error in the first, the second is still evaluated."""
    left, right = steps

    def call(run: Evaluation) -> object:
        try:
            one = left(run)
        except CelError:
            run.cost += 1
            with suppress(CelError):
                right(run)  # only for its cost
            raise
        try:
            other = right(run)
        except CelError:
            run.cost += 1
            raise
        run.cost += cost(one, other)
        if run.cost > COST_LIMIT:
            raise CostLimitExceeded
        return apply(one, other)

    return call


def nary(arguments: Sequence[Step], apply: Callable[..., object], cost: Cost) -> Step:
    """Return a call that stops at the first error."""

    def call(run: Evaluation) -> object:
        values: list[object] = []
        try:
            for argument in arguments:
                values.append(argument(run))  # noqa: PERF401 - the number of values counts after an error
        except CelError:
            run.cost += len(values) == len(arguments) - 1
            raise
        run.cost += cost(*values)
        if run.cost > COST_LIMIT:
            raise CostLimitExceeded
        return apply(*values)

    return call


def limit_size(step: Step) -> Step:
    """Return a step that limits the total size of its values, because CEL's cost does not include it."""

    def evaluate(run: Evaluation) -> object:
        value = step(run)
        run.handled += size(value)
        if run.handled > MAX_HANDLED:
            raise CostLimitExceeded
        return value

    return evaluate


# -- comparisons -----------------------------------------------------------------------------------------------------


def not_equal(steps: Sequence[Step]) -> Step:
    """Return `x != y`; values that cannot be compared are different."""
    return binary(steps, lambda left, right: not is_same(left, right), ordering)


def equals_text(left: Step, text: str) -> Step:
    length = len(text)

    def evaluate(run: Evaluation) -> bool:
        try:
            value = left(run)
        except CelError:
            run.cost += 1
            raise
        if type(value) is str:
            run.cost += ceil(min(len(value), length) * TRAVERSAL_FACTOR)
            return value == text
        run.cost += comparison(value, text)
        return is_equal(value, text)

    return evaluate


def constant_membership(value: Step, members: frozenset[object]) -> Step:
    def evaluate(run: Evaluation) -> bool:
        element = value(run)
        return type(element) in SET_MEMBER_TYPES and to_key(element) in members

    return evaluate


SET_MEMBER_TYPES = frozenset({bool, int, Uint, float, str})
