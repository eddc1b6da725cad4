"""A device, and what a selector answers about it."""

from __future__ import annotations

from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.plugins.dynamic_resources.device_selectors import CelDevice, compile_selector

DEVICE = CelDevice(
    driver="gpu.example.com",
    attributes={
        "model": {"string": "a100"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "version": {"version": "1.10.3"},
        "other.org/vendor": {"string": "acme"},
    },
    capacity={"memory": "40Gi"},
    allow_multiple_allocations=True,
)

#: The attributes of the device's own domain.
OWN = 'device.attributes["gpu.example.com"]'


def answer(expression: str, device: CelDevice = DEVICE) -> bool | str:
    """Return whether the device matches, or the error and whether it came at compile time or at run time."""
    try:
        selector = compile_selector(expression)
    except CelError as error:
        return f"compile: {error.text}"
    try:
        return selector.matches(device)
    except CelError as error:
        return f"run: {error.text}"


def fails(expression: str) -> bool:
    """Return whether an expression compiles and then fails."""
    return str(answer(expression)).startswith("run: ")


def cost(expression: str) -> int:
    """Return what an expression costs, failed or not."""
    run = Evaluation(DEVICE.variables)
    try:
        compile_selector(expression).evaluate(DEVICE, run)
    except CelError:
        return run.cost
    return run.cost
