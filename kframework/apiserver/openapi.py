"""The little of OpenAPI that clients need: what they look up before they dare to ask for validation or a dry run.

No fields are described. A kubectl that would check an object against a description finds none, and leaves it to us.
"""

from __future__ import annotations

from collections.abc import Iterable

from kframework.apiserver.served import Resource
from kframework.apiserver.statuses import answered
from kframework.apiserver.wire.documents import Data
from kframework.cluster.transport import Response

_VERSION_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def version_2(accept: str) -> Response:
    """Answer `GET /openapi/v2`, for clients before 1.27: an empty description, which in protobuf has no bytes."""
    if "protobuf" in accept:
        return Response(200, b"", {"content-type": _VERSION_2})
    return answered({"swagger": "2.0", "info": _INFO, "paths": {}})


def index(served: Iterable[Resource]) -> Response:
    """Answer `GET /openapi/v3`: where the description of each version stands."""
    places = {_place(resource): None for resource in served}
    return answered({"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}})


def version_3(place: str, served: Iterable[Resource]) -> Response | None:
    """Answer `GET /openapi/v3/apis/GROUP/VERSION`; None if there is no such version."""
    paths = {_path(resource): {"patch": _patch(resource)} for resource in served if _place(resource) == place}
    if not paths:
        return None
    return answered({"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": {}}})


_INFO = {"title": "Kubernetes", "version": "v1.36.2"}


def _place(resource: Resource) -> str:
    api_version = resource.kind.api_version
    return f"apis/{api_version}" if resource.group else f"api/{api_version}"


def _path(resource: Resource) -> str:
    namespace = "namespaces/{namespace}/" if resource.kind.namespaced else ""
    return f"/{_place(resource)}/{namespace}{resource.kind.plural}/{{name}}"


def _patch(resource: Resource) -> Data:
    return {
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind.name,
        },
    }
