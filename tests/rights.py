"""What requests ask of an API server's authorizer, and what RBAC rules grant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kframework.cluster.transport import Request

__all__ = ["Asked", "asked", "grants", "rules_of"]

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
    verb = _VERBS.get(request.method) or ("get" if name else "watch" if ("watch", "true") in request.query else "list")
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
    """Tell whether a rule that holds in a namespace ("": everywhere) allows what is asked."""
    return (
        namespace in ("", wanted.namespace)
        and wanted.verb in rule["verbs"]
        and wanted.group in rule["apiGroups"]
        and wanted.resource in rule["resources"]
        and wanted.name in rule.get("resourceNames", [wanted.name])
    )
