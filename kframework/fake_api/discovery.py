"""Discovery: groups, versions and resources, the server's version, and health endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from kframework.client import api_errors
from kframework.client.transport import Request, Response
from kframework.fake_api.resources import SUBRESOURCES, ApiResource, built_in_kinds, group_version_kind
from kframework.fake_api.wire.documents import Data
from kframework.process.http.health import PING, Check, check_health, health_of, plain
from kframework.process.http.statuses import NO_SUBJECT, failure, json_response
from kframework.values.feature_gates import RELEASES


def server_version(minor: str) -> Data:
    """Return the answer to `GET /version`."""
    major, number = minor.split(".")
    return {
        "major": major,
        "minor": number,
        "emulationMajor": major,
        "emulationMinor": number,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(number) - 1),
        "gitVersion": f"{RELEASES[minor]}+kframework",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def list_versions(accept: str, served: Iterable[ApiResource]) -> Response:
    core = [resource for resource in served if not resource.group]
    aggregated = _aggregate(accept, core)
    return aggregated or json_response({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})


def list_groups(accept: str, served: Iterable[ApiResource]) -> Response:
    named = [resource for resource in served if resource.group]
    groups = [_describe_group(name, list(members)) for name, members in groupby(named, key=lambda each: each.group)]
    return _aggregate(accept, named) or json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


def get_group(name: str, served: Iterable[ApiResource]) -> Response | None:
    """Answer `GET /apis/GROUP`; None if there is no such group."""
    members = [resource for resource in served if resource.group == name]
    return (
        json_response({"apiVersion": "v1", "kind": "APIGroup", **_describe_group(name, members)}) if members else None
    )


def _describe_group(name: str, members: list[ApiResource]) -> Data:
    versions = [{"groupVersion": each, "version": each.rpartition("/")[2]} for each in _sorted_versions(members)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def list_resources(api_version: str, served: Iterable[ApiResource]) -> Response | None:
    """Answer `GET /api/v1` and `GET /apis/GROUP/VERSION`; None if there is no such version."""
    members = [resource for resource in served if resource.kind.api_version == api_version]
    if not members:
        return None
    entries: list[Data] = []
    for resource in members:
        kind = resource.kind
        common: Data = {"name": kind.plural, "singularName": resource.singular}
        common |= {"namespaced": kind.namespaced, "kind": kind.name}
        own = {"verbs": resource.verbs, "shortNames": resource.short_names, "categories": resource.categories}
        entries.append(common | own)
        for name in sorted(resource.subresources):
            part = SUBRESOURCES[name]
            entry = {**common, "name": f"{kind.plural}/{name}", "singularName": "", "verbs": part.verbs}
            group_name, _, version = part.api_version.rpartition("/")
            of_group = {"group": group_name, "version": version} if group_name else {}
            entries.append(entry | ({"kind": part.kind} | of_group if part.kind else {}))
    return json_response(
        {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}
    )


def _aggregate(accept: str, served: list[ApiResource]) -> Response | None:
    """Answer with all groups, versions and resources at once, if the client prefers that."""
    preferred = accept.partition(",")[0]
    if "as=APIGroupDiscoveryList" not in preferred:
        return None
    version = "v2" if "v=v2;" in f"{preferred};" else "v2beta1"
    items = []
    for name, grouped in groupby(served, key=lambda each: each.group):
        members = list(grouped)
        described = [
            {
                "version": api_version.rpartition("/")[2],
                "freshness": "Current",
                "resources": [_describe_resource(each) for each in members if each.kind.api_version == api_version],
            }
            for api_version in _sorted_versions(members)
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": described})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}", "metadata": {}}
    media_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return Response(200, msgspec.json.encode(head | {"items": items}), {"content-type": media_type})


def _describe_resource(resource: ApiResource) -> Data:
    kind = resource.kind
    subresources = []
    for name in sorted(resource.subresources):
        part = SUBRESOURCES[name]
        response_kind = group_version_kind(part.api_version or kind.api_version, part.kind or kind.name)
        subresources.append({"subresource": name, "responseKind": response_kind, "verbs": part.verbs})
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


def _sorted_versions(members: Iterable[ApiResource]) -> list[str]:
    versions = {resource.kind.api_version: resource.version for resource in members}
    newest_first = sorted(versions, key=versions.__getitem__, reverse=True)
    return sorted(newest_first, key=lambda each: ("alpha" in versions[each], "beta" in versions[each]))


# -- outside of the APIs -------------------------------------------------------------------------------------------

#: All checks pass, since the store is in memory; clients may request or exclude them by name.
_SHARED = (PING, *(Check(name, PING.problem) for name in ("log", "etcd")))
_CHECKS = {
    "healthz": _SHARED,
    "livez": _SHARED,
    "readyz": (
        *_SHARED,
        *(Check(name, PING.problem) for name in ("etcd-readiness", "informer-sync", "shutdown")),
    ),
}


def answer_root_path(request: Request, served: Iterable[ApiResource]) -> Response | None:
    if request.path in ("/", "/index.html"):
        paths = {"/openapi/v2", "/openapi/v3", "/version", "/api", "/apis"}
        for each, checks in _CHECKS.items():
            paths |= {f"/{each}", *(f"/{each}/{check.name}" for check in checks)}
        for resource in served:
            api_version = resource.kind.api_version
            paths |= {f"/apis/{resource.group}", f"/apis/{api_version}"} if resource.group else {f"/api/{api_version}"}
        return json_response({"paths": sorted(paths)})
    endpoint, _, name = request.path[1:].partition("/")
    checks = _CHECKS.get(endpoint, ())
    if request.path == f"/{endpoint}" and checks:
        return check_health(endpoint, checks, request.query)
    return next((health_of(check) for check in checks if check.name == name), None)


def not_found_response(path: str) -> Response:
    """Answer 404: with a Status in Kubernetes' own groups, elsewhere with Go's text."""
    match path.strip("/").split("/"):
        case ["api", *_]:
            return failure(api_errors.unknown_kind(), NO_SUBJECT)
        case ["apis", group, *_] if any(each.api_version.startswith(f"{group}/") for each in built_in_kinds()):
            return failure(api_errors.unknown_kind(), NO_SUBJECT)
    return plain("404 page not found\n", 404)
