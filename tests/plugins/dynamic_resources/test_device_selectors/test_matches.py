from __future__ import annotations

import inspect
import sys
from collections.abc import Callable

import pytest

from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.parser import MAX_DEPTH, MAX_NESTING
from kframework.plugins.dynamic_resources.device_selectors import compile_selector
from kframework.testing.conformance.cases import read
from kframework.testing.conformance.objects import DeviceSelectorQuestion, device_of
from tests.conformance.test_vectors import VECTORS
from tests.plugins.dynamic_resources.selecting import DEVICE, OWN


def test_selector_is_asked_again_and_again() -> None:
    selector = compile_selector(f"{OWN}.index >= 2 && [1, 2].all(x, x > 0)")
    assert selector.matches(DEVICE) is True
    assert selector.matches(DEVICE) is True
    assert selector.expression.endswith("x > 0)")


def test_error_names_the_expression_and_the_place() -> None:
    with pytest.raises(CelError) as error:
        compile_selector("device.nope")
    assert (error.value.expression, error.value.position, error.value.text) == (
        "device.nope",
        6,
        "undefined field 'nope'",
    )


def test_error_at_run_time_names_the_expression() -> None:
    with pytest.raises(CelError) as error:
        compile_selector(f"{OWN}.nope").matches(DEVICE)
    assert (error.value.expression, error.value.position) == (f"{OWN}.nope", None)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * (MAX_NESTING - 1) + "true" + ")" * (MAX_NESTING - 1),
        "1" + " + 1" * (MAX_DEPTH - 3) + " > 1",
        "!(" * (MAX_NESTING - 1) + "true" + ")" * (MAX_NESTING - 1) + " || true",
        "[" * (MAX_NESTING - 2) + "]" * (MAX_NESTING - 2) + ".size() < 2",
        "device.driver" + ".trim()" * (MAX_DEPTH - 4) + " != ''",
    ],
)
def test_selector_of_the_maximum_depth_is_evaluated(expression: str) -> None:
    assert compile_selector(expression).matches(DEVICE) is True


def test_stack_that_is_deep_already_is_no_crash() -> None:
    deep = "1" + " + 1" * (MAX_DEPTH - 3) + " > 1"
    selector = compile_selector(deep)
    for ask in (lambda: compile_selector(deep), lambda: selector.matches(DEVICE)):
        with pytest.raises(CelError, match="recursion limit"):
            _deeper(ask, sys.getrecursionlimit() - len(inspect.stack()) - 60)


def _deeper(ask: Callable[[], object], frames: int) -> object:
    return ask() if frames == 0 else _deeper(ask, frames - 1)


def test_costs_are_those_that_were_recorded() -> None:
    differing = []
    for case in read(str(VECTORS / "dynamic_resources_cel.jsonl.gz")):
        if "cost" not in case.expect:
            continue
        given = case.input_as(DeviceSelectorQuestion)
        device = device_of(given.device)
        run = Evaluation(device.variables)
        try:
            compile_selector(given.expression).evaluate(device, run)
        except CelError as error:
            if "cost limit exceeded" in error.text:
                continue  # it is told at the end of a step, there a few units sooner
        if run.cost != case.expect["cost"]:
            differing.append((given.expression, case.expect["cost"], run.cost))
    assert not differing
