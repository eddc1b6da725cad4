"""What could be done about one plugin's rejection to a pod on a node: changes of the cluster, or of the pod.

A proposal is no promise: it is tried before anybody hears of it, and what is not needed of it is left out. For plugins
that are not known here, single pods on the node are proposed to be deleted where the plugin says that this may help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kframework.config.args import NodeAffinityArgs
from kframework.core.cycle.oracle import Oracle
from kframework.framework.status import Code, Status
from kframework.objects import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kframework.objects.node_selectors import node_affinity
from kframework.observe.explain.remedies.changes import (
    Change,
    DeletePod,
    FreeResource,
    RemoveLabel,
    RemoveTaint,
    SetLabel,
    Uncordon,
    is_cordon,
)
from kframework.observe.explain.remedies.obstacles import (
    Shortage,
    enemies,
    port_holders,
    shortages,
    skews,
    taken_ports,
    unmet,
    untolerated,
)
from kframework.observe.explain.remedies.pod_changes import (
    DropHostPort,
    DropNodeRequirement,
    DropNodeSelector,
    DropPodTerm,
    DropSpread,
    DropVolume,
    LowerRequest,
    RaiseMaxSkew,
    RemoveGate,
    Tolerate,
)
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PodInfo

#: Changes that are made together.
Proposal = tuple[Change, ...]

#: More changes than that are no help.
MOST = 32

#: So many pods are tried one by one.
_FEW = 16

#: Labels that say what a node is: to give it others would be a lie.
_GIVEN = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
    }
)


#: Operators that are content with what others ask for.
_LAX = frozenset({"Exists", "NotIn"})


def of_cluster(afresh: Oracle, node: NodeInfo, status: Status) -> Iterator[Proposal]:
    """List the changes of the cluster that may answer this rejection to the pod on a node, the best first."""
    propose = _OF_CLUSTER.get(status.plugin)
    if propose is not None:
        yield from (proposal for proposal in propose(afresh, node) if proposal)
    elif status.code == Code.UNSCHEDULABLE:
        yield from ((_deletion(other),) for other in _by_importance(node.pods)[:_FEW])


def of_pod(afresh: Oracle, node: NodeInfo | None, status: Status) -> Iterator[Proposal]:
    """List the changes of the pod that may answer this rejection to it on a node, or as a whole (None)."""
    propose = _OF_POD.get(status.plugin)
    if propose is not None:
        yield from (proposal for proposal in propose(afresh, node) if proposal)


# -- of the cluster ------------------------------------------------------------------------------------------------


def _uncordon(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    yield (Uncordon(node.name),)


def _remove_taints(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    yield tuple(
        Uncordon(node.name) if node.unschedulable and is_cordon(taint) else RemoveTaint(node.name, taint)
        for taint in untolerated(node.taints, afresh.pod.spec.tolerations)
    )


def _label(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    """Label the node as the pod's nodeSelector, its node affinity and the one added to it require."""
    labels: Mapping[str, str] | None = {**node.labels, **afresh.pod.spec.node_selector}
    for selector in _selectors(afresh):
        if labels is not None:
            labels = _meeting(selector, labels, node)
    if labels is None or any(labels.get(key) != node.labels.get(key) for key in _GIVEN):
        return
    removed = (RemoveLabel(node.name, key) for key in node.labels if key not in labels)
    added = (SetLabel(node.name, key, value) for key, value in labels.items() if node.labels.get(key) != value)
    yield (*removed, *added)


def _meeting(selector: NodeSelector, labels: Mapping[str, str], node: NodeInfo) -> Mapping[str, str] | None:
    """Return the labels with the fewest changes that make the selector match; None if no labels do."""
    closest, fewest = None, math.inf
    for term in _terms(selector):
        missing = unmet(term, labels, node.name)
        changed: Mapping[str, str] | None = labels
        for required in sorted(missing, key=lambda required: required.operator in _LAX):
            changed = None if changed is None else _with_label(changed, required)
        if changed is not None and len(missing) < fewest:
            closest, fewest = changed, len(missing)
    return closest


def _with_label(labels: Mapping[str, str], required: NodeSelectorRequirement) -> Mapping[str, str] | None:
    """Return the labels with one that meets the requirement; None if that takes another node."""
    key, values = required.key, required.values
    match required.operator:
        case _ if key == "metadata.name":
            return None
        case "In" if values:
            return {**labels, key: values[0]}
        case "NotIn" | "DoesNotExist":
            return {name: value for name, value in labels.items() if name != key}
        case "Exists":
            return {key: "true", **labels}
        case "Gt":
            return {**labels, key: str(int(values[0]) + 1)}
        case "Lt":
            return {**labels, key: str(int(values[0]) - 1)}
        case _:
            return None


