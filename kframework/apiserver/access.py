"""Who may do what: everybody everything, as on a machine of one's own, or what the cluster's roles say."""

from __future__ import annotations

from typing import Protocol

import msgspec

from kframework.apiserver.authorization import RoleBasedAuthorizer
from kframework.apiserver.roles import RBAC_KINDS
from kframework.cluster.kind_store import Change
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.request_attributes import Attributes
from kframework.cluster.users import User
from kframework.objects.codec import encode


class Authorizer(Protocol):
    """Decides what a user may do."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403 if the user may not."""
        ...


class AlwaysAllow(Authorizer):
    """Lets everybody do everything in a cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        """Take no notice of the cluster."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Let it be done."""


class RoleBased(Authorizer):
    """Decides by the roles and bindings that a cluster has at the moment."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._known: RoleBasedAuthorizer | None = None
        cluster.subscribe(RBAC_KINDS, self._changed)

    def check(self, user: User, wanted: Attributes) -> None:
        if self._known is None:
            objects = (each for kind in RBAC_KINDS for each in self._cluster.objects(kind))
            self._known = RoleBasedAuthorizer(msgspec.json.decode(encode(each)) for each in objects)
        self._known.check(user, wanted)

    def _changed(self, change: Change) -> None:
        self._known = None
