"""Namespaces and the owners of pods, by whose selectors pods are spread (core/v1 and apps/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, LabelSelector


class Namespace(ApiObject, frozen=True, kw_only=True):
    """A namespace; a scheduler reads its labels."""


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a service; no selector, unlike an empty one, selects nothing."""

    selector: dict[str, str] | None = None


class Service(ApiObject, frozen=True, kw_only=True):
    """A set of pods that serve together."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replication controller."""

    replicas: int | None = None
    selector: dict[str, str] = msgspec.field(default_factory=dict)


class ReplicationController(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods, chosen by plain labels."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replica set or stateful set."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(ApiObject, frozen=True, kw_only=True):
    """A number of pods with identities of their own."""

    spec: WorkloadSpec = WorkloadSpec()
