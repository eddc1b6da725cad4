"""kubectl's annotation."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.last_applied import last_applied, with_last_applied
from tests.fake_api.serving import Json

NAME = "kubectl.kubernetes.io/last-applied-configuration"


def annotated(text: str, **others: str) -> Json:
    return {"metadata": {"annotations": {NAME: text, **others}}}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({}, None),
        (annotated(""), None),
        (annotated("{"), None),
        (annotated("[]"), None),
        (annotated('{"a":1}'), {"a": 1}),
    ],
)
def test_it_is_read(data: Json, found: Json | None) -> None:
    assert last_applied(data) == found


def test_it_says_what_was_applied_but_for_itself() -> None:
    config: Json = {"spec": {}, "metadata": {"name": "x", "annotations": {NAME: "old"}}}
    brought_up = with_last_applied(annotated('{"a":1}', other="kept"), config)
    assert brought_up == annotated('{"metadata":{"name":"x"},"spec":{}}\n', other="kept")
    assert with_last_applied({"metadata": {}}, config) == {"metadata": {}}
