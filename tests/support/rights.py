"""What requests ask of an API server's authorizer, what RBAC rules grant, and an authorizer that goes by them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from kframework.cluster.transport import Request, Response, Stream, Transport

__all__ = ["Asked", "Authorizer", "Right", "asked", "grants", "rules_of"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Asked(NamedTuple):
    """What somebody wants to do to a resource; `resource` has its subresource behind a slash."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def asked(request: Request) -> Asked:
    """Read from a request what it wants, as an API server does."""
    root, *steps = request.path.strip("/").split("/")
    group = "" if root == "api" else steps.pop(0)
    steps.pop(0)
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2:
        namespace = steps[1]
        steps = steps[2:]
    resource, name, *subresource = [*steps, ""][: max(len(steps), 2)]
    query = dict(request.query)
    verb = _VERBS.get(request.method) or ("get" if name else "watch" if query.get("watch") == "true" else "list")
    selected, _, one = query.get("fieldSelector", "").partition("=")
    if not name and selected == "metadata.name":
        name = one
    return Asked(verb, group, "/".join([resource, *subresource]), namespace, name)


def rules_of(manifests: Iterable[Mapping[str, Any]], account: tuple[str, str]) -> list[tuple[str, Mapping[str, Any]]]:
    """List the rules that are bound to a ServiceAccount (namespace, name), each with the namespace it holds in."""
    manifests = list(manifests)
    roles = {
        (each["kind"], _where(each), each["metadata"]["name"]): each["rules"] for each in manifests if "rules" in each
    }
    found = []
    for binding in manifests:
        if any((s["namespace"], s["name"]) == account for s in binding.get("subjects", ())):
            role = binding["roleRef"]
            namespace = _where(binding)
            found += [(namespace, rule) for rule in roles[role["kind"], namespace, role["name"]]]
    return found


def _where(manifest: Mapping[str, Any]) -> str:
    return str(manifest["metadata"].get("namespace", ""))


def grants(namespace: str, rule: Mapping[str, Any], wanted: Asked) -> bool:
    """Return whether a rule that holds in a namespace ("": everywhere) allows what is asked."""
    return (
        namespace in ("", wanted.namespace)
        and wanted.verb in rule["verbs"]
        and wanted.group in rule["apiGroups"]
        and wanted.resource in rule["resources"]
        and wanted.name in rule.get("resourceNames", [wanted.name])
    )


#: A right: where it holds, what may be done, and to which names only. To see a kind in one way or another is one.
Right = tuple[str, str, str, str, tuple[str, ...]]


class Authorizer:
    """A transport that refuses what no rule grants, and notes the rights that were made use of."""

    def __init__(self, granted: Iterable[Mapping[str, Any]], account: tuple[str, str]) -> None:
        self.rules = rules_of(granted, account)
        self.used: set[Right] = set()
        self.refused: list[Asked] = []
        self.server: Transport

    async def send(self, request: Request) -> Response:
        return self._refusal(request) or await self.server.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        assert self._refusal(request) is None
        async with self.server.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self.server.close()

    def _refusal(self, request: Request) -> Response | None:
        wanted = asked(request)
        granting = [(where, rule) for where, rule in self.rules if grants(where, rule, wanted)]
        for where, rule in granting:
            self.used.add(_right(where, wanted.group, wanted.resource, wanted.verb, rule))
        if granting:
            return None
        self.refused.append(wanted)
        return Response(403, msgspec.json.encode({"kind": "Status", "code": 403, "message": f"{wanted} is forbidden"}))

    @property
    def rights(self) -> set[Right]:
        """All that was granted."""
        return {
            _right(where, group, resource, verb, rule)
            for where, rule in self.rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }


def _right(where: str, group: str, resource: str, verb: str, rule: Mapping[str, Any]) -> Right:
    seen = "see" if verb in ("get", "list", "watch") else verb
    return where, group, resource, seen, tuple(rule.get("resourceNames", ()))
