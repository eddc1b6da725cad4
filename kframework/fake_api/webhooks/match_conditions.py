"""Under which conditions a webhook is asked at all: expressions of CEL about the request (`matchConditions`)."""

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
from kframework.fake_api.wire.plain_data import text

#: What the conditions of a webhook may cost together (`RuntimeCELCostBudgetMatchConditions`).
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
_SPENT: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class UndecidedError(Exception):
    """Raised where some conditions could not be evaluated, and none is false."""


def problem(expression: str) -> str:
    """Return why an expression is no condition; nothing for one that is."""
    try:
        _compiled(expression)
    except CelError as error:
        return f"compilation failed: {error}" if error.position is not None else error.text
    return ""


def hold(conditions: Sequence[Data], asked: Data) -> bool:
    """Return whether all conditions hold for the request of a review; raises UndecidedError.

    One that is false decides, whatever is wrong with others.
    """
    variables = {"object": asked["object"], "oldObject": asked["oldObject"], "request": asked}
    failures: list[str] = []
    left = _BUDGET
    for condition in conditions:
        expression, run = text(condition, "expression"), Evaluation(variables)
        try:
            if _compiled(expression).evaluate(run) is False:
                return False
        except CelError as error:
            failures.append(f"expression '{expression}' resulted in error: {error.text}")
        left -= run.cost
        if left < 0:
            failures.append(_SPENT)
            break
    if failures:
        raise UndecidedError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
    return True


@lru_cache(maxsize=256)
def _compiled(expression: str) -> CelProgram:
    return compile_program(
        expression.strip(), _ENVIRONMENT, lambda type: "" if type == BOOL else f"must evaluate to bool but got {type}"
    )
