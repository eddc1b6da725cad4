"""The generation of an object: 1 at first, and one more on every change of its desired state.

The desired state is all but the metadata and the status. Custom resources always have a generation; of Kubernetes' own
kinds, those whose strategy in kube-apiserver sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kframework.objects import ApiObject, Kind, kind_of

_WITH_GENERATION = frozenset(
    "CronJob CustomResourceDefinition DaemonSet Deployment DeviceClass DeviceTaintRule EndpointSlice FlowSchema"
    " Ingress IngressClass Job MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration"
    " NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityLevelConfiguration ReplicaSet ReplicationController"
    " ResourceSlice StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    " ValidatingWebhookConfiguration".split()
)
_NOT_IN_SPEC = ("apiVersion", "kind", "metadata", "status")


@cache
def has_generation(kind: Kind[ApiObject]) -> bool:
    return is_custom(kind) or kind.name in _WITH_GENERATION


def is_custom(kind: Kind[ApiObject]) -> bool:
    """Return whether a kind is not one of Kubernetes' own."""
    group = kind.api_version.rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def has_same_spec(old: ApiObject, new: ApiObject) -> bool:
    return all(getattr(old, field) == getattr(new, field) for field in _spec_fields(type(old)))


@cache
def _spec_fields(kind: type[ApiObject]) -> tuple[str, ...]:
    if not has_generation(kind_of(kind)):
        return ()
    return tuple(field for field in kind.__struct_fields__ if field not in _NOT_IN_SPEC)


def is_same_spec(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Return whether two documents of an object have the same desired state, compared as JSON."""
    names = {*old, *new}.difference(_NOT_IN_SPEC)
    return all(old.get(name) == new.get(name) for name in names)
