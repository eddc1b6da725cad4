"""Random expressions, evaluated here and by Google's own implementation in C++."""

from __future__ import annotations

from cel_expr_python import cel
from hypothesis import assume, given

from tests.cel.expressions import BOOL_EXPRESSIONS
from tests.plugins.dynamic_resources.selecting import answer

_ENVIRONMENT = cel.NewEnv(variables={})


def _oracle(expression: str) -> object:
    """Return what it comes to there; every error is one."""
    value = _ENVIRONMENT.compile(expression).eval(data={})
    return "error" if value.type() == cel.Type.ERROR else value.value()


@given(BOOL_EXPRESSIONS)
def test_both_implementations_agree(expression: str) -> None:
    # What an empty list holds is of no type; to cel-go `-` makes it a double, where C++ takes it for an int.
    assume("-([][" not in expression)
    actual = answer(expression)
    assert ("error" if isinstance(actual, str) else actual) == _oracle(expression)


def test_oracle_distinguishes_errors_from_results() -> None:
    assert [_oracle(text) for text in ("true", "1 > 2", "1 / 0 == 1", "[1][5] == 1")] == [True, False, "error", "error"]
