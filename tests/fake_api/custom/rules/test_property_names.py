"""Properties have names that rules can write."""

from __future__ import annotations

import pytest

from kframework.fake_api.custom.rules.property_names import escaped, written_names


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("size", "size"),
        ("max-size", "max__dash__size"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("namespaces", "namespaces"),
        ("0", None),
        ("", None),
        ("a b", None),
        ("größe", None),
    ],
)
def test_names(name: str, written: str | None) -> None:
    assert escaped(name) == written


def test_words_of_the_language_may_be_written_as_they_are() -> None:
    assert written_names("if") == ("__if__", "if")
    assert written_names("size") == ("size",)
    assert written_names("a b") == ()
