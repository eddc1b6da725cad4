from __future__ import annotations

from tests.plugins.dynamic_resources.selectors.selecting import OWN, answer


def test_its_functions_are_declared_and_have_nothing_to_work_on() -> None:
    assert answer(f"{OWN}.model.path('/x').check('get').allowed()") == "run: no such overload: path(string, string)"
    assert str(answer("'a'.path('/x').check('get').allowed()")).startswith("compile: found no matching overload")
    assert answer("authorizer.path('/x').check('get').allowed()") == (
        "compile: undeclared reference to 'authorizer' (in container '')"
    )
