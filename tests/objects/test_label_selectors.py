"""Label selectors: reading, writing and matching."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from kframework.objects.label_selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    exact_selector,
    is_qualified_name,
    label_selector,
    parse_label_selector,
)
from kframework.objects.meta import LabelSelector
from tests.objects.requirements_drawn import expressions, requirements, slowly, some_labels


def selector(**fields: object) -> LabelSelector:
    return msgspec.convert(fields, LabelSelector)


def test_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
    assert not label_selector(None).matches({})
    assert label_selector(LabelSelector()).matches({"a": "1"})
    assert (NOTHING.empty, str(NOTHING)) == (False, "")
    assert (EVERYTHING.empty, str(EVERYTHING)) == (True, "")
    assert label_selector(LabelSelector()) == EVERYTHING != NOTHING


@pytest.mark.parametrize(
    "requirement",
    [
        ("a", "In"),
        ("a", "NotIn"),
        ("a", "Exists", "v"),
        ("a", "DoesNotExist", "v"),
        ("a", "in", "v"),
        ("a", "", "v"),
        ("a", "Gt", "1"),
        ("", "Exists"),
        ("-bad key-", "Exists"),
        ("a", "In", "trail."),
        ("a", "In", "-lead"),
        ("a", "In", "x" * 64),
        ("a", "In", "line\n"),
    ],
)
def test_invalid_requirements_are_refused(requirement: tuple[Any, ...]) -> None:
    with pytest.raises(SelectorError):
        label_selector(selector(matchExpressions=expressions(requirement)))


def test_invalid_match_label_is_refused_but_not_a_node_selectors() -> None:
    with pytest.raises(SelectorError):
        label_selector(selector(matchLabels={"a": "no spaces"}))
    assert exact_selector({"a": "no spaces"}).matches({"a": "no spaces"})


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("A.b-c_d", True),
        ("example.com/part", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("example.com/", False),
        ("/part", False),
        ("a/b/c", False),
        ("Example.com/part", False),
        ("-a", False),
        ("", False),
        ("d" * 253 + "/a", True),
        ("d" * 254 + "/a", False),
    ],
)
def test_qualified_names_are_checked(name: str, valid: bool) -> None:
    assert is_qualified_name(name) is valid


def test_canonical_text_is_sorted() -> None:
    compiled = label_selector(
        selector(
            matchLabels={"tier": "10", "num": "3"},
            matchExpressions=expressions(
                ("tier", "In", "web", "10"), ("app", "NotIn", "v", ""), ("e", "Exists"), ("z", "DoesNotExist")
            ),
        )
    )
    assert str(compiled) == "app notin (,v),e,num=3,tier=10,tier in (10,web),!z"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("app=x,tier in (a,b),!z", "app=x,tier in (a,b),!z"),
        (" app == x ,  b!=y", "app==x,b!=y"),
        ("tier notin (b, a ,b)", "tier notin (a,b)"),
        ("a in ()", "a in ()"),
        ("a in (,x)", "a in (,x)"),
        ("a in (x,)", "a in (,x)"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("gen>5,gen<10", "gen>5,gen<10"),
        ("in in (in)", "in in (in)"),
        ("notin", "notin"),
        ("a=in", "a=in"),
        ("example.com/a", "example.com/a"),
    ],
)
def test_label_text_parses(text: str, canonical: str) -> None:
    assert str(parse_label_selector(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        "a,,b",
        "a b",
        "=a",
        "!",
        "!a=b",
        "a in x",
        "a in (x",
        "a in (x y)",
        "a in (=)",
        "a===b",
        "a=(",
        "a>x",
        "a>",
        "a in",
        "-a",
        "a=-b",
        "(a)",
    ],
)
def test_bad_label_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)


@given(requirements, some_labels)
def test_text_says_the_same_as_the_selector(chosen: list[tuple[str, str, list[str]]], labels: dict[str, str]) -> None:
    plain = [requirement for requirement in chosen if requirement[1] not in ("Gt", "Lt")]
    compiled = label_selector(selector(matchExpressions=expressions(*((k, o, *v) for k, o, v in plain))))
    read = parse_label_selector(str(compiled))
    assert compiled.matches(labels) is all(slowly(*requirement, labels) for requirement in plain)
    assert (read.matches(labels), str(read)) == (compiled.matches(labels), str(parse_label_selector(str(read))))
