"""Everybody may do everything, or what the roles of the cluster say at the moment."""

from __future__ import annotations

import pytest

from kframework.client.request_attributes import Attributes
from kframework.client.transport import ADMIN, ANONYMOUS, AUTHENTICATED, User
from kframework.errors import ClusterError
from kframework.fake_api.access import (
    AlwaysAllow,
    ClusterRole,
    RbacAuthorizer,
    RbacSubject,
    RoleBinding,
    RoleRef,
    default_roles,
)
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ObjectMeta
from kframework.testing import StubClock

ANN = User("ann", ("dev", AUTHENTICATED))
GET_POD = Attributes("get", "", "pods", "shop", "web")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(StubClock(), default_roles())


def bound(role: str) -> RoleBinding:
    subjects = (RbacSubject(kind="User", name="ann"),)
    metadata = ObjectMeta(name="ann", namespace="shop")
    return RoleBinding(metadata=metadata, role_ref=RoleRef(kind="ClusterRole", name=role), subjects=subjects)


def test_always_allow_allows_everything(cluster: MemoryCluster) -> None:
    AlwaysAllow(cluster).check(ANONYMOUS, GET_POD)


def may(authorizer: RbacAuthorizer, user: User, wanted: Attributes) -> bool:
    try:
        authorizer.check(user, wanted)
    except ClusterError as refused:
        assert refused.status == 403
        return False
    return True


@pytest.mark.parametrize(
    ("role", "wanted", "allowed"),
    [
        ("view", GET_POD, True),
        ("view", GET_POD._replace(verb="delete"), False),
        ("view", GET_POD._replace(namespace="other"), False),
        ("view", Attributes("get", "", "secrets", "shop"), False),
        ("edit", GET_POD._replace(verb="delete"), True),
        ("edit", Attributes("get", "", "secrets", "shop"), True),
        ("edit", Attributes("create", "rbac.authorization.k8s.io", "rolebindings", "shop"), False),
        ("admin", Attributes("create", "rbac.authorization.k8s.io", "rolebindings", "shop"), True),
        ("cluster-admin", Attributes("create", "example.com", "widgets", "shop"), True),
        ("cluster-admin", Attributes("create", "example.com", "widgets"), False),
    ],
)
def test_default_roles_grant_their_rules(cluster: MemoryCluster, role: str, wanted: Attributes, allowed: bool) -> None:
    authorizer = RbacAuthorizer(cluster)
    cluster.add(bound(role))
    assert may(authorizer, ANN, wanted) is allowed


@pytest.mark.parametrize(
    ("user", "wanted", "allowed"),
    [
        (ADMIN, Attributes("delete", "", "nodes"), True),
        (ANN, Attributes("get", path="/apis/apps/v1"), True),
        (ANN, Attributes("create", "authorization.k8s.io", "selfsubjectaccessreviews"), True),
        (ANN, GET_POD, False),
        (ANONYMOUS, Attributes("get", path="/version"), True),
        (ANONYMOUS, Attributes("get", path="/readyz"), True),
        (ANONYMOUS, Attributes("get", path="/apis/apps/v1"), False),
        (ANONYMOUS, GET_POD, False),
    ],
)
def test_unbound_user_has_basic_rights(cluster: MemoryCluster, user: User, wanted: Attributes, allowed: bool) -> None:
    assert may(RbacAuthorizer(cluster), user, wanted) is allowed


def test_changed_role_takes_effect(cluster: MemoryCluster) -> None:
    authorizer = RbacAuthorizer(cluster)
    assert not may(authorizer, ANN, GET_POD)
    cluster.add(bound("view"))
    assert may(authorizer, ANN, GET_POD)
    cluster.merge(ClusterRole, "view", {"rules": []})
    assert not may(authorizer, ANN, GET_POD)
    cluster.remove(RoleBinding, "ann", "shop")
    assert not may(authorizer, ANN, GET_POD)
