"""Objects that choose pods, and what a pod says of its owner, in few words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.objects import (
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
    WorkloadSpec,
)

__all__ = ["owner", "replica_set", "replication_controller", "selector", "service", "stateful_set"]

X = ObjectMeta(name="x", namespace="default")


def selector(stated: object) -> LabelSelector | None:
    """Read a selector as a manifest states it, which may be an invalid one."""
    return None if stated is None else msgspec.convert(stated, LabelSelector)


def service(chosen: Mapping[str, str] | None, metadata: ObjectMeta = X) -> Service:
    return Service(metadata=metadata, spec=ServiceSpec(selector=None if chosen is None else dict(chosen)))


def replication_controller(chosen: Mapping[str, str], metadata: ObjectMeta = X) -> ReplicationController:
    return ReplicationController(metadata=metadata, spec=ReplicationControllerSpec(selector=dict(chosen)))


def replica_set(stated: object, metadata: ObjectMeta = X) -> ReplicaSet:
    return ReplicaSet(metadata=metadata, spec=WorkloadSpec(selector=selector(stated)))


def stateful_set(stated: object, metadata: ObjectMeta = X) -> StatefulSet:
    return StatefulSet(metadata=metadata, spec=StatefulSetSpec(selector=selector(stated)))


def owner(
    kind: str = "ReplicaSet", api_version: str = "apps/v1", *, name: str = "x", controller: bool = True
) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid="1", controller=controller)
