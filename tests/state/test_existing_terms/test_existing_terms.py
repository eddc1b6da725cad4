"""The terms that pods hold: found by what they are about, and summed up so that their number costs others nothing."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from kframework.objects import Affinity
from kframework.state import existing_terms as module
from kframework.state.cluster import ClusterState
from kframework.state.existing_terms import MatchingTerms, TermTally
from kframework.state.pod_conditions import PodConditions
from tests.support.objects import node, pod

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

Spec = dict[str, Any]


def term(key: str = "zone", app: str = "web", **fields: Any) -> Spec:
    """Make a term about pods with this `app`."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def not_in(*apps: str, key: str = "zone", **fields: Any) -> Spec:
    """Make a term about pods with another `app` than these."""
    expression = {"key": "app", "operator": "NotIn", "values": list(apps)}
    return {"topologyKey": key, "labelSelector": {"matchExpressions": [expression]}, **fields}


def away(*terms: Spec) -> Affinity:
    """Require anti-affinity."""
    return msgspec.convert({"podAntiAffinity": {REQUIRED: list(terms)}}, Affinity)


def rather(*terms: tuple[int, Spec]) -> Affinity:
    """Prefer affinity, with these weights; to a negative weight anti-affinity."""
    sides: dict[str, list[Spec]] = {"podAffinity": [], "podAntiAffinity": []}
    for weight, each in terms:
        stated = {"weight": abs(weight), "podAffinityTerm": each}
        sides["podAntiAffinity" if weight < 0 else "podAffinity"].append(stated)
    return msgspec.convert({side: {PREFERRED: listed} for side, listed in sides.items()}, Affinity)


def cluster() -> ClusterState:
    """Make a cluster of two nodes in two zones."""
    state = ClusterState()
    for name, zone in (("a", "x"), ("b", "y")):
        state.put_node(node(name, labels={"zone": zone, "host": name}))
    return state


def hold(state: ClusterState, uid: str, affinity: Affinity, node_name: str = "a", **fields: Any) -> None:
    """Put a pod with terms on a node."""
    state.put_pod(pod(uid, node_name=node_name, affinity=affinity, **fields))


def about(
    state: ClusterState, namespace: str = "default", team: dict[str, str] | None = None, **labels: str
) -> MatchingTerms:
    """Ask for the terms about such pods."""
    pods = state.interner.label_class(namespace, labels or {"app": "web", "tier": "x"}, False)
    state.__dict__.setdefault("kept", []).append(pods)  # a pod that waits keeps its class
    return state.nodes.existing_terms.terms_matching(pods, team or {})


def totals(found: MatchingTerms) -> dict[str, int]:
    """Read how many pods refuse such pods, by topology."""
    return {topology.key: tally.total for topology, tally in found.anti_affinity}


def test_terms_are_found_by_the_pods_they_match() -> None:
    state = cluster()
    hold(state, "p", away(term()))
    hold(state, "q", away(term()), "b")
    hold(state, "r", away(term("host")), "b")
    hold(state, "s", away(term()), "b", namespace="other")
    hold(state, "t", away(not_in("db", namespaceSelector={"matchLabels": {"team": "a"}})))
    assert totals(about(state)) == {"zone": 2, "host": 1}
    assert totals(about(state, app="db")) == {}
    assert totals(about(state, "other")) == {"zone": 1}
    assert totals(about(state, "third", {"team": "a"})) == {"zone": 1}


def test_weights_are_summed_up_by_sign_and_topology() -> None:
    state = cluster()
    hold(state, "p", rather((5, term()), (7, not_in("db")), (3, term("host")), (-5, term()), (-6, not_in("web"))))
    hold(state, "q", rather((5, term())), "b")
    found = {(sign, topology.key): tally for sign, topology, tally in about(state).preferred}
    assert {place: tally.total for place, tally in found.items()} == {(1, "zone"): 17, (1, "host"): 3, (-1, "zone"): 5}
    zones = state.nodes.label("zone")
    assert [found[1, "zone"].cells[zones.code(zone)] for zone in "xy"] == [12, 5]


