from __future__ import annotations

import json

from kframework.cli.answers import answer_kinds
from tests.cli.conftest import Command


def test_kinds_are_listed_with_their_commands(run: Command) -> None:
    _, *rows = run("schema").out.splitlines()
    assert [row.split()[0] for row in rows] == [answer.__name__ for answer in answer_kinds()]


def test_schema_of_a_kind_is_printed(run: Command) -> None:
    assert json.loads(run("schema", "FitResult").out)["$ref"] == "#/$defs/FitResult"


def test_unknown_kind_is_refused(run: Command) -> None:
    done = run("schema", "Fit")
    assert (done.code, done.out) == (2, "")
    assert done.errors[0].startswith("error: Invalid value for 'KIND': 'Fit' is none of PodOutcomeList, ")
