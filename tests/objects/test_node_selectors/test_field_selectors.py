"""Field selectors: reading, writing and matching."""

from __future__ import annotations

import pytest

from kframework.objects.label_selectors import SelectorError
from kframework.objects.node_selectors import parse_field_selector


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1,status.phase!=Failed", True),
        ("spec.nodeName=n1,status.phase!=Running", False),
        ("missing=", True),
        ("missing!=", False),
        (r"odd=a\,b\=c\\", True),
        ("spec.nodeName=n1,,", True),
    ],
)
def test_field_selector_parses(text: str, matches: bool) -> None:
    fields = {"spec.nodeName": "n1", "status.phase": "Running", "odd": "a,b=c\\"}
    assert parse_field_selector(text).matches(fields) is matches


@pytest.mark.parametrize("text", ["a", "a=b=c", "=b", r"a=\x", "a=b\\"])
def test_bad_field_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


def test_field_values_are_written_as_they_are_read() -> None:
    assert str(parse_field_selector(r"b!=1,a==x\,y")) == r"a=x\,y,b!=1"