def _delete_port_holders(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    yield _deletions(port_holders(node, afresh.pod))


def _make_room(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    """Free what is missing; before that, delete pods as long as each is worth more than one resource that is freed."""
    missing = _shortages(afresh, node)
    if not all(shortage.possible for shortage in missing):
        return
    rest, deleted = missing, list[PodInfo]()
    for _ in missing[1:]:
        staying = [other for other in node.pods if other not in deleted]
        if not rest or not staying:
            break
        deleted.append(min(staying, key=lambda other: (*_burden(_without(other, rest)), other.priority, other.key)))
        rest = _without(deleted[-1], rest)
        if len(deleted) + len(rest) < len(missing):
            yield (*map(_deletion, deleted), *(_free(node, each) for each in rest))
    yield tuple(_free(node, each) for each in missing)


def _without(pod: PodInfo, missing: Iterable[Shortage]) -> list[Shortage]:
    """List what would still be missing without a pod."""
    left = (each._replace(missing=each.missing - _held(pod, each.resource)) for each in missing)
    return [each for each in left if each.missing > 0]


def _burden(missing: Sequence[Shortage]) -> tuple[int, float]:
    return len(missing), sum(each.missing / each.asked for each in missing)


def _free(node: NodeInfo, shortage: Shortage) -> Change:
    return FreeResource(node.name, shortage.resource, shortage.missing, _examples(node, shortage))


def _examples(node: NodeInfo, shortage: Shortage) -> tuple[str, ...]:
    """Name pods without which there is room: one if one is enough, else the largest until there is."""
    staying = [other for other in _by_importance(node.pods) if not other.terminating]
    holders = [other for other in staying if _held(other, shortage.resource)]
    enough = [other for other in holders if _frees(other, shortage)]
    if enough:
        lowest = [other for other in enough if other.priority == enough[0].priority]
        return (min(lowest, key=lambda other: _held(other, shortage.resource)).key,)
    chosen, left = [], shortage.missing
    for other in sorted(holders, key=lambda other: -_held(other, shortage.resource)):
        if left <= 0:
            break
        chosen.append(other.key)
        left -= _held(other, shortage.resource)
    return tuple(chosen) if left <= 0 else ()


def _delete_enemies(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    found = dict[str, PodInfo]()
    for enemy in enemies(afresh.cluster, node, afresh.pod):
        found[enemy.uid] = enemy
        if len(found) > MOST:
            return
    yield _deletions(found.values())


def _even_out(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    """Delete as many pods of the domain as are too many there."""
    deleted: dict[str, PodInfo] = {}
    for skew in skews(afresh.nodes, node, afresh.pod):
        if skew.excess is None or skew.excess > MOST:
            return
        deleted |= {other.uid: other for other in _by_importance(skew.pods)[: skew.excess]}
    yield _deletions(deleted.values())


def _delete_disk_holders(afresh: Oracle, node: NodeInfo) -> Iterator[Proposal]:
    """Delete a pod on the node that has volumes, or whoever uses the same claims elsewhere."""
    pod, nodes = afresh.pod, afresh.nodes
    users = [
        other
        for claim in pod.claims
        for row in nodes.claims.rows((pod.namespace, claim))
        for other in nodes[row].pods
        if claim in other.claims and other.namespace == pod.namespace
    ]
    if users:
        yield _deletions({other.uid: other for other in users}.values())
    holders = [other for other in node.pods if other.spec.volumes]
    yield from ((_deletion(other),) for other in _by_importance(holders)[:_FEW])


# -- of the pod ----------------------------------------------------------------------------------------------------


def _remove_gates(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    yield tuple(RemoveGate(gate.name) for gate in afresh.pod.spec.scheduling_gates)


def _tolerate(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    if node is not None:
        yield tuple(Tolerate(taint) for taint in untolerated(node.taints, afresh.pod.spec.tolerations))


def _drop_requirements(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    """Drop what the node does not meet; with no node at all, the names of nodes that are not there."""
    affinity = node_affinity(afresh.pod.spec)
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    terms = _terms(selector) if selector is not None else []
    if node is None:
        yield tuple(
            DropNodeRequirement(field) for field in dict.fromkeys(f for term in terms for f in term.match_fields)
        )
        return
    labels, spec = node.labels, afresh.pod.spec
    dropped: list[Change] = [DropNodeSelector(k, v) for k, v in spec.node_selector.items() if labels.get(k) != v]
    closest = min((unmet(term, labels, node.name) for term in terms), key=len, default=[])
    yield (*dropped, *(DropNodeRequirement(required) for required in closest))


def _drop_ports(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    if node is not None:
        yield tuple(DropHostPort.of(port) for port in taken_ports(node, afresh.pod))


def _ask_for_less(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    """Ask for what there is; or only where a node never has so much, and make room for the rest."""
    missing = _shortages(afresh, node) if node is not None else []
    never = [each for each in missing if not each.possible]
    for lowered in (missing, never):
        if node is not None and all(each.resource != "pods" for each in lowered):
            freed = (each for each in missing if each not in lowered)
            yield (*map(_lower, lowered), *(_free(node, each) for each in freed))


def _lower(shortage: Shortage) -> Change:
    amount = min(shortage.missing, shortage.asked)
    return LowerRequest(shortage.resource, amount, shortage.asked - amount)


def _drop_terms(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    affinity = afresh.pod.spec.affinity
    if affinity is None:
        return
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    wanted = near.required_during_scheduling_ignored_during_execution if near is not None else ()
    refused = apart.required_during_scheduling_ignored_during_execution if apart is not None else ()
    terms = [DropPodTerm(term, anti=False) for term in wanted] + [DropPodTerm(term, anti=True) for term in refused]
    yield from ((term,) for term in terms)
    yield tuple(terms)


def _allow_skew(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    if node is not None:
        broken = skews(afresh.nodes, node, afresh.pod)
        yield tuple(
            DropSpread(skew.constraint) if skew.excess is None else RaiseMaxSkew(skew.constraint, skew.excess)
            for skew in broken
        )


def _drop_volumes(afresh: Oracle, node: NodeInfo | None) -> Iterator[Proposal]:
    volumes = [DropVolume.of(volume) for volume in afresh.pod.spec.volumes]
    yield from ((volume,) for volume in volumes)
    yield tuple(volumes)


# -- what they share -----------------------------------------------------------------------------------------------


def _selectors(afresh: Oracle) -> Iterator[NodeSelector]:
    """List the node selectors that a node must match: that of the Args, and the pod's own."""
    args = afresh.profile.plugins["NodeAffinity"].args
    added = args.added_affinity if isinstance(args, NodeAffinityArgs) else None
    for affinity in (added, node_affinity(afresh.pod.spec)):
        if affinity is not None and affinity.required_during_scheduling_ignored_during_execution is not None:
            yield affinity.required_during_scheduling_ignored_during_execution


def _terms(selector: NodeSelector) -> list[NodeSelectorTerm]:
    return [term for term in selector.node_selector_terms if term.match_expressions or term.match_fields]


def _shortages(afresh: Oracle, node: NodeInfo) -> list[Shortage]:
    rivals = dict(afresh.cluster.nominator.nominated_pods(afresh.pod)).get(node.name, [])
    return shortages(node, afresh.pod, rivals)


def _held(pod: PodInfo, resource: str) -> int:
    return 1 if resource == "pods" else dict(pod.on_node).get(resource, 0)


def _frees(pod: PodInfo, shortage: Shortage) -> bool:
    return _held(pod, shortage.resource) >= shortage.missing


def _by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort pods, the least important first."""
    return sorted(pods, key=lambda pod: (pod.priority, pod.key))


def _deletions(pods: Iterable[PodInfo]) -> Proposal:
    return tuple(map(_deletion, _by_importance(pods)))


def _deletion(pod: PodInfo) -> Change:
    return DeletePod(pod.key, pod.uid, pod.node_name)


_OF_CLUSTER: dict[str, Callable[[Oracle, NodeInfo], Iterator[Proposal]]] = {
    "SchedulingGates": lambda afresh, node: iter(()),
    "NodeUnschedulable": _uncordon,
    "TaintToleration": _remove_taints,
    "NodeAffinity": _label,
    "NodePorts": _delete_port_holders,
    "NodeResourcesFit": _make_room,
    "InterPodAffinity": _delete_enemies,
    "PodTopologySpread": _even_out,
    "VolumeRestrictions": _delete_disk_holders,
}
_OF_POD: dict[str, Callable[[Oracle, NodeInfo | None], Iterator[Proposal]]] = {
    "SchedulingGates": _remove_gates,
    "TaintToleration": _tolerate,
    "NodeAffinity": _drop_requirements,
    "NodePorts": _drop_ports,
    "NodeResourcesFit": _ask_for_less,
    "InterPodAffinity": _drop_terms,
    "PodTopologySpread": _allow_skew,
    "VolumeRestrictions": _drop_volumes,
    "VolumeBinding": _drop_volumes,
    "VolumeZone": _drop_volumes,
    "NodeVolumeLimits": _drop_volumes,
}
