"""What clients ask before anything else: which groups, kinds and other paths are there, and whether the server is well.

What is `served` stands group by group, in the order in which clients are to know the groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from kframework.client import api_errors
from kframework.client.transport import Request, Response
from kframework.fake_api.served import SUBRESOURCES, Resource, built_in_kinds, group_version_kind
from kframework.fake_api.wire.documents import Data
from kframework.process.http.health import PING, Check, health, health_of, plain
from kframework.process.http.statuses import NOBODY, answered, failure

#: What `GET /version` answers: the release whose API this one follows.
VERSION: Data = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+kframework",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}


# -- one document at a time ----------------------------------------------------------------------------------------


def versions(accept: str, served: Iterable[Resource]) -> Response:
    """Answer `GET /api`: the core group has one version."""
    core = [resource for resource in served if not resource.group]
    aggregated = _aggregated(accept, core)
    return aggregated or answered({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})


def groups(accept: str, served: Iterable[Resource]) -> Response:
    """Answer `GET /apis`: all groups but the core."""
    named = [resource for resource in served if resource.group]
    found = [_group(name, list(members)) for name, members in groupby(named, key=lambda each: each.group)]
    return _aggregated(accept, named) or answered({"kind": "APIGroupList", "apiVersion": "v1", "groups": found})


def group(name: str, served: Iterable[Resource]) -> Response | None:
    """Answer `GET /apis/GROUP`; None if there is no such group."""
    members = [resource for resource in served if resource.group == name]
    return answered({"apiVersion": "v1", "kind": "APIGroup", **_group(name, members)}) if members else None


def _group(name: str, members: list[Resource]) -> Data:
    found = [{"groupVersion": each, "version": each.rpartition("/")[2]} for each in _versions(members)]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def resources(api_version: str, served: Iterable[Resource]) -> Response | None:
    """Answer `GET /api/v1` and `GET /apis/GROUP/VERSION`; None if there is no such version."""
    members = [resource for resource in served if resource.kind.api_version == api_version]
    if not members:
        return None
    found: list[Data] = []
    for resource in members:
        kind = resource.kind
        whole: Data = {"name": kind.plural, "singularName": resource.singular}
        whole |= {"namespaced": kind.namespaced, "kind": kind.name}
        own = {"verbs": resource.verbs, "shortNames": resource.short_names, "categories": resource.categories}
        found.append(whole | own)
        for name in sorted(resource.subresources):
            part = SUBRESOURCES[name]
            entry = {**whole, "name": f"{kind.plural}/{name}", "singularName": "", "verbs": part.verbs}
            group_name, _, version = part.api_version.rpartition("/")
            of_group = {"group": group_name, "version": version} if group_name else {}
            found.append(entry | ({"kind": part.kind} | of_group if part.kind else {}))
    return answered({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": found})


# -- all at once ---------------------------------------------------------------------------------------------------


def _aggregated(accept: str, served: list[Resource]) -> Response | None:
    """Answer with all that a client would ask for one by one, if it prefers that."""
    wanted = accept.partition(",")[0]
    if "as=APIGroupDiscoveryList" not in wanted:
        return None
    version = "v2" if "v=v2;" in f"{wanted};" else "v2beta1"
    items = []
    for name, grouped in groupby(served, key=lambda each: each.group):
        members = list(grouped)
        described = [
            {
                "version": api_version.rpartition("/")[2],
                "freshness": "Current",
                "resources": [_described(each) for each in members if each.kind.api_version == api_version],
            }
            for api_version in _versions(members)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": described})
    found = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}}
    media_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return Response(200, msgspec.json.encode(found | {"items": items}), {"content-type": media_type})


def _described(resource: Resource) -> Data:
    kind = resource.kind
    subresources = []
    for name in sorted(resource.subresources):
        part = SUBRESOURCES[name]
        shown = group_version_kind(part.api_version or kind.api_version, part.kind or kind.name)
        subresources.append({"subresource": name, "responseKind": shown, "verbs": part.verbs})
    return {
        "resource": kind.plural,
        "responseKind": group_version_kind(kind.api_version, kind.name),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
        "shortNames": resource.short_names,
        "categories": resource.categories,
        "subresources": subresources,
    }


def _versions(members: Iterable[Resource]) -> list[str]:
    """List the apiVersions of a group, the preferred one first: `v2` before `v1` before `v1beta1` before `v1alpha1`."""
    found = {resource.kind.api_version: resource.version for resource in members}
    newest_first = sorted(found, key=found.__getitem__, reverse=True)
    return sorted(newest_first, key=lambda each: ("alpha" in found[each], "beta" in found[each]))


# -- beside the APIs -----------------------------------------------------------------------------------------------

#: Who answers has its store in the same memory, so none of them fails; clients ask for them, and exclude them.
_ALWAYS = (PING, *(Check(name, PING.problem) for name in ("log", "etcd")))
_CHECKS = {
    "healthz": _ALWAYS,
    "livez": _ALWAYS,
    "readyz": (*_ALWAYS, *(Check(name, PING.problem) for name in ("etcd-readiness", "informer-sync", "shutdown"))),
}


def root_path(request: Request, served: Iterable[Resource]) -> Response | None:
    """Answer what is asked at the root; None if there is nothing at the path."""
    if request.path in ("/", "/index.html"):
        paths = {"/openapi/v2", "/openapi/v3", "/version", "/api", "/apis"}
        for each, checks in _CHECKS.items():
            paths |= {f"/{each}", *(f"/{each}/{check.name}" for check in checks)}
        for resource in served:
            api_version = resource.kind.api_version
            paths |= {f"/apis/{resource.group}", f"/apis/{api_version}"} if resource.group else {f"/api/{api_version}"}
        return answered({"paths": sorted(paths)})
    endpoint, _, name = request.path[1:].partition("/")
    checks = _CHECKS.get(endpoint, ())
    if request.path == f"/{endpoint}" and checks:
        return health(endpoint, checks, request.query)
    return next((health_of(check) for check in checks if check.name == name), None)


def nothing_at(path: str) -> Response:
    """Say that there is nothing at a path: in groups of Kubernetes' own with a Status, elsewhere in Go's words."""
    match path.strip("/").split("/"):
        case ["api", *_]:
            return failure(api_errors.unknown_kind(), NOBODY)
        case ["apis", group, *_] if any(each.api_version.startswith(f"{group}/") for each in built_in_kinds()):
            return failure(api_errors.unknown_kind(), NOBODY)
    return plain("404 page not found\n", 404)
