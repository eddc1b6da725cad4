"""Namespaces and the owners of pods, by whose selectors pods are spread (core/v1 and apps/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiStruct, LabelSelector, ObjectMeta

__all__ = [
    "Namespace",
    "ReplicaSet",
    "ReplicationController",
    "ReplicationControllerSpec",
    "Service",
    "ServiceSpec",
    "StatefulSet",
    "WorkloadSpec",
]


class Namespace(ApiStruct, frozen=True, kw_only=True):
    """A namespace; a scheduler reads its labels."""

    metadata: ObjectMeta = ObjectMeta()


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a service; no selector, unlike an empty one, selects nothing."""

    selector: dict[str, str] | None = None


class Service(ApiStruct, frozen=True, kw_only=True):
    """A set of pods that serve together."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replication controller."""

    replicas: int | None = None
    selector: dict[str, str] = msgspec.field(default_factory=dict)


class ReplicationController(ApiStruct, frozen=True, kw_only=True):
    """A number of equal pods, chosen by plain labels."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replica set or stateful set."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiStruct, frozen=True, kw_only=True):
    """A number of equal pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(ApiStruct, frozen=True, kw_only=True):
    """A number of pods with identities of their own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
