"""Which points a new plugin may show: all that the contract has."""

from __future__ import annotations

import pytest

from kframework.cli.new.points import OPTIONS, POINTS, forms, summary, with_needs
from kframework.framework.hookspecs import SPECIFICATIONS


def test_every_hook_of_the_contract_is_shown() -> None:
    hooks = {name for specification in SPECIFICATIONS for name in vars(specification) if not name.startswith("_")}
    assert {*POINTS, *(hook for point in POINTS.values() for hook in point.hooks)} == hooks


def test_what_has_other_forms_is_a_point() -> None:
    assert {point for points in OPTIONS.values() for point in points} <= POINTS.keys()


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        ("filter permit", set(), {"filter", "permit"}),
        ("filter permit", {"columnar"}, {"filter_columnar", "permit"}),
        ("filter permit reserve", {"columnar", "async"}, {"filter_columnar", "permit_async", "reserve"}),
    ],
)
def test_options_choose_forms(points: str, options: set[str], words: set[str]) -> None:
    assert forms(points.split(), options) == words


@pytest.mark.parametrize(
    ("points", "all_of_them"),
    [
        (["score"], {"score"}),
        (["pre_score", "permit"], {"pre_score", "score", "permit"}),
        (["pre_filter"], {"pre_filter", "filter"}),
    ],
)
def test_what_a_point_needs_comes_along(points: list[str], all_of_them: set[str]) -> None:
    assert with_needs(points) == all_of_them


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ("permit", "let pods wait for their binding"),
        ("score filter explain", "limit the pods of a node and spread pods"),
        ("filter score bind", "limit the pods of a node, spread pods and bind groups"),
        ("filter score bind reserve explain", "show what 5 extension points are for"),
    ],
)
def test_a_sentence_says_what_they_do(points: str, sentence: str) -> None:
    assert summary(set(points.split())) == sentence
