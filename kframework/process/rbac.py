"""The minimal RBAC permissions that a scheduler with a configuration needs in its cluster.

They follow from what is enabled: the kinds and verbs in the `watches` of plugins, of the engine and of companions, the
kinds in the `lists` of plugins, the Lease if there is an election, plus what every scheduler writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import get_args

import msgspec

from kframework.client.request_attributes import RBAC_GROUP, PolicyRule
from kframework.config.models import LeaderElectionSettings
from kframework.core.runtime.profiles import Profiles
from kframework.framework.plugin import Verb, Watch
from kframework.objects import ApiObject, CoreEvent, Event, Kind, Lease, Node, Pod, ResourceClaim, kind_of

#: The verbs to watch a kind.
_WATCH_VERBS = ("list", "watch")

#: The order in which verbs are written.
_VERBS = ("get", *_WATCH_VERBS, *(verb for verb in get_args(Verb) if verb != "get"))


def cluster_rules(profiles: Profiles, watches: Iterable[Watch] = (), reads: Iterable[Watch] = ()) -> list[PolicyRule]:
    """Return the permissions that the scheduler needs in all namespaces.

    `watches` are those not from plugins, `reads` are objects read one by one, without a watch.
    """
    granted: dict[tuple[str, str], set[str]] = defaultdict(set)
    one_by_one = ((kind_of(read.kind), "", ("get", *read.verbs)) for read in reads)
    for kind, subresource, verbs in chain(_needs(profiles, watches), one_by_one):
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        granted[_group(kind), resource].update(verbs)
    # One rule for all resources of a group with the same verbs.
    resources_by_verbs: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource), allowed in sorted(granted.items()):
        resources_by_verbs[group, tuple(sorted(allowed, key=_VERBS.index))].append(resource)
    return [PolicyRule((group,), tuple(resources), verbs) for (group, verbs), resources in resources_by_verbs.items()]


def _needs(profiles: Profiles, watches: Iterable[Watch]) -> Iterator[tuple[Kind[ApiObject], str, Iterable[str]]]:
    yield kind_of(Pod), "binding", ("create",)
    yield kind_of(Pod), "status", ("patch",)
    yield kind_of(Pod), "", ("get", *_WATCH_VERBS)  # to learn what became of a binding or an eviction
    yield kind_of(Node), "", _WATCH_VERBS
    yield kind_of(Event), "", ("create", "patch")  # a series grows by patches
    for _, plugin in profiles.plugins():
        yield from ((kind_of(listed), "", ("list",)) for listed in plugin.lists)
    for watch in (*(watch for _, watch in profiles.watches()), *watches):
        kind = kind_of(watch.kind)
        yield kind, "", [*_WATCH_VERBS, *(verb for verb in watch.verbs if verb != "patch_status")]
        if "patch_status" in watch.verbs:
            yield kind, "status", ("patch",)
            if watch.kind is ResourceClaim:
                # A claim's allocation and reservation are in its status, which needs its own permission.
                yield kind, "binding", ("patch",)


def lease_rules(election: LeaderElectionSettings) -> list[PolicyRule]:
    """Return the permissions of leader election in the namespace of its Lease; empty without election."""
    if not election.leader_elect:
        return []
    lease, event = kind_of(Lease), kind_of(CoreEvent)
    return [
        PolicyRule((_group(event),), (event.plural,), ("create",)),
        PolicyRule((_group(lease),), (lease.plural,), ("create",)),  # creation cannot be limited by name
        PolicyRule((_group(lease),), (lease.plural,), ("get", "watch", "update"), (election.resource_name,)),
    ]


def review_rules() -> list[PolicyRule]:
    """Return the permissions to delegate authentication and authorization to the API server."""
    return [
        PolicyRule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
        PolicyRule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
    ]


def manifests(
    profiles: Profiles,
    election: LeaderElectionSettings,
    *,
    watches: Iterable[Watch] = (),
    reads: Iterable[Watch] = (),
    reviews: Iterable[PolicyRule] = (),
    name: str,
    namespace: str,
) -> list[dict[str, object]]:
    """Return the objects that grant the permissions to this ServiceAccount; they have its name.

    `watches` and `reads` are as for `cluster_rules`; `reviews` are `review_rules` if the endpoints delegate
    authorization.
    """
    account = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return [
        *_bound_role("ClusterRole", {"name": name}, [*cluster_rules(profiles, watches, reads), *reviews], account),
        *_bound_role("Role", {"name": name, "namespace": election.resource_namespace}, lease_rules(election), account),
    ]


def _bound_role(
    role: str, metadata: dict[str, str], rules: list[PolicyRule], account: dict[str, str]
) -> Iterator[dict[str, object]]:
    """Yield a role with these rules and its binding to an account, or nothing without rules."""
    if rules:
        reference = {"apiGroup": RBAC_GROUP, "kind": role, "name": metadata["name"]}
        yield {**_header(role, metadata), "rules": [msgspec.to_builtins(rule) for rule in rules]}
        yield {**_header(f"{role}Binding", metadata), "roleRef": reference, "subjects": [dict(account)]}


def _header(kind: str, metadata: dict[str, str]) -> dict[str, object]:
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": dict(metadata)}


def _group(kind: Kind[ApiObject]) -> str:
    return kind.api_version.rpartition("/")[0]
