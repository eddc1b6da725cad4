"""Inter-pod affinity terms as their holder means them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects.label_selectors import EVERYTHING, NOTHING, exact_selector
from kframework.objects.pod import PodSpec
from kframework.state.existing_terms import PodTerms, pod_terms

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

Term = dict[str, Any]


def term(**fields: Any) -> Term:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def broken(operator: str = "Like") -> Term:
    return term(labelSelector={"matchExpressions": [{"key": "app", "operator": operator, "values": []}]})


def terms(near: Term | None = None, away: Term | None = None) -> PodTerms:
    """Compile `podAffinity` and `podAntiAffinity` of a pod in namespace `home`."""
    parts = {"podAffinity": near, "podAntiAffinity": away}
    affinity = {key: part for key, part in parts.items() if part is not None}
    return pod_terms("home", msgspec.convert({"affinity": affinity}, PodSpec))


def weighted(weight: int, each: Term) -> Term:
    return {"weight": weight, "podAffinityTerm": each}


@pytest.mark.parametrize(
    ("fields", "namespaces", "selected"),
    [
        ({}, {"home"}, NOTHING),
        ({"namespaces": ["other"]}, {"other"}, NOTHING),
        ({"namespaceSelector": {}}, set(), EVERYTHING),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, set(), exact_selector({"team": "a"})),
        ({"namespaces": ["other"], "namespaceSelector": {}}, {"other"}, EVERYTHING),
    ],
)
def test_namespaces_of_a_term(fields: Term, namespaces: set[str], selected: object) -> None:
    (compiled,) = terms(near={REQUIRED: [term(**fields)]}).affinity
    assert (compiled.topology_key, compiled.selector) == ("zone", exact_selector({"app": "web"}))
    assert compiled.namespaces == namespaces
    assert compiled.namespace_selector == selected


@pytest.mark.parametrize(
    ("fields", "namespace", "labels", "matches"),
    [
        ({}, "home", {"app": "web"}, True),
        ({}, "home", {"app": "db"}, False),
        ({}, "other", {"app": "web"}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, "other", {"app": "web"}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, "other", {}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, "other", {"app": "web"}, False),
        ({"namespaces": ["other"], "namespaceSelector": {"matchLabels": {"team": "b"}}}, "other", {"app": "web"}, True),
        ({"labelSelector": None}, "home", {"app": "web"}, False),
        ({"labelSelector": {}}, "home", {}, True),
    ],
)
def test_term_matches_the_pods_of_its_selector(
    fields: Term, namespace: str, labels: dict[str, str], matches: bool
) -> None:
    (compiled,) = terms(away={REQUIRED: [term(**fields)]}).anti_affinity
    assert compiled.matches(namespace, {"team": "a"}, labels) is matches


def test_preferred_terms_weigh_against_where_they_keep_away() -> None:
    both = terms(near={PREFERRED: [weighted(5, term())]}, away={PREFERRED: [weighted(7, term()), weighted(1, term())]})
    (compiled,) = terms(near={REQUIRED: [term()]}).affinity
    assert both == PodTerms(preferred=((5, compiled), (-7, compiled), (-1, compiled)))


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": {}}, {"podAffinity": {}, "podAntiAffinity": {}}])
def test_pod_without_terms(affinity: Term | None) -> None:
    assert pod_terms("home", msgspec.convert({"affinity": affinity}, PodSpec)) == PodTerms()


LIKE = "label 'app': unknown operator 'Like' (known: In, NotIn, Exists, DoesNotExist)"
EMPTY = "label 'app': operator In needs at least one value"


@pytest.mark.parametrize(
    ("near", "away", "problem"),
    [
        ({REQUIRED: [term(), broken()]}, None, f"requiredAffinityTerms: {LIKE}"),
        (None, {REQUIRED: [broken("In")]}, f"requiredAntiAffinityTerms: {EMPTY}"),
        ({PREFERRED: [weighted(1, broken())]}, None, f"preferredAffinityTerms: {LIKE}"),
        (None, {PREFERRED: [weighted(1, broken())]}, f"preferredAntiAffinityTerms: {LIKE}"),
        (
            {REQUIRED: [broken()], PREFERRED: [weighted(1, broken("In"))]},
            {REQUIRED: [term()]},
            f"[requiredAffinityTerms: {LIKE}, preferredAffinityTerms: {EMPTY}]",
        ),
        (
            {REQUIRED: [term(namespaceSelector={"matchLabels": {"-": "a"}})]},
            None,
            "requiredAffinityTerms: '-' is not a label key: [dns.prefix/]name of letters, digits, '-', '_' and '.'",
        ),
    ],
)
def test_list_with_a_term_that_cannot_be_read_does_not_count(
    near: Term | None, away: Term | None, problem: str
) -> None:
    compiled = terms(near, away)
    assert compiled.problem == problem
    readable = away == {REQUIRED: [term()]}
    assert (compiled.affinity, bool(compiled.anti_affinity), compiled.preferred) == ((), readable, ())
