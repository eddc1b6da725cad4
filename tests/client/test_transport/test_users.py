"""Users, as API servers know them."""

from __future__ import annotations

from kframework.client.transport import ADMIN, User, service_account


def test_service_account_is_in_the_groups_of_all_and_of_its_namespace() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    assert service_account("shop", "web", "7") == User("system:serviceaccount:shop:web", groups, "7")


def test_administrator_is_a_master() -> None:
    assert "system:masters" in ADMIN.groups