def test_tallies_follow_pods_and_nodes() -> None:
    state = cluster()
    hold(state, "p", away(term(), not_in("db")))
    ((zones, tally),) = about(state).anti_affinity
    hold(state, "q", away(term(), not_in("db")), "b")
    assert [tally.cells[zones.code(zone)] for zone in "xy"] == [2, 2]
    state.put_node(node("b", labels={"zone": "x", "host": "b"}))
    assert [tally.cells[zones.code(zone)] for zone in "xy"] == [4, 0]
    assert sorted(tally.rows_in_domain_of(0)) == [0, 1]
    state.remove_pod("p")
    state.remove_node("b")
    assert tally.total == 0


def test_only_topologies_that_nodes_have_are_summed_up() -> None:
    state = cluster()
    hold(state, "p", away(term("rack"), term("zone")))
    assert totals(about(state)) == {"zone": 1}
    assert about(state).anti_affinity_keys == {"rack", "zone"}
    state.put_node(node("a", labels={"zone": "x", "rack": "1"}))
    assert totals(about(state)) == {"rack": 1, "zone": 1}
    state.put_node(node("a", labels={"rack": "1"}))
    assert totals(about(state)) == {"rack": 1, "zone": 0}


@pytest.mark.slow
def test_topology_may_come_after_the_last_pod_with_a_term_about_it() -> None:
    state = cluster()
    hold(state, "p", away(term("rack"), not_in("db")))
    assert totals(about(state)) == {"zone": 1}
    state.remove_pod("p")
    gc.collect()
    state.put_node(node("a", labels={"rack": "1"}))
    hold(state, "q", away(term("rack"), not_in("db")))
    assert totals(about(state)) == {"zone": 0, "rack": 1}


@pytest.mark.slow
def test_set_of_terms_that_no_pod_has_any_more_is_forgotten() -> None:
    state = cluster()
    hold(state, "p", away(term()))
    state.remove_pod("p")
    gc.collect()
    terms = state.nodes.existing_terms
    assert (len(terms._owners), len(terms._by_class)) == (0, 0)
    assert not any(totals(about(state)).values())


def test_terms_are_dropped_when_pods_leave_nodes_and_not_when_garbage_is_collected() -> None:
    """A replay must have the same terms at the same times, though other references keep its pods alive."""
    numbers = []
    references: list[list[object] | None] = [[], None]
    for kept in references:
        state = cluster()
        for n in range(3 * module._MAX_NEW_OWNERS):
            hold(state, "p", away(not_in(f"none-{n}")))
            if kept is not None:
                kept.append(state.pods["p"])
        numbers.append((state.nodes.existing_terms.version, state.nodes.existing_terms._filed))
    assert numbers[0] == numbers[1]
    assert numbers[0][1] <= module._MAX_NEW_OWNERS + 3


def test_terms_that_come_into_use_again_after_they_were_dropped_count() -> None:
    state = cluster()
    hold(state, "p", away(term()))
    kept = state.pods["p"]
    for n in range(3 * module._MAX_NEW_OWNERS):
        hold(state, "p", away(not_in(f"none-{n}", key="rack")))
    hold(state, "p", away(term()))
    assert kept.template is state.pods["p"].template
    assert totals(about(state)) == {"zone": 1}


def test_labels_that_no_term_names_any_more_take_no_room() -> None:
    state = cluster()
    for n in range(2500):
        hold(state, "p", away(term(app=str(n))))
    assert len(state.nodes.existing_terms._by_label) < 1200


def test_others_see_one_tally_for_each_role_sign_and_topology_however_many_terms_there_are() -> None:
    state = cluster()
    weighted = [(1 + n % 100, not_in(f"none-{n}", key=("zone", "host")[n % 2])) for n in range(400)]
    hold(state, "p", rather(*weighted, *((-weight, each) for weight, each in weighted)))
    assert len(about(state).preferred) == 4
    assert sum(sign * tally.total for sign, _, tally in about(state).preferred) == 0


def test_pod_with_many_terms_comes_and_goes_in_as_many_steps_as_there_are_tallies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = cluster()
    terms = away(*(not_in(f"none-{n}") for n in range(400)))
    hold(state, "p", terms)
    found = about(state)
    steps: list[int] = []
    monkeypatch.setattr(TermTally, "count", lambda tally, row, more: steps.append(more))
    hold(state, "q", terms)
    assert (steps, len(found.anti_affinity)) == ([400], 1)


