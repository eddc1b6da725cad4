"""Selectors and tolerations."""

from __future__ import annotations

import pytest

from kframework.errors import InputError
from tests.testing.conformance.planted import Part, replayed

NODE = {"metadata": {"name": "n", "labels": {"disk": "ssd"}}}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
BROKEN = {"key": "-bad key-", "operator": "Exists"}


def terms(*expressions: Part) -> Part:
    """Write a node selector of one term per expression."""
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]} for expression in expressions]}


def requiring(selector: Part, **node_selector: str) -> Part:
    """Write a pod that requires a node."""
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    return {"metadata": {"name": "p"}, "spec": {"nodeSelector": node_selector, "affinity": affinity}}


def differing(op: str, question: Part, expect: Part) -> set[str]:
    """Replay a question; return the fields that differ."""
    case = {"id": "s-1", "kind": "selector", "suite": "s", "input": {"op": op, **question}, "expect": expect}
    return {str(fact.path[0]) for fact in replayed(case).differences}


@pytest.mark.parametrize(
    ("op", "question", "expect"),
    [
        (
            "labelSelector",
            {"selector": {"matchLabels": {"app": "web"}}, "labels": {"app": "web"}},
            {"matches": True, "string": "app=web", "empty": False},
        ),
        ("labelSelector", {"selector": None, "labels": {}}, {"matches": False, "string": "", "empty": False}),
        ("labelSelector", {"selector": {"matchExpressions": [BROKEN]}, "labels": {}}, {"error": "in other words"}),
        ("nodeSelector", {"nodeSelector": terms(SSD), "node": NODE}, {"matches": True}),
        (
            "nodeSelector",
            {"nodeSelector": terms(BROKEN, SSD), "node": NODE},
            {"matches": True, "parseError": "in other words"},
        ),
        (
            "nodeSelector",
            {"nodeSelector": terms(BROKEN), "node": NODE},
            {"matches": False, "parseError": "in other words", "matchError": "in other words"},
        ),
        ("podRequiredNodeAffinity", {"pod": requiring(terms(SSD)), "node": NODE}, {"matches": True}),
        (
            "podRequiredNodeAffinity",
            {"pod": requiring(terms(BROKEN)), "node": NODE},
            {"matches": False, "matchError": "in other words"},
        ),
        ("podRequiredNodeAffinity", {"pod": requiring(terms(BROKEN), disk="hdd"), "node": NODE}, {"matches": False}),
        (
            "preferredNodeAffinity",
            {"terms": [{"weight": 5, "preference": {"matchExpressions": [SSD]}}], "node": NODE},
            {"score": 5},
        ),
        (
            "preferredNodeAffinity",
            {"terms": [{"weight": 5, "preference": {"matchExpressions": [BROKEN]}}], "node": NODE},
            {"error": "in other words"},
        ),
        ("toleration", {"toleration": {"operator": "Exists"}, "taint": {"key": "x"}}, {"tolerates": True}),
        (
            "untoleratedTaint",
            {"taints": [{"key": "x", "effect": "NoSchedule"}], "tolerations": [], "effects": ["NoSchedule"]},
            {"untolerated": True, "taint": {"key": "x", "effect": "NoSchedule"}},
        ),
        ("untoleratedTaint", {"taints": [], "tolerations": [], "effects": []}, {"untolerated": False}),
    ],
)
def test_every_selector_function_is_compared(op: str, question: Part, expect: Part) -> None:
    assert differing(op, question, expect) == set()
    for field in expect:
        assert differing(op, question, {name: value for name, value in expect.items() if name != field}) == {field}


def test_unrecorded_error_is_reported() -> None:
    question = {"selector": {"matchExpressions": [BROKEN]}, "labels": {}}
    fields = differing("labelSelector", question, {"matches": False, "string": "", "empty": False})
    assert fields == {"matches", "string", "empty", "error"}


def test_unknown_selector_function_is_reported() -> None:
    with pytest.raises(InputError, match=r"planted\.jsonl:1: s-1: input\.op: Invalid enum value 'fieldSelector'"):
        differing("fieldSelector", {}, {})
