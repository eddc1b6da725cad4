"""Answers of commands, held against their schemas."""

from __future__ import annotations

import json
from functools import cache

from jsonschema import Draft202012Validator

from kframework.cli.answers import answer_kinds, answer_schema


@cache
def _validator(kind: str) -> Draft202012Validator:
    (answer,) = (each for each in answer_kinds() if each.__name__ == kind)
    return Draft202012Validator(answer_schema(answer))


def check_answer(text: str) -> None:
    """Check that a text is an answer, as the schema of its kind says."""
    document = json.loads(text)
    assert document["apiVersion"] == "kframework.dev/v1"
    _validator(document["kind"]).validate(document)
