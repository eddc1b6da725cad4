"""Role-based access control, as Kubernetes has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kframework.client.request_attributes import Attributes, PolicyRule
from kframework.client.transport import User, service_account
from kframework.errors import ClusterError
from kframework.fake_api.access import Grant, RbacRules

PODS = PolicyRule(("",), ("pods",), ("get", "list"))


ANN = User("ann", ("system:authenticated", "team"))
WEB = service_account("shop", "web")


def role(kind: str, namespace: str = "", name: str = "reader", rules: object = (PODS,)) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return head(kind) | {"metadata": metadata, "rules": msgspec.to_builtins(rules)}


def binding(kind: str, ref: str, subject: Mapping[str, str], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": "any"} | ({"namespace": namespace} if namespace else {})
    return head(kind) | {"metadata": metadata, "roleRef": {"kind": ref, "name": "reader"}, "subjects": [dict(subject)]}


def head(kind: str) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}


NAMED_ANN = {"kind": "User", "name": "ann"}


@pytest.mark.parametrize(
    ("user", "objects", "where"),
    [
        (ANN, [role("ClusterRole"), binding("ClusterRoleBinding", "ClusterRole", NAMED_ANN)], [""]),
        (ANN, [role("ClusterRole"), binding("RoleBinding", "ClusterRole", NAMED_ANN, "a")], ["a"]),
        (ANN, [role("Role", "a"), binding("RoleBinding", "Role", NAMED_ANN, "a")], ["a"]),
        # A Role is its namespace's, and a binding of what is not there grants nothing.
        (ANN, [role("Role", "b"), binding("RoleBinding", "Role", NAMED_ANN, "a")], []),
        (ANN, [role("Role", "a"), binding("RoleBinding", "ClusterRole", NAMED_ANN, "a")], []),
        (ANN, [role("Role", "a"), binding("ClusterRoleBinding", "Role", NAMED_ANN)], []),
        (ANN, [binding("ClusterRoleBinding", "ClusterRole", NAMED_ANN)], []),
        (ANN, [role("ClusterRole", rules=None), binding("ClusterRoleBinding", "ClusterRole", NAMED_ANN)], []),
        # Subjects.
        (WEB, [role("ClusterRole"), binding("ClusterRoleBinding", "ClusterRole", NAMED_ANN)], []),
        *(
            (user, [role("ClusterRole"), binding("RoleBinding", "ClusterRole", subject, "shop")], where)
            for user, subject, where in [
                (ANN, {"kind": "Group", "name": "team"}, ["shop"]),
                (ANN, {"kind": "Group", "name": "ann"}, []),
                (WEB, {"kind": "ServiceAccount", "name": "web", "namespace": "shop"}, ["shop"]),
                (WEB, {"kind": "ServiceAccount", "name": "web"}, ["shop"]),
                (WEB, {"kind": "ServiceAccount", "name": "web", "namespace": "other"}, []),
                (WEB, {"kind": "User", "name": "system:serviceaccount:shop:web"}, ["shop"]),
                (WEB, {"kind": "Group", "name": "system:serviceaccounts:shop"}, ["shop"]),
                (WEB, {"kind": "Group", "name": "system:serviceaccounts:other"}, []),
                (WEB, {"kind": "Alien", "name": "web"}, []),
            ]
        ),
    ],
)
def test_bindings_grant_rules(user: User, objects: list[dict[str, Any]], where: list[str]) -> None:
    others = [{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "authorization.openshift.io/v1", "kind": "Role"}]
    grants = list(RbacRules([*others, *objects]).grants(user))
    assert grants == [Grant(namespace, PODS) for namespace in where]


@pytest.mark.parametrize(
    ("namespace", "wanted", "allowed"),
    [
        ("", Attributes("list", "", "pods"), True),
        ("", Attributes("list", "", "pods", "a"), True),
        ("a", Attributes("list", "", "pods", "a"), True),
        ("a", Attributes("list", "", "pods", "b"), False),
        ("a", Attributes("list", "", "pods"), False),
    ],
)
def test_grant_holds_in_its_namespace(namespace: str, wanted: Attributes, allowed: bool) -> None:
    assert Grant(namespace, PODS).allows(wanted) is allowed


OF_THE_LEASE = (
    'leases.coordination.k8s.io "mine" is forbidden: User "system:serviceaccount:shop:web" cannot get resource '
    '"leases" in API group "coordination.k8s.io" in the namespace "shop"'
)
OF_THE_BINDING = (
    'pods "web" is forbidden: User "ann" cannot create resource "pods/binding" in API group "" in the namespace "a"'
)


@pytest.mark.parametrize(
    ("user", "wanted", "message"),
    [
        (WEB, Attributes("get", "coordination.k8s.io", "leases", "shop", "mine"), OF_THE_LEASE),
        (
            ANN,
            Attributes("list", "", "nodes"),
            'nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (ANN, Attributes("create", "", "pods/binding", "a", "web"), OF_THE_BINDING),
        (User("<b>&"), Attributes("get", path="/"), 'forbidden: User "&lt;b&gt;&amp;" cannot get path "/"'),
    ],
)
def test_denial_has_an_api_servers_text(user: User, wanted: Attributes, message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        RbacRules([]).check(user, wanted)
    assert (refused.value.status, refused.value.reason, refused.value.message) == (403, "Forbidden", message)


def test_granted_request_is_allowed() -> None:
    objects = [role("ClusterRole"), binding("ClusterRoleBinding", "ClusterRole", NAMED_ANN)]
    RbacRules(objects).check(ANN, Attributes("list", "", "pods"))
