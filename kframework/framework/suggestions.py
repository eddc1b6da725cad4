"""Suggestions: changes of single objects that may let a pod be scheduled, and those that several plugins share.

A suggestion carries its own patch, so a plugin can suggest specific changes without a new class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.objects import Container, DeviceTaint, NodeSpec, PodSpec, Resources, Taint, Toleration, Volume
from kframework.objects.quantity import Quantity, nano
from kframework.objects.requests import fit_requests
from kframework.objects.taints import is_cordon

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

#: The largest number of changes that are tried together.
MAX_SUGGESTIONS = 32

#: Added to an estimate where no change of the cluster is known to help; the rest still orders the nodes.
UNFIXABLE = 1000.0

#: The most pods that `delete_any` suggests to delete.
_MAX_DELETIONS = 16

#: The most names in a line; the others are counted.
_MAX_NAMES = 3

#: Returns an object as it is after a change, or None to delete it.
Patch = Callable[[Any], Any]


class Target(NamedTuple):
    """The object that a suggestion changes: a node, a claim to devices, another pod, or (no name) the pending pod."""

    claim: str = ""
    pod: str = ""
    uid: str = ""
    node: str = ""


PENDING_POD = Target()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change of one object.

    Attributes:
        text: The change, worded as a request to the administrator.
        target: The object to change. Claims and pods are named `namespace/name`.
        patch: Returns the object after the change, or None to delete it.
        kind: The kind of change, such as `setLabel`. Explanations alternate between kinds.
        arguments: Additional fields in JSON output, besides kind and target.
        examples: Deletions of pods with the same effect, if all are made.
    """

    text: str
    target: Target
    patch: Patch = field(compare=False, repr=False)
    kind: str
    arguments: Mapping[str, object] = field(default_factory=dict, hash=False)
    examples: tuple[Suggestion, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the change as JSON shows it."""
        target = {name: value for name, value in self.target._asdict().items() if value}
        examples = {"examples": [each.target.pod for each in self.examples]} if self.examples else {}
        arguments: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self.arguments))
        return {"kind": self.kind, **target, **arguments, **examples}


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountSuggestion(Suggestion):
    """A change by an amount; explanations look for the smallest that suffices."""

    amount: int
    with_amount: Callable[[int], AmountSuggestion] = field(compare=False, repr=False)


#: Changes that are made together.
Proposal = tuple[Suggestion, ...]

#: The suggestions of a plugin, best first.
Suggestions = Iterable[Suggestion | Proposal]

#: The number of changes needed, for each row; a small change is a fraction of one.
ChangeEstimates = NDArray[np.int64] | NDArray[np.float64]


def patch_field(path: str, change: Callable[[Any], object]) -> Patch:
    """Return a patch of the field at a dotted path; an object is unchanged if part of the path is None."""
    name, _, rest = path.partition(".")
    inner = patch_field(rest, change) if rest else change

    def patch(obj: Any) -> Any:
        value = getattr(obj, name)
        return obj if value is None else replace(obj, **{name: inner(value)})

    return patch


def remove_item(path: str, item: object) -> Patch:
    """Return a patch that takes an item out of a list, or a key out of a mapping."""

    def remove(items: Any) -> object:
        if isinstance(items, Mapping):
            return {key: value for key, value in items.items() if key != item}
        return tuple(each for each in items if each != item)

    return patch_field(path, remove)


def suggest_each_and_all(suggestions: Iterable[Suggestion]) -> Suggestions:
    """Suggest each of these changes alone, then all together."""
    changes = tuple(suggestions)
    return (*changes, changes)


def uncordon(node: str) -> Suggestion:
    """Suggest to make a cordoned node schedulable again."""

    def patch(spec: NodeSpec) -> NodeSpec:
        return replace(spec, unschedulable=False, taints=tuple(each for each in spec.taints if not is_cordon(each)))

    return Suggestion(f"uncordon {node}", Target(node=node), patch_field("spec", patch), "uncordon")


def remove_taint(node: str, taint: Taint) -> Suggestion:
    """Suggest to take a taint off a node."""
    removed = format_taint(taint)
    patch = patch_field("spec.taints", lambda taints: tuple(each for each in taints if format_taint(each) != removed))
    text = f"remove the taint {removed} from {node}"
    return Suggestion(text, Target(node=node), patch, "removeTaint", {"taint": taint})


def set_label(node: str, key: str, value: str) -> Suggestion:
    """Suggest setting a label of a node."""
    patch = patch_field("metadata.labels", lambda labels: {**labels, key: value})
    text = f"label {node} with {key}={value}"
    return Suggestion(text, Target(node=node), patch, "setLabel", {"key": key, "value": value})


def remove_label(node: str, key: str) -> Suggestion:
    """Suggest to take a label off a node."""
    text = f"remove the label {key} from {node}"
    return Suggestion(text, Target(node=node), remove_item("metadata.labels", key), "removeLabel", {"key": key})


def free_resource(node: str, resource: str, amount: int, examples: Sequence[PodInfo] = ()) -> AmountSuggestion:
    """Suggest freeing an amount of a resource: milli-CPU of `cpu`, number of `pods`, units (bytes) of others.

    `examples` are pods on the node: if all are deleted, the pending pod fits.
    """
    more = amount * (10**6 if resource == "cpu" else 10**9)

    def patch(allocatable: Mapping[str, Any]) -> Mapping[str, object]:
        return {**allocatable, resource: str(Quantity(nano(allocatable.get(resource, 0)) + more))}

    return AmountSuggestion(
        f"free {_format_room(resource, amount)} on {node}",
        Target(node=node),
        patch_field("status.allocatable", patch),  # more allocatable has the same effect
        "freeResource",
        {"resource": resource, "amount": amount, "examples": []},
        tuple(map(delete_pod, examples)),
        amount=amount,
        with_amount=lambda less: free_resource(node, resource, less, examples),
    )


def delete_pod(pod: PodInfo) -> Suggestion:
    """Suggest deleting a pod, or moving it elsewhere."""
    target = Target(pod=pod.key, uid=pod.uid, node=pod.node_name)
    return Suggestion(f"delete pod {pod.key} on {pod.node_name}", target, lambda deleted: None, "deletePod")


def delete_all(pods: Iterable[PodInfo]) -> Proposal:
    """Suggest to delete all these pods together."""
    return tuple(map(delete_pod, sort_by_importance(pods)))


def delete_any(pods: Iterable[PodInfo]) -> Iterator[Suggestion]:
    """Suggest to delete one of these pods: a few, the least important first."""
    return map(delete_pod, sort_by_importance(pods)[:_MAX_DELETIONS])


def sort_by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort pods, the least important first."""
    return sorted(pods, key=lambda pod: (pod.priority, pod.key))


def tolerate(taint: Taint) -> Suggestion:
    """Suggest that the pod tolerate a taint."""
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    patch = patch_field("spec.tolerations", lambda tolerations: (*tolerations, toleration))
    text = f"let the pod tolerate {format_taint(taint)}"
    return Suggestion(text, PENDING_POD, patch, "tolerate", {"taint": taint})


def drop_item(kind: str, text: str, path: str, item: object, **arguments: object) -> Suggestion:
    """Suggest that the pod do without an item of a list, or a key of a mapping."""
    return Suggestion(text, PENDING_POD, remove_item(path, item), kind, arguments)


def drop_volume(volume: Volume) -> Suggestion:
    """Suggest that the pod do without a volume."""
    claim = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim is not None else ""
    text = f"drop the pod's volume {volume.name}{f' (claim {claim})' if claim else ''}"
    return drop_item("dropVolume", text, "spec.volumes", volume, volume=volume.name, claim=claim)


def drop_volumes(pod: PodInfo) -> Suggestions:
    """Suggest that the pod do without one of its volumes, or without all."""
    return suggest_each_and_all(map(drop_volume, pod.spec.volumes))


def lower_request(resource: str, amount: int, to: int) -> AmountSuggestion:
    """Suggest that the pod request less of a resource: milli-CPU of `cpu`, whole units (bytes) of all else."""
    before, after = format_amount(resource, to + amount), format_amount(resource, to)
    lowered = f"lower the pod's {resource} request from {before} to {after}"
    return AmountSuggestion(
        lowered if to else f"drop the pod's request for {resource}",
        PENDING_POD,
        patch_field("spec", lambda spec: _lower_requests(spec, resource, to)),
        "lowerRequest",
        {"resource": resource, "amount": amount, "to": to},
        amount=amount,
        with_amount=lambda less: lower_request(resource, less, to + amount - less),
    )


def _lower_requests(spec: PodSpec, resource: str, to: int) -> PodSpec:
    """Lower a pod's request of a resource: the pod-level one if it exists, else those of the largest containers."""
    unit = 10**6 if resource == "cpu" else 10**9
    target = max(to * unit - nano(spec.overhead.get(resource, 0)), 0)
    if spec.resources is not None and resource in spec.resources.requests:
        return replace(spec, resources=_with_request(spec.resources, resource, target))
    for name in ("containers", "init_containers"):
        containers: list[Container] = list(getattr(spec, name))
        for index in sorted(range(len(containers)), key=lambda index: -_container_request(containers[index], resource)):
            excess = fit_requests(spec).get(resource, 0) * unit - to * unit
            if excess <= 0:
                return spec
            container = containers[index]
            less = max(_container_request(container, resource) - excess, 0)
            containers[index] = replace(container, resources=_with_request(container.resources, resource, less))
            spec = replace(spec, **{name: tuple(containers)})
    return spec


def _container_request(container: Container, resource: str) -> int:
    return nano(container.resources.requests.get(resource, 0))


def _with_request(resources: Resources, resource: str, amount: int) -> Resources:
    """Set an existing request in nanos; a limit that must equal the request follows."""
    lowered = {resource: str(Quantity(amount))}
    requests = {**resources.requests, **lowered} if resource in resources.requests else resources.requests
    bound_to_limit = resource in resources.limits and resource not in ("cpu", "memory", "ephemeral-storage")
    return Resources(requests=requests, limits={**resources.limits, **lowered} if bound_to_limit else resources.limits)


def format_amount(resource: str, amount: int) -> str:
    """Format an amount of a resource as in a manifest, exactly."""
    if resource == "cpu":
        return str(Quantity(amount * 10**6))
    return str(Quantity(amount * 10**9, "BinarySI")) if _is_in_bytes(resource) else str(amount)


def _format_room(resource: str, amount: int) -> str:
    if resource == "pods":
        return "room for one more pod" if amount == 1 else f"room for {amount} more pods"
    text = format_amount(resource, amount)
    if _is_in_bytes(resource) and text.isdigit():
        return f"{text} {'byte' if amount == 1 else 'bytes'} of {resource}"
    return f"{text} {resource}"


def _is_in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def format_taint(taint: Taint | DeviceTaint) -> str:
    """Format a taint of a node or a device as `kubectl taint` does."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def format_names(names: Sequence[str]) -> str:
    """List a few names and count the rest."""
    if len(names) > _MAX_NAMES:
        return f"{', '.join(names[: _MAX_NAMES - 1])} and {len(names) - _MAX_NAMES + 1} more"
    return join_clauses(names)


def join_clauses(parts: Sequence[str]) -> str:
    """Join parts with commas, the last with an `and`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
