"""The libraries of every expression, and what an expression has of its own."""

from __future__ import annotations

import pytest

from kframework.cel.environment import build_environment
from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.functions import function
from kframework.cel.program import compile_program
from tests.plugins.dynamic_resources.selecting import OWN, answer


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("quantity('1Gi').isGreaterThan(quantity('1Mi'))", True),
        ("'a,b'.split(',')", ["a", "b"]),
        ("sets.contains([1, 2], [1])", True),
        ("type(1) == int", True),
        ("isURL('https://example.com')", True),
        ("semver('1.2.3').major()", 1),
    ],
)
def test_every_environment_has_the_libraries(expression: str, value: object) -> None:
    assert compile_program(expression, build_environment({}, {}), lambda type: "").evaluate(Evaluation({})) == value


def test_environment_may_have_its_own_functions() -> None:
    own = build_environment({}, {}, function("twice", "int -> int", apply=lambda number: 2 * number))
    assert compile_program("twice(2)", own, lambda type: "").evaluate(Evaluation({})) == 4
    with pytest.raises(CelError, match="undeclared reference to 'twice'"):
        compile_program("twice(2)", build_environment({}, {}), lambda type: "")


def test_authorizer_functions_are_declared_only() -> None:
    assert answer(f"{OWN}.model.path('/x').check('get').allowed()") == "run: no such overload: path(string, string)"
    assert str(answer("'a'.path('/x').check('get').allowed()")).startswith("compile: found no matching overload")
    assert answer("authorizer.path('/x').check('get').allowed()") == (
        "compile: undeclared reference to 'authorizer' (in container '')"
    )
