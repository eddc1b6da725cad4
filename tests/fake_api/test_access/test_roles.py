"""The roles that a cluster has from its beginning."""

from __future__ import annotations

from kframework.fake_api.access import RBAC_KINDS, ClusterRole, ClusterRoleBinding, default_roles
from kframework.objects import find_kind, kind_of


def test_each_binding_grants_an_existing_role() -> None:
    created = default_roles()
    roles = {each.metadata.name for each in created if isinstance(each, ClusterRole)}
    bound = {each.role_ref.name for each in created if isinstance(each, ClusterRoleBinding)}
    assert {"cluster-admin", "admin", "edit", "view"} <= roles
    assert bound == {"cluster-admin", "system:basic-user", "system:discovery", "system:public-info-viewer"} <= roles


def test_rbac_kinds_are_registered() -> None:
    for kind in RBAC_KINDS:
        assert find_kind("rbac.authorization.k8s.io/v1", kind.__name__) is kind_of(kind)
