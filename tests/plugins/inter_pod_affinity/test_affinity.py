"""The counts for the affinity of pods, and when they are computed again; the tests of the plugin cover the rules."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from kframework.objects import Affinity, Namespace, ObjectMeta
from kframework.objects.label_selectors import exact_selector
from kframework.plugins.inter_pod_affinity.affinity import Affinities, IncomingTerms
from kframework.state.cluster import ClusterState
from kframework.state.pod_counts import AllOf, Selection, WeightedSelections
from kframework.state.pods import PendingPod
from kframework.state.selection import Namespaces
from tests.support.objects import node, pod

WEB = exact_selector({"app": "web"})


def affinity(kind: str, **term: Any) -> Affinity:
    """Make a required term about pods with `app: web`."""
    about = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    return msgspec.convert({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [about]}}, Affinity)


def cluster() -> tuple[ClusterState, Affinities]:
    state = ClusterState()
    state.put_node(node("n", labels={"zone": "a"}))
    return state, Affinities(state.objects(Namespace).index(Namespaces))


def put(state: ClusterState, name: str, **labels: str) -> None:
    metadata = ObjectMeta(name=name, labels=labels)
    state.objects(Namespace).put(metadata, Namespace(metadata=metadata))


def pending(state: ClusterState, name: str = "p", **fields: Any) -> PendingPod:
    return PendingPod(pod(name, **fields), state.interner)


def test_incoming_terms_are_worked_out_once_for_each_namespace_until_namespaces_change() -> None:
    state, affinities = cluster()
    terms = affinity("podAffinity", namespaceSelector={"matchLabels": {"team": "a"}})
    first, twin = (pending(state, name, affinity=terms) for name in "pq")
    incoming_terms = affinities.incoming_terms(first)
    assert incoming_terms == IncomingTerms(affinity=AllOf((Selection(frozenset(), WEB),)), keys=("zone",))
    assert affinities.incoming_terms(twin) is incoming_terms
    put(state, "other", team="a")
    assert affinities.incoming_terms(twin).affinity == AllOf((Selection(frozenset({"other"}), WEB),))


def test_terms_that_choose_no_namespaces_by_labels_are_not_worked_out_again() -> None:
    state, affinities = cluster()
    web = pending(state, affinity=affinity("podAffinity", namespaces=["a"]))
    incoming_terms = affinities.incoming_terms(web)
    put(state, "other", team="a")
    assert affinities.incoming_terms(web) is incoming_terms


def test_incoming_terms_of_the_same_template_differ_by_namespace() -> None:
    state, affinities = cluster()
    pods = [pending(state, namespace=name, affinity=affinity("podAntiAffinity")) for name in ("default", "other")]
    for each in pods:
        expected = Selection(frozenset({each.namespace}), WEB)
        assert affinities.incoming_terms(each) == IncomingTerms(
            single_anti_affinity=(("zone", expected),), anti_affinity=((1, "zone", AllOf((expected,))),)
        )


def test_incoming_terms_are_summed_up_by_topology_and_sign() -> None:
    state, affinities = cluster()
    stated = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    weighted = [{"weight": weight, "podAffinityTerm": stated} for weight in (1, 2)]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    both = {"podAffinity": {preferred: weighted}, "podAntiAffinity": {preferred: weighted[1:]}}
    own = Selection(frozenset({"default"}), WEB)
    assert affinities.incoming_terms(pending(state, affinity=msgspec.convert(both, Affinity))).preferred == (
        (1, "zone", WeightedSelections(((1, own), (2, own)))),
        (-2, "zone", AllOf((own,))),
    )


def test_incoming_terms_are_met_by_what_satisfies_every_term() -> None:
    state, affinities = cluster()
    web, other = (pending(state, labels={"app": app}).label_class for app in ("web", "db"))
    incoming_terms = affinities.incoming_terms(pending(state, affinity=affinity("podAffinity")))
    assert incoming_terms.is_met_by(web) and not incoming_terms.is_met_by(other)
    assert not IncomingTerms().is_met_by(web)


def test_existing_terms_are_those_about_the_pods_of_a_namespace_as_it_is_labelled_now() -> None:
    state, affinities = cluster()
    web = pending(state, labels={"app": "web"})
    selected = affinity("podAntiAffinity", namespaceSelector={"matchLabels": {"team": "a"}})
    state.put_pod(pod("holder", node_name="n", affinity=selected))
    assert affinities.existing_terms(web, state.nodes).anti_affinity == ()
    put(state, "default", team="a")
    ((_, tally),) = affinities.existing_terms(web, state.nodes).anti_affinity
    assert tally.total == 1
    put(state, "default", team="b")
    assert affinities.existing_terms(web, state.nodes).anti_affinity == ()


@pytest.mark.usefixtures("frozen_heap")
def test_unused_terms_are_dropped() -> None:
    state, affinities = cluster()
    gone = pending(state, labels={"app": "web"}, affinity=affinity("podAffinity"))
    affinities.incoming_terms(gone)
    assert len(affinities._incoming_terms) == 1
    del gone
    gc.collect()
    assert len(affinities._incoming_terms) == 0
