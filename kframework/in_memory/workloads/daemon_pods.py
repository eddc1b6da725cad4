"""The pods of daemon sets: the node that each is for, what it tolerates, and which nodes want one; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from kframework.objects import DaemonSet, Node, Pod, convert, kind_of
from kframework.objects.node_selectors import pinned_nodes, required_node_affinity
from kframework.objects.taints import first_untolerated

_NODE = "node.kubernetes.io"
#: What daemon pods tolerate whatever their template says, and one more on the network of the host.
_TOLERATIONS: tuple[dict[str, object], ...] = tuple(
    {"key": f"{_NODE}/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_OF_HOST: dict[str, object] = {"key": f"{_NODE}/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


class Suitability(NamedTuple):
    """Whether a node wants a pod, and whether one that is there may stay."""

    wants: bool
    keeps: bool


def suitability(owner: DaemonSet) -> Callable[[Node], Suitability]:
    """Compile whether nodes want a pod of a daemon set: by name, selector, affinity and taints."""
    spec = convert({"spec": with_tolerations(owner.spec.template.spec)}, kind_of(Pod)).spec
    fits = required_node_affinity(spec)

    def ask(node: Node) -> Suitability:
        labels, name = node.metadata.labels, node.metadata.name
        if spec.node_name not in ("", name) or (fits is not None and not fits(labels, name)):
            return Suitability(False, False)
        wants = first_untolerated(node.spec.taints, spec.tolerations, ("NoSchedule", "NoExecute")) is None
        return Suitability(wants, first_untolerated(node.spec.taints, spec.tolerations, ("NoExecute",)) is None)

    return ask


def with_tolerations(spec: Mapping[str, object]) -> dict[str, object]:
    """Return the spec of a pod that tolerates what befalls nodes."""
    given = spec.get("tolerations")
    added = (*_TOLERATIONS, _OF_HOST) if spec.get("hostNetwork") else _TOLERATIONS
    rest = [each for each in added if each not in given] if isinstance(given, list) else [*added]
    return {**spec, "tolerations": [*(given if isinstance(given, list) else ()), *rest]}


def pinned(spec: Mapping[str, object], node_name: str) -> dict[str, object]:
    """Return the spec of a pod that fits one node alone, by its name, in the place of what its template requires."""
    affinity = _mapping(spec, "affinity")
    node_affinity = _mapping(affinity, "nodeAffinity")
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def node_of(pod: Pod) -> str:
    """Return the name of the node that a daemon pod is on or for; "" if there is none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    return next(iter(pinned_nodes(pod.spec) or ()), "")


def _mapping(data: Mapping[str, object], field: str) -> dict[str, object]:
    found = data.get(field)
    return dict(cast("dict[str, object]", found)) if isinstance(found, dict) else {}
