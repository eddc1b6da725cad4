"""Changes that may make a pending pod schedulable: of a node, or that a pod goes; those of the pod itself stand apart.

Each knows what it does to an object, what it would be with one unit less, and how to say it in the words of kubectl.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, TypeVar

import msgspec

from kframework.objects import Node, Pod, Taint
from kframework.objects.quantity import Quantity, nano

T = TypeVar("T", bound=msgspec.Struct)

#: The taint that Kubernetes puts on a cordoned node, and takes away when it is uncordoned.
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

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
        return _with(self, amount=amount)

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
        return _with(node, spec=_with(node.spec, unschedulable=False, taints=taints))


class RemoveTaint(NodeChange, frozen=True, tag="removeTaint"):
    """Take a taint off a node."""

    taint: Taint

    @property
    def text(self) -> str:
        return f"remove the taint {written(self.taint)} from {self.node}"

    def on_node(self, node: Node) -> Node:
        taints = tuple(taint for taint in node.spec.taints if not _alike(taint, self.taint))
        return _with(node, spec=_with(node.spec, taints=taints))


class SetLabel(NodeChange, frozen=True, tag="setLabel"):
    """Give a label of a node this value."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"label {self.node} with {self.key}={self.value}"

    def on_node(self, node: Node) -> Node:
        return _with(node, metadata=_with(node.metadata, labels={**node.metadata.labels, self.key: self.value}))


class RemoveLabel(NodeChange, frozen=True, tag="removeLabel"):
    """Take a label off a node."""

    key: str

    @property
    def text(self) -> str:
        return f"remove the label {self.key} from {self.node}"

    def on_node(self, node: Node) -> Node:
        labels = {key: value for key, value in node.metadata.labels.items() if key != self.key}
        return _with(node, metadata=_with(node.metadata, labels=labels))


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
        return _with(node, status=_with(node.status, allocatable=allocatable))


class DeletePod(Change, frozen=True, tag="deletePod"):
    """Delete a pod (`namespace/name`), or let it run elsewhere."""

    pod: str
    uid: str
    node: str

    @property
    def text(self) -> str:
        return f"delete pod {self.pod} on {self.node}"


def in_words(changes: Iterable[Change]) -> str:
    """Say changes, all of which it takes, in one line."""
    parts, deleted = [], list[DeletePod]()
    for change in changes:
        if isinstance(change, DeletePod):
            deleted.append(change)
        else:
            parts.append(change.text)
    if len(deleted) > 1:
        nodes = {change.node for change in deleted}
        where = f" on {nodes.pop()}" if len(nodes) == 1 else ""
        parts.append(f"delete pods {listed([change.pod for change in deleted])}{where}")
    else:
        parts += [change.text for change in deleted]
    return _joined(parts)


def amount_of(resource: str, amount: int) -> str:
    """Write an amount of a resource as in a manifest, exactly."""
    if resource == "cpu":
        return str(Quantity(amount * 10**6))
    return str(Quantity(amount * 10**9, "BinarySI")) if _is_in_bytes(resource) else str(amount)


def _is_in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def written(taint: Taint) -> str:
    """Write a taint as `kubectl taint` does."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def is_cordon(taint: Taint) -> bool:
    """Return whether a taint is there because its node is cordoned."""
    return (taint.key, taint.effect) == (CORDON.key, CORDON.effect)


def listed(names: Sequence[str]) -> str:
    """Name a few and count the rest."""
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return _joined(names)


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _alike(one: Taint, other: Taint) -> bool:
    return (one.key, one.value, one.effect) == (other.key, other.value, other.effect)


def _with(struct: T, **fields: object) -> T:
    return msgspec.structs.replace(struct, **fields)