def test_label_classes_equal_to_all_terms_share_their_tallies() -> None:
    state = cluster()
    hold(state, "p", away(not_in("db")))
    first, second, other = about(state, app="one"), about(state, app="two"), about(state, app="db")
    assert first.anti_affinity[0][1] is second.anti_affinity[0][1]
    assert other.anti_affinity == ()


def test_templates_with_equal_terms_are_counted_together() -> None:
    state = cluster()
    for n in range(5):
        hold(state, f"p{n}", away(term()), requests={"cpu": f"{n}m"})
    assert (state.nodes.existing_terms.version, totals(about(state))) == (1, {"zone": 5})


def test_label_class_is_compared_with_all_terms_once_for_each_new_set(monkeypatch: pytest.MonkeyPatch) -> None:
    state, compared = cluster(), list[str]()
    find = PodConditions.find

    def noted(conditions: PodConditions, namespace: str, *labels: dict[str, str]) -> object:
        compared.append(namespace)
        return find(conditions, namespace, *labels)

    monkeypatch.setattr(PodConditions, "find", noted)
    kept = [state.interner.label_class("default", {"app": str(n)}, False) for n in range(3)]
    for n in range(20):
        hold(state, f"p{n}", away(not_in(f"none-{n}")))
        for pods in kept:
            assert totals(state.nodes.existing_terms.terms_matching(pods, {})) == {"zone": n + 1}
            state.nodes.existing_terms.terms_matching(pods, {})
    assert len(compared) == 20 * len(kept)


def test_terms_of_one_owner_filed_under_several_labels_are_added_up() -> None:
    state = cluster()
    hold(state, "p", rather((5, term()), (7, term("zone", "other")), (11, not_in("db"))))
    hold(state, "q", rather((13, not_in("db"))))
    ((sign, topology, tally),) = about(state).preferred
    assert (sign, topology.key, tally.total, tally.sources) == (1, "zone", 29, (1, 16, 2, 13))


@pytest.mark.parametrize("count", [3, 300])
def test_terms_that_match_are_some_though_no_node_has_their_topology(count: int) -> None:
    state = cluster()
    assert not about(state).are_some
    hold(state, "p", away(*(not_in(f"none-{n}", key=f"rack-{n}") for n in range(count))))
    found = about(state)
    assert (found.are_some, found.sources) == (True, {})
    assert found.anti_affinity_keys == {f"rack-{n}" for n in range(count)}
    state.put_node(node("a", labels={"rack-1": "1"}))
    assert totals(about(state)) == {"rack-1": 1}


def test_unused_sets_of_terms_are_dropped() -> None:
    state = cluster()
    for n in range(1000):
        hold(state, "p", away(not_in(f"none-{n}")))
        assert totals(about(state)) == {"zone": 1}
    assert len(about(state).sources) == 1
    assert all(len(sources) < 2 * module._MAX_NEW_OWNERS for sources in about(state).sources.values())
    assert len(state.nodes.existing_terms._tallies) == 1


def test_class_that_has_not_looked_for_long_sees_all() -> None:
    state = cluster()
    about(state)
    for n in range(2 * module._MAX_NEW_OWNERS):
        hold(state, f"p{n}", away(not_in(f"none-{n}")))
    assert totals(about(state)) == {"zone": 2 * module._MAX_NEW_OWNERS}


def test_label_classes_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BUDGET", 0)
    state = cluster()
    hold(state, "p", away(not_in("db")))
    for n in range(3 * module._MIN_CACHED):
        assert totals(about(state, app=f"w{n}")) == {"zone": 1}
    assert len(state.nodes.existing_terms._by_class) == module._MIN_CACHED


def test_tallies_of_nearly_the_same_owners_follow_one_and_stay_right() -> None:
    state = cluster()
    for number in range(40):
        hold(state, f"p{number}", away(not_in(f"pod-{number}")), "ab"[number % 2])
    found = [about(state, app=f"pod-{number}") for number in range(30)]
    assert [totals(each)["zone"] for each in found] == [39] * 30
    tallies = [tally for each in found for _, tally in each.anti_affinity]
    assert sum(bool(tally.weights) for tally in tallies) == 1
    hold(state, "again", away(not_in("pod-3")), "b")
    state.remove_pod("p7")
    assert [totals(each)["zone"] for each in found] == [39 - (number != 7) + (number != 3) for number in range(30)]
