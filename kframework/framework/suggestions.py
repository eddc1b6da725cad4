"""What a plugin may suggest to a pod that it rejects: to change a node, or that a pod goes.

Changes of the pending pod itself stand in `pod_suggestions`. Each knows what it makes of an object, what it would be
with one unit less, and how to say it in the words of kubectl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.objects import DeviceTaint, Node, Pod, Taint
from kframework.objects.quantity import Quantity, nano
from kframework.objects.taints import is_cordon

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

#: More changes than that are no help, so nobody needs to suggest them.
MOST = 32

#: Added to an effort where no change of the cluster is known to help; the rest still tells which node is nearer.
BEYOND_HELP = 1000.0

#: So many pods are suggested to be deleted one by one.
_FEW = 16

#: So many pods are named in a line; the others are counted.
_NAMED = 3


class Change(msgspec.Struct, frozen=True, tag_field="kind", rename="camel"):
    """The root of all changes; in JSON `kind` tells them apart."""

    @property
    def text(self) -> str:
        """The change as a request to whoever can make it."""
        raise NotImplementedError

    @property
    def amount(self) -> int:
        """How many units of something it changes; 1 where they cannot be counted."""
        return 1

    def with_amount(self, amount: int) -> Self:
        """Return the change by another number of units, where they can be counted."""
        return replace(self, amount=amount)

    def less(self) -> Self | None:
        """Return the change with one unit less; None if that is no change."""
        return self.with_amount(self.amount - 1) if self.amount > 1 else None


class NodeChange(Change, frozen=True):
    """A change of one node."""

    node: str

    def on_node(self, node: Node) -> Node:
        """Return the node as it is after the change."""
        raise NotImplementedError


class PodChange(Change, frozen=True):
    """A change of the pending pod itself, or of the template it is made from."""

    def on_pod(self, pod: Pod) -> Pod:
        """Return the pod as it is after the change."""
        raise NotImplementedError


class Uncordon(NodeChange, frozen=True, tag="uncordon"):
    """Make a cordoned node schedulable again."""

    @property
    def text(self) -> str:
        return f"uncordon {self.node}"

    def on_node(self, node: Node) -> Node:
        taints = tuple(taint for taint in node.spec.taints if not is_cordon(taint))
        return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


class RemoveTaint(NodeChange, frozen=True, tag="removeTaint"):
    """Take a taint off a node."""

    taint: Taint

    @property
    def text(self) -> str:
        return f"remove the taint {written(self.taint)} from {self.node}"

    def on_node(self, node: Node) -> Node:
        taints = tuple(taint for taint in node.spec.taints if not _alike(taint, self.taint))
        return replace(node, spec=replace(node.spec, taints=taints))


class SetLabel(NodeChange, frozen=True, tag="setLabel"):
    """Give a label of a node this value."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"label {self.node} with {self.key}={self.value}"

    def on_node(self, node: Node) -> Node:
        return replace(node, metadata=replace(node.metadata, labels={**node.metadata.labels, self.key: self.value}))


class RemoveLabel(NodeChange, frozen=True, tag="removeLabel"):
    """Take a label off a node."""

    key: str

    @property
    def text(self) -> str:
        return f"remove the label {self.key} from {self.node}"

    def on_node(self, node: Node) -> Node:
        labels = {key: value for key, value in node.metadata.labels.items() if key != self.key}
        return replace(node, metadata=replace(node.metadata, labels=labels))


class FreeResource(NodeChange, frozen=True, tag="freeResource"):
    """Free so much of a resource on a node: milli-CPU of `cpu`, their number of `pods`, units (bytes) of all else.

    `examples` are pods (`namespace/name`) that need not stay for that: were they deleted, the pod would be schedulable.
    """

    resource: str
    amount: int
    examples: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        examples = f" (e.g. delete {listed(self.examples)})" if self.examples else ""
        return f"free {self._what} on {self.node}{examples}"

    @property
    def _what(self) -> str:
        if self.resource == "pods":
            return "room for one more pod" if self.amount == 1 else f"room for {self.amount} more pods"
        amount = amount_of(self.resource, self.amount)
        if _is_in_bytes(self.resource) and amount.isdigit():
            return f"{amount} {'byte' if self.amount == 1 else 'bytes'} of {self.resource}"
        return f"{amount} {self.resource}"

    def on_node(self, node: Node) -> Node:
        """Return the node offering so much more, which comes to the same."""
        allocatable = dict(node.status.allocatable)
        more = self.amount * (10**6 if self.resource == "cpu" else 10**9)
        allocatable[self.resource] = str(Quantity(nano(allocatable.get(self.resource, 0)) + more))
        return replace(node, status=replace(node.status, allocatable=allocatable))


class DeletePod(Change, frozen=True, tag="deletePod"):
    """Delete a pod (`namespace/name`), or let it run elsewhere."""

    pod: str
    uid: str
    node: str

    @property
    def text(self) -> str:
        return f"delete pod {self.pod} on {self.node}"

    @classmethod
    def of(cls, pod: PodInfo) -> DeletePod:
        """Make the change for a pod on a node."""
        return cls(pod.key, pod.uid, pod.node_name)


#: One change, or several that are made together.
Suggestion = Change | tuple[Change, ...]
Suggestions = Iterable[Suggestion]

#: How many changes it takes, one number per row; a small change is a fraction of one.
Efforts = NDArray[np.int64] | NDArray[np.float64]


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort pods, the least important first."""
    return sorted(pods, key=lambda pod: (pod.priority, pod.key))


def delete_all(pods: Iterable[PodInfo]) -> Suggestion:
    """Suggest to delete all these pods."""
    return tuple(map(DeletePod.of, by_importance(pods)))


def delete_any(pods: Iterable[PodInfo]) -> Iterator[Suggestion]:
    """Suggest to delete one pod or another of these, the least important first; a few are tried."""
    return map(DeletePod.of, by_importance(pods)[:_FEW])


# -- words ---------------------------------------------------------------------------------------------------------


def amount_of(resource: str, amount: int) -> str:
    """Write an amount of a resource as in a manifest, exactly."""
    if resource == "cpu":
        return str(Quantity(amount * 10**6))
    return str(Quantity(amount * 10**9, "BinarySI")) if _is_in_bytes(resource) else str(amount)


def _is_in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def written(taint: Taint | DeviceTaint) -> str:
    """Write a taint, of a node or of a device, as `kubectl taint` does."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def listed(names: Sequence[str]) -> str:
    """Name a few and count the rest."""
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return joined(names)


def joined(parts: Sequence[str]) -> str:
    """Join parts with commas, the last with an `and`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _alike(one: Taint, other: Taint) -> bool:
    return (one.key, one.value, one.effect) == (other.key, other.value, other.effect)
