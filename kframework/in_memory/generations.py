"""The generation of an object: 1 at first, and one more on every change of its wanted state.

The wanted state is all but the metadata and the status. Of Kubernetes' own kinds those have a generation whose strategy
in kube-apiserver sets it; custom resources always have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kframework.objects import ApiObject, Kind, kind_of

_HAVE_ONE = frozenset(
    "CronJob CustomResourceDefinition DaemonSet Deployment DeviceClass DeviceTaintRule EndpointSlice FlowSchema"
    " Ingress IngressClass Job MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration"
    " NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityLevelConfiguration ReplicaSet ReplicationController"
    " ResourceSlice StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    " ValidatingWebhookConfiguration".split()
)
_NOT_WANTED = ("apiVersion", "kind", "metadata", "status")


@cache
def has_generation(kind: Kind[ApiObject]) -> bool:
    """Return whether objects of a kind have a generation."""
    return is_custom(kind) or kind.name in _HAVE_ONE


def is_custom(kind: Kind[ApiObject]) -> bool:
    """Return whether a kind is none of Kubernetes' own."""
    group = kind.api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def wants_the_same(old: ApiObject, new: ApiObject) -> bool:
    """Return whether two states of an object want the same."""
    return all(getattr(old, field) == getattr(new, field) for field in _wanted(type(old)))


@cache
def _wanted(kind: type[ApiObject]) -> tuple[str, ...]:
    if not has_generation(kind_of(kind)):
        return ()
    return tuple(field for field in kind.__struct_fields__ if field not in _NOT_WANTED)


def is_equivalent(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether two documents of an object want the same, compared as JSON."""
    names = {*old, *new}.difference(_NOT_WANTED)
    return all(old.get(name) == new.get(name) for name in names)
