"""Label, field and node selectors: reading, writing and matching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects.meta import LabelSelector
from kframework.objects.node import NodeSelectorTerm
from kframework.objects.pod import PreferredSchedulingTerm
from kframework.objects.selectors import (
    EVERYTHING,
    NOTHING,
    NodeSelector,
    SelectorError,
    exact,
    is_qualified_name,
    label_selector,
    parse_field_selector,
    parse_label_selector,
    preferred_node_score,
)


def selector(**fields: object) -> LabelSelector:
    return msgspec.convert(fields, LabelSelector)


def expressions(*requirements: tuple[Any, ...]) -> list[dict[str, object]]:
    return [{"key": key, "operator": operator, "values": values} for key, operator, *values in requirements]


@pytest.mark.parametrize(
    ("requirements", "labels", "matches"),
    [
        ([], {}, True),
        ([("a", "In", "1", "2")], {"a": "2"}, True),
        ([("a", "In", "1", "2")], {"a": "3"}, False),
        ([("a", "In", "")], {"a": ""}, True),
        ([("a", "In", "")], {}, False),
        ([("a", "NotIn", "1")], {"a": "1"}, False),
        ([("a", "NotIn", "1")], {"a": "2"}, True),
        ([("a", "NotIn", "")], {}, True),
        ([("a", "Exists")], {"a": ""}, True),
        ([("a", "Exists")], {}, False),
        ([("a", "DoesNotExist")], {"a": ""}, False),
        ([("a", "DoesNotExist")], {}, True),
        ([("a", "Exists"), ("a", "NotIn", "1")], {"a": "1"}, False),
    ],
)
def test_label_requirements(requirements: list[tuple[Any, ...]], labels: dict[str, str], matches: bool) -> None:
    compiled = label_selector(selector(matchExpressions=expressions(*requirements)))
    assert compiled.matches(labels) is matches


def test_an_absent_selector_matches_nothing_and_an_empty_one_everything() -> None:
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


def test_an_invalid_match_label_is_refused_but_not_a_node_selectors() -> None:
    with pytest.raises(SelectorError):
        label_selector(selector(matchLabels={"a": "no spaces"}))
    assert exact({"a": "no spaces"}).matches({"a": "no spaces"})


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
def test_qualified_names(name: str, valid: bool) -> None:
    assert is_qualified_name(name) is valid


def test_the_canonical_text_is_sorted() -> None:
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
def test_label_text(text: str, canonical: str) -> None:
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
def test_field_text(text: str, matches: bool) -> None:
    fields = {"spec.nodeName": "n1", "status.phase": "Running", "odd": "a,b=c\\"}
    assert parse_field_selector(text).matches(fields) is matches


@pytest.mark.parametrize("text", ["a", "a=b=c", "=b", r"a=\x", "a=b\\"])
def test_bad_field_text_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


def test_field_values_are_written_as_they_are_read() -> None:
    assert str(parse_field_selector(r"b!=1,a==x\,y")) == r"a=x\,y,b!=1"


def terms(*several: Mapping[str, object]) -> list[NodeSelectorTerm]:
    return msgspec.convert(list(several), list[NodeSelectorTerm])


LABELS = {"zone": "a", "gen": "007", "odd": "x1", "big": "9223372036854775808"}


@pytest.mark.parametrize(
    ("requirements", "matches"),
    [
        ([("gen", "Gt", "6")], True),
        ([("gen", "Gt", "7")], False),
        ([("gen", "Lt", "8")], True),
        ([("gen", "Lt", "7")], False),
        ([("odd", "Lt", "8")], False),
        ([("big", "Gt", "1")], False),
        ([("none", "Lt", "8")], False),
        ([("zone", "In", "a"), ("gen", "Exists")], True),
        ([("zone", "In", "b"), ("gen", "Exists")], False),
    ],
)
def test_node_labels(requirements: list[tuple[Any, ...]], matches: bool) -> None:
    compiled = NodeSelector(terms({"matchExpressions": expressions(*requirements)}))
    assert compiled.matches(LABELS, "n1") is matches


@pytest.mark.parametrize(
    ("requirements", "matches"),
    [
        ([("metadata.name", "In", "n1")], True),
        ([("metadata.name", "In", "n2")], False),
        ([("metadata.name", "NotIn", "n2")], True),
        ([("metadata.name", "NotIn", "n1")], False),
        ([("metadata.namespace", "In", "n1")], False),
        ([("metadata.namespace", "NotIn", "n1")], True),
    ],
)
def test_node_fields(requirements: list[tuple[Any, ...]], matches: bool) -> None:
    compiled = NodeSelector(terms({"matchFields": expressions(*requirements)}))
    assert compiled.matches({}, "n1") is matches
    assert compiled.matches({}, "")  # a node without a name has no fields to hold against it


@pytest.mark.parametrize(
    "term",
    [
        {"matchExpressions": expressions(("a", "Near", "x"))},
        {"matchExpressions": expressions(("a", "In"))},
        {"matchExpressions": expressions(("a", "Gt", "1.5"))},
        {"matchExpressions": expressions(("a", "Gt", "-5"))},  # -5 is no label value
        {"matchExpressions": expressions(("a", "Gt", "1", "2"))},
        {"matchFields": expressions(("metadata.name", "In", "a", "b"))},
        {"matchFields": expressions(("metadata.name", "In"))},
        {"matchFields": expressions(("metadata.name", "Exists"))},
    ],
)
def test_a_term_that_does_not_parse_hides_no_other(term: dict[str, object]) -> None:
    alone = NodeSelector(terms(term))
    assert not alone.matches({"a": "2"}, "n1")
    assert len(alone.errors) == 1
    assert NodeSelector(terms(term, {"matchExpressions": expressions(("a", "Exists"))})).matches({"a": "2"}, "n1")
    with pytest.raises(SelectorError):
        preferred_node_score(msgspec.convert([{"weight": 1, "preference": term}], list[PreferredSchedulingTerm]))


def test_terms_are_alternatives_and_empty_ones_match_nothing() -> None:
    here, there = ({"matchExpressions": expressions(("zone", "In", zone))} for zone in "ab")
    assert NodeSelector(terms(there, here)).matches(LABELS, "n1")
    assert not NodeSelector(terms({}, there)).matches(LABELS, "n1")
    assert not NodeSelector([]).matches(LABELS, "n1")


def test_the_score_adds_the_weights_of_matching_terms() -> None:
    near = {"matchExpressions": expressions(("zone", "In", "a"))}
    named = {"matchFields": expressions(("metadata.name", "In", "n1"))}
    broken = {"matchExpressions": expressions(("zone", "Near"))}
    preferred = [(5, near), (30, named), (100, {}), (0, broken)]
    score = preferred_node_score(
        msgspec.convert([{"weight": w, "preference": p} for w, p in preferred], list[PreferredSchedulingTerm])
    )
    assert (score(LABELS, "n1"), score(LABELS, "n2"), score({}, "n2")) == (35, 5, 0)


keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["", "0", "1", "07", "x"])
requirements = st.lists(
    st.one_of(
        st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=3)),
        st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
        st.tuples(keys, st.sampled_from(["Gt", "Lt"]), st.sampled_from([["0"], ["1"], ["5"]])),
    ),
    min_size=1,
    max_size=4,
)
some_labels = st.dictionaries(keys, values)


def slowly(key: str, operator: str, wanted: list[str], labels: Mapping[str, str]) -> bool:
    """Evaluate a requirement the obvious way."""
    if operator in ("In", "NotIn"):
        return (key in labels and labels[key] in wanted) is (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) is (operator == "Exists")
    if key not in labels or not labels[key].isdigit():
        return False
    number, bound = int(labels[key]), int(wanted[0])
    return number > bound if operator == "Gt" else number < bound


@given(requirements, some_labels)
def test_node_selectors_agree_with_the_obvious_way(
    chosen: list[tuple[str, str, list[str]]], labels: dict[str, str]
) -> None:
    compiled = NodeSelector(terms({"matchExpressions": expressions(*((k, o, *v) for k, o, v in chosen))}))
    assert compiled.matches(labels, "n1") is all(slowly(*requirement, labels) for requirement in chosen)


@given(requirements, some_labels)
def test_text_says_the_same_as_the_selector(chosen: list[tuple[str, str, list[str]]], labels: dict[str, str]) -> None:
    plain = [requirement for requirement in chosen if requirement[1] not in ("Gt", "Lt")]
    compiled = label_selector(selector(matchExpressions=expressions(*((k, o, *v) for k, o, v in plain))))
    read = parse_label_selector(str(compiled))
    assert compiled.matches(labels) is all(slowly(*requirement, labels) for requirement in plain)
    assert (read.matches(labels), str(read)) == (compiled.matches(labels), str(parse_label_selector(str(read))))
