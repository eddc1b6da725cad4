"""Who may do what: everybody everything, as on a machine of one's own, or what the cluster's roles say."""

from __future__ import annotations

from typing import Protocol

import msgspec

from kframework.client.rbac import Rule
from kframework.client.request_attributes import Attributes
from kframework.client.users import MASTERS, User
from kframework.fake_api.authorization import RoleBasedAuthorizer
from kframework.fake_api.roles import RBAC_KINDS
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects.codec import encode


class Authorizer(Protocol):
    """Decides what a user may do."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403 if the user may not."""
        ...

    def rules(self, user: User, namespace: str) -> list[Rule]:
        """List what the user may do in a namespace."""
        ...


class AlwaysAllow(Authorizer):
    """Lets everybody do everything in a cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        """Take no notice of the cluster."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Let it be done."""

    def rules(self, user: User, namespace: str) -> list[Rule]:
        return [*_EVERYTHING]


_EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(verbs=("*",), non_resource_urls=("*",)))


class RoleBased(Authorizer):
    """Decides by the roles and bindings that a cluster has at the moment."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._known: RoleBasedAuthorizer | None = None
        cluster.subscribe(RBAC_KINDS, self._changed)

    def check(self, user: User, wanted: Attributes) -> None:
        self._authorizer.check(user, wanted)

    def rules(self, user: User, namespace: str) -> list[Rule]:
        if MASTERS in user.groups:
            return [*_EVERYTHING]
        return [grant.rule for grant in self._authorizer.grants(user) if grant.namespace in ("", namespace)]

    @property
    def _authorizer(self) -> RoleBasedAuthorizer:
        if self._known is None:
            objects = (each for kind in RBAC_KINDS for each in self._cluster.objects(kind))
            self._known = RoleBasedAuthorizer(msgspec.json.decode(encode(each)) for each in objects)
        return self._known

    def _changed(self, change: Change) -> None:
        self._known = None
