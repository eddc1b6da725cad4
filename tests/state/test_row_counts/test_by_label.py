"""What is filed under one label that pods must carry."""

from __future__ import annotations

import pytest

from kframework.objects.label_selectors import EVERYTHING, parse_label_selector
from kframework.state.row_counts import lookup, required_labels


@pytest.mark.parametrize(
    ("text", "carried"),
    [
        ("app=web,tier=x", [("app", "web"), ("tier", "x")]),
        ("app in (web)", [("app", "web")]),
        ("app in (web,db),app notin (x),tier,!z", []),
    ],
)
def test_labels_that_pods_must_carry(text: str, carried: list[tuple[str, str]]) -> None:
    assert list(required_labels(parse_label_selector(text))) == carried


def test_selector_with_several_labels_is_found_under_the_first() -> None:
    assert next(required_labels(EVERYTHING, parse_label_selector("b=2,a=1"))) == ("a", "1")


def test_lookup_returns_entries_of_a_label_and_those_without() -> None:
    filed = {None: ["any"], ("app", "web"): ["web"], ("app", "db"): ["db"]}
    assert list(lookup(filed, {"app": "web", "tier": "x"})) == ["any", "web"]
