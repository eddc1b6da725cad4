"""Compiled expressions: their types, the variables they read, and how an evaluation ends."""

from __future__ import annotations

import pytest

from kframework.cel.environment import build_environment
from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.program import CelProgram, compile_program
from kframework.cel.types import BOOL, INT, STRING, Type, list_of, map_of

SPEC = Type("spec")
ENVIRONMENT = build_environment(
    {"self": SPEC, "words": list_of(STRING), "old": SPEC}, {SPEC: {"size": INT, "labels": map_of(STRING, STRING)}}
)


def compiled(expression: str) -> CelProgram:
    return compile_program(expression, ENVIRONMENT, lambda type: "")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.size + 1", 4),
        ("self.labels.app", "web"),
        ("self.labels['app']", "web"),
        ("words[1]", "b"),
        ("words.map(word, word + self.labels.app)", ["aweb", "bweb"]),
        ("has(self.size) && self.size < 4", True),
        ("self == self", True),
        ("[1].all(self, self == 1)", True),
    ],
)
def test_expression_reads_its_variables(expression: str, value: object) -> None:
    variables = {"self": {"size": 3, "labels": {"app": "web"}}, "words": ["a", "b"]}
    assert compiled(expression).evaluate(Evaluation(variables)) == value


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("1 < 2", set()),
        ("self.size > 1", {"self"}),
        ("self.size > old.size || words.exists(w, w == 'a')", {"self", "old", "words"}),
    ],
)
def test_program_knows_its_variables(expression: str, names: set[str]) -> None:
    assert compiled(expression).names == names


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("self.length > 1", "undefined field 'length'"),
        ("other.size", "undeclared reference to 'other' (in container '')"),
        ("self.size == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.labels + 1", "found no matching overload for '_+_' applied to '(map(string, string), int)'"),
    ],
)
def test_compile_error_names_the_problem(expression: str, said: str) -> None:
    with pytest.raises(CelError) as raised:
        compiled(expression)
    assert raised.value.text == said and raised.value.expression == expression


def test_wrong_type_is_reported_before_folding() -> None:
    with pytest.raises(CelError, match="not of use: int"):
        compile_program("int('a')", ENVIRONMENT, lambda type: "" if type == BOOL else f"not of use: {type}")


@pytest.mark.parametrize(
    ("expression", "variables", "said"),
    [
        ("self.size > 1", {"self": {}}, "no such key: size"),
        ("self.labels.app == 'a'", {"self": {"labels": {}}}, "no such key: app"),
        ("self.size > old.size", {"self": {"size": 1}}, "no such attribute(s): old"),
        ("words[2] == 'a'", {"words": ["a"]}, "index out of bounds: 2"),
    ],
)
def test_evaluation_error_names_the_problem(expression: str, variables: dict[str, object], said: str) -> None:
    with pytest.raises(CelError) as raised:
        compiled(expression).evaluate(Evaluation(variables))
    assert str(raised.value) == said


@pytest.mark.parametrize("expression", ["self.size", "self.labels.app", "self.labels['app']"])
def test_each_step_of_a_path_costs_one(expression: str) -> None:
    run = Evaluation({"self": {"size": 3, "labels": {"app": "web"}}})
    compiled(expression).evaluate(run)
    assert run.cost == expression.count(".") + expression.count("[") + 1


def test_too_costly_evaluation_ends() -> None:
    words = ["a"] * 2_000
    with pytest.raises(CelError, match="actual cost limit exceeded"):
        compiled("words.all(a, words.all(b, a == b))").evaluate(Evaluation({"words": words}))
