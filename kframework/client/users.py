"""Who sends requests, as API servers know them: a name, and the groups that it is in."""

from __future__ import annotations

from typing import NamedTuple

AUTHENTICATED = "system:authenticated"
#: Who is in this group may do anything, whatever roles there are.
MASTERS = "system:masters"


class User(NamedTuple):
    """Who sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


#: Whom a kubeconfig of kubeadm, and one of ours, makes of its bearer.
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
#: Who says nothing of himself.
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """Return as whom API servers know a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)
