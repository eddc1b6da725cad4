"""What would let a pod run in spite of affinity: that pods in the way go, or that it drops terms of its own."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    Suggestion,
    Suggestions,
    delete_all,
    drop_item,
    each_or_all,
)
from kframework.objects import PodAffinityTerm
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.plugins.inter_pod_affinity.affinity import Affinities
from kframework.state.domain_counts import pods_in_domain
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo


def delete_unwanted(affinities: Affinities, pod: PendingPod, node: NodeInfo) -> Suggestions:
    """Suggest to delete the pods in the node's domains that must not be near the pod, if they are few."""
    found = dict[str, PodInfo]()
    for other in unwanted(affinities, pod, node):
        found[other.uid] = other
        if len(found) > MAX_SUGGESTIONS:
            return
    yield delete_all(found.values())


def unwanted(affinities: Affinities, pod: PendingPod, node: NodeInfo) -> Iterator[PodInfo]:
    """Yield the pods in the node's domains that the pod refuses, then those that refuse it; some twice."""
    nodes = node.table
    for key, selection in affinities.incoming_terms(pod).refused:
        yield from pods_in_domain(node, key, selection)
    for _, tally in affinities.existing_terms(pod, nodes).anti_affinity:
        unwilling = set(tally.sources[::2])
        for row in tally.rows_beside(node.row):
            others = (other for other in nodes[row].pods if other.template.has_terms)
            yield from (other for other in others if nodes.existing_terms.holders(other).serial in unwilling)


def drop_terms(pod: PendingPod) -> Suggestions:
    """Suggest that the pod drop one of its required terms, or all."""
    affinity = pod.spec.affinity
    near, apart = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else (None, None)
    return each_or_all(
        _drop_term(term, anti=side is apart)
        for side in (near, apart)
        if side is not None
        for term in side.required_during_scheduling_ignored_during_execution
    )


def _drop_term(term: PodAffinityTerm, *, anti: bool) -> Suggestion:
    try:
        pods = str(label_selector(term.label_selector)) or "pods"
    except SelectorError:
        pods = "pods"
    text = f"drop the pod's {'anti-affinity' if anti else 'affinity'} to {pods} by {term.topology_key}"
    side = "pod_anti_affinity" if anti else "pod_affinity"
    path = f"spec.affinity.{side}.required_during_scheduling_ignored_during_execution"
    return drop_item("dropPodTerm", text, path, term, term=term, anti=anti)
