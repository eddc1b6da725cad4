from __future__ import annotations

import pytest

from kframework.plugins.dynamic_resources.cel.errors import CelError
from kframework.plugins.dynamic_resources.cel.run import Run
from kframework.plugins.dynamic_resources.cel.selector import compile_selector
from kframework.testing.conformance.cases import read
from kframework.testing.conformance.device_selectors import SelectorOfDevices, device_of
from tests.conformance.test_vectors import VECTORS
from tests.plugins.dynamic_resources.cel.selecting import DEVICE, OWN


def test_a_selector_is_asked_again_and_again() -> None:
    selector = compile_selector(f"{OWN}.index >= 2 && [1, 2].all(x, x > 0)")
    assert selector.matches(DEVICE) is True
    assert selector.matches(DEVICE) is True
    assert selector.expression.endswith("x > 0)")


def test_an_error_names_the_expression_and_the_place() -> None:
    with pytest.raises(CelError) as error:
        compile_selector("device.nope")
    assert (error.value.expression, error.value.position, error.value.text) == (
        "device.nope",
        6,
        "undefined field 'nope'",
    )


def test_an_error_at_run_time_names_the_expression() -> None:
    with pytest.raises(CelError) as error:
        compile_selector(f"{OWN}.nope").matches(DEVICE)
    assert (error.value.expression, error.value.position) == (f"{OWN}.nope", None)


def test_costs_are_those_that_were_recorded() -> None:
    differing = []
    for case in read(str(VECTORS / "dynamic_resources_cel.jsonl.gz")):
        if "cost" not in case.expect:
            continue
        given = case.input_as(SelectorOfDevices)
        device = device_of(given.device)
        run = Run(device.fields)
        try:
            compile_selector(given.expression).evaluate(device, run)
        except CelError as error:
            if "cost limit exceeded" in error.text:
                continue  # it is told at the end of a step, there a few units sooner
        if run.cost != case.expect["cost"]:
            differing.append((given.expression, case.expect["cost"], run.cost))
    assert not differing
