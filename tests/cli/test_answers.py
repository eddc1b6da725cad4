from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kframework.cli.answers import answer_kinds, answer_schema
from kframework.values.answer import Answer
from tests.examples.clean_environment import ROOT

ANSWERS = answer_kinds()
PUBLISHED = ROOT / "docs/reference/schemas"
PAGE = (ROOT / "docs/reference/answers.md").read_text()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_published_schemas_are_those_of_the_code(answer: type[Answer]) -> None:
    schema = answer_schema(answer)
    Draft202012Validator.check_schema(schema)
    # To write it: kframework schema KIND > docs/reference/schemas/KIND.json
    published = json.loads((PUBLISHED / f"{answer.__name__}.json").read_text())
    assert published == json.loads(json.dumps(schema))
    parts = (part.get("properties", ()) for part in published["$defs"].values())
    assert [field for fields in parts for field in fields if "_" in field] == []
    assert f"| `{answer.__name__}` |" in PAGE


def test_no_other_schema_is_published() -> None:
    assert {file.stem for file in PUBLISHED.glob("*")} == {answer.__name__ for answer in ANSWERS}


def test_every_kind_of_answer_is_listed() -> None:
    assert set(Answer.__subclasses__()) == set(ANSWERS)


def test_schema_refuses_another_kind(tmp_path: Path) -> None:
    (items,) = (answer for answer in ANSWERS if answer.__name__ == "PluginList")
    validator = Draft202012Validator(answer_schema(items))
    assert validator.is_valid({"kind": "PluginList", "apiVersion": "kframework.dev/v1", "items": []})
    assert not validator.is_valid({"kind": "PodOutcomeList", "apiVersion": "kframework.dev/v1", "items": []})
    assert not validator.is_valid({"kind": "PluginList", "apiVersion": "kframework.dev/v2", "items": []})
