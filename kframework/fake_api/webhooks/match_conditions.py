"""The `matchConditions` of webhooks: CEL expressions about a request that decide whether it is reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from kframework.cel.environment import build_environment
from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.program import CelProgram, compile_program
from kframework.cel.types import BOOL, DYN, STRING, Type, list_of, map_of
from kframework.fake_api.wire.documents import Data
from kframework.objects.plain_data import text

#: Cost limit of all conditions of a webhook (`RuntimeCELCostBudgetMatchConditions`).
_BUDGET: Final = 2_500_000

_KIND, _RESOURCE = Type("kubernetes.GroupVersionKind"), Type("kubernetes.GroupVersionResource")
_USER, _REQUEST = Type("kubernetes.UserInfo"), Type("kubernetes.AdmissionRequest")
_FIELDS = {
    _KIND: dict.fromkeys(("group", "version", "kind"), STRING),
    _RESOURCE: dict.fromkeys(("group", "version", "resource"), STRING),
    _USER: {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
    _REQUEST: {
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), STRING),
        **dict.fromkeys(("kind", "requestKind"), _KIND),
        **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
}
_ENVIRONMENT = build_environment({"object": DYN, "oldObject": DYN, "request": _REQUEST}, _FIELDS)
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class UndecidedError(Exception):
    """Raised when conditions could not be evaluated, and none is false."""


def condition_problem(expression: str) -> str:
    """Return why an expression is not a valid condition, "" if it is."""
    try:
        _compile(expression)
    except CelError as error:
        return f"compilation failed: {error}" if error.position is not None else error.text
    return ""


def conditions_hold(conditions: Sequence[Data], request: Data) -> bool:
    """Return whether all conditions hold for a review's request; raises UndecidedError.

    A false one decides, despite errors in others.
    """
    variables = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
    failures: list[str] = []
    remaining = _BUDGET
    for condition in conditions:
        expression, run = text(condition, "expression"), Evaluation(variables)
        try:
            if _compile(expression).evaluate(run) is False:
                return False
        except CelError as error:
            failures.append(f"expression '{expression}' resulted in error: {error.text}")
        remaining -= run.cost
        if remaining < 0:
            failures.append(_OUT_OF_BUDGET)
            break
    if failures:
        raise UndecidedError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True


@lru_cache(maxsize=256)
def _compile(expression: str) -> CelProgram:
    return compile_program(
        expression.strip(), _ENVIRONMENT, lambda type: "" if type == BOOL else f"must evaluate to bool but got {type}"
    )
