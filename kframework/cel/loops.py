"""The closures of comprehensions: loops, and the bindings that are written as loops over nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kframework.cel.costs import LIMIT
from kframework.cel.errors import CelError, CostLimitExceeded
from kframework.cel.run import Deferred, Run, Step
from kframework.cel.values import keys_of, type_name

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
    elements = _singly if len(variables) == 1 else _in_pairs
    init, condition, step, result = parts

    def run_loop(run: Run) -> object:
        slots = run.slots
        items = elements(iter_range(run))
        slots[accu] = init(run)
        for values in items:
            slots.update(zip(variables, values, strict=True))
            if condition is not None and not _goes_on(condition, run):
                break
            try:
                slots[accu] = step(run)
            except CelError as error:
                slots[accu] = error
            if run.cost > LIMIT:
                raise CostLimitExceeded
        return result(run)

    return run_loop


def _goes_on(condition: Step, run: Run) -> bool:
    try:
        return condition(run) is not False
    except CelError:
        return True


def _singly(items: object) -> Iterator[tuple[object]]:
    """Yield the elements of a list or the keys of a map."""
    if isinstance(items, list):
        return zip(items, strict=True)
    if isinstance(items, dict):
        return zip(keys_of(items), strict=True)
    raise CelError(f"got '{type_name(items)}', expected iterable type")


def _in_pairs(items: object) -> Iterator[tuple[object, object]]:
    """Yield the elements of a list with their places, or the entries of a map."""
    if isinstance(items, list):
        return iter(enumerate(items))
    if isinstance(items, dict):
        return iter(zip(keys_of(items), items.values(), strict=True))
    raise CelError(f"unsupported comprehension range type: {type_name(items)}")
