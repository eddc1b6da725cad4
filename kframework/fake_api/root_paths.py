"""What a server has beside its APIs: the list of its paths, whether it is well, and that there is nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.client import api_errors
from kframework.client.transport import Request, Response
from kframework.fake_api.built_in_kinds import built_in_kinds
from kframework.fake_api.served import Resource
from kframework.process.http.health import PING, Check, health, health_of, plain
from kframework.process.http.statuses import NOBODY, answered, failure

#: Who answers has its store in the same memory, so none of them fails; clients ask for them, and exclude them.
_ALWAYS = (PING, *(Check(name, PING.problem) for name in ("log", "etcd")))
_CHECKS = {
    "healthz": _ALWAYS,
    "livez": _ALWAYS,
    "readyz": (*_ALWAYS, *(Check(name, PING.problem) for name in ("etcd-readiness", "informer-sync", "shutdown"))),
}
_OTHERS = ("/openapi/v2", "/openapi/v3", "/version")


def root_path(request: Request, served: Iterable[Resource]) -> Response | None:
    """Answer what is asked at the root; None if there is nothing at the path."""
    if request.path in ("/", "/index.html"):
        return answered({"paths": sorted({*_OTHERS, *_health_paths(), *_api_paths(served)})})
    endpoint, _, name = request.path[1:].partition("/")
    checks = _CHECKS.get(endpoint, ())
    if request.path == f"/{endpoint}" and checks:
        return health(endpoint, checks, request.query)
    return next((health_of(check) for check in checks if check.name == name), None)


def _health_paths() -> Iterable[str]:
    for endpoint, checks in _CHECKS.items():
        yield f"/{endpoint}"
        yield from (f"/{endpoint}/{check.name}" for check in checks)


def _api_paths(served: Iterable[Resource]) -> Iterable[str]:
    yield from ("/api", "/apis")
    for resource in served:
        if resource.group:
            yield from (f"/apis/{resource.group}", f"/apis/{resource.kind.api_version}")
        else:
            yield f"/api/{resource.kind.api_version}"


def nothing_at(path: str) -> Response:
    """Say that there is nothing at a path: in groups of Kubernetes' own with a Status, elsewhere in Go's words."""
    match path.strip("/").split("/"):
        case ["api", *_]:
            return failure(api_errors.unknown_kind(), NOBODY)
        case ["apis", group, *_] if any(each.api_version.startswith(f"{group}/") for each in built_in_kinds()):
            return failure(api_errors.unknown_kind(), NOBODY)
    return plain("404 page not found\n", 404)
