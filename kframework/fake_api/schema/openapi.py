"""The OpenAPI documents: what clients look up before they explain, validate or dare to ask for a dry run.

A document is made when somebody asks for it, and kept until what it describes is another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from kframework.client.transport import JSON, Request, Response
from kframework.fake_api.served import Resource, group_version_kind
from kframework.fake_api.wire.documents import Data
from kframework.objects.openapi.definitions import (
    OBJECT_META,
    REFERENCE,
    Schema,
    definition,
    definition_of,
    reachable,
    version,
)

_PARAMETERS = [
    *(
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ),
    {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}},
]
_COMPONENT = "#/components/schemas/"
#: Definitions that are in the document of every group.
_EVERYWHERE = tuple(f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("DeleteOptions", "Status"))
#: Definitions that have another form in version 3.
_VERSION_3: dict[str, Data] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


class OpenApi:
    """Answers what clients ask of `/openapi`."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, bytes]] = {}

    def index(self, request: Request, served: Iterable[Resource]) -> Response:
        """Answer `GET /openapi/v3`: where the description of each version stands."""
        places = {
            place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={_hash(place, members)}"}
            for place, members in _by_place(served).items()
        }
        body = msgspec.json.encode({"paths": places})
        return _unless_known(request, hashlib.sha256(body).hexdigest().upper(), body)

    def prepare(self, path: str, served: Sequence[Resource]) -> None:
        """Make the document of a path, if there is one, for those who ask for it later."""
        place = path.strip("/").removeprefix("openapi/").removeprefix("v3/")
        if place == "v2":
            self._encoded(place, served, _version_2)
        elif members := _by_place(served).get(place):
            self._encoded(place, members, partial(_version_3, place))

    def document(self, request: Request, place: str, served: Iterable[Resource]) -> Response | None:
        """Answer `GET /openapi/v3/apis/GROUP/VERSION`; None if there is no such version."""
        members = _by_place(served).get(place)
        if not members:
            return None
        tag, body = self._encoded(place, members, partial(_version_3, place))
        asked = dict(request.query).get("hash", "")
        if asked and asked != tag:
            return Response(301, b"", {"location": f"/openapi/v3/{place}?hash={tag}"})
        answer = _unless_known(request, tag, body)
        headers = {**answer.headers, "vary": "Accept"}
        if asked:
            headers |= {"cache-control": "public, immutable", "expires": "Fri, 31 Dec 2100 00:00:00 GMT"}
        return msgspec.structs.replace(answer, headers=headers)

    def version_2(self, request: Request, served: Sequence[Resource]) -> Response:
        """Answer `GET /openapi/v2`, all in one; in protobuf nothing is described, which has no bytes."""
        if "protobuf" in request.accept:
            media_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            return Response(200, b"", {"content-type": media_type})
        return _unless_known(request, *self._encoded("v2", served, _version_2))

    def _encoded(
        self, place: str, members: Sequence[Resource], make: Callable[[Sequence[Resource]], Data]
    ) -> tuple[str, bytes]:
        tag, kept = _hash(place, members), self._kept.get(place)
        if kept is None or kept[0] != tag:
            kept = self._kept[place] = tag, msgspec.json.encode(make(members))
        return kept


def _unless_known(request: Request, tag: str, body: bytes) -> Response:
    headers = {"content-type": JSON, "etag": f'"{tag}"'}
    if f'"{tag}"' in request.if_none_match:
        return Response(304, b"", headers)
    return Response(200, body, headers)


def _hash(place: str, members: Iterable[Resource]) -> str:
    """Tell one state of a document from others without making it: a user's kinds change, Kubernetes' do not."""
    described = [(place, each.kind.api_version, each.kind.plural, each.kind.namespaced) for each in members]
    schemas = [each.custom.fingerprint for each in members if each.custom is not None]
    return hashlib.sha256(msgspec.json.encode([described, schemas])).hexdigest().upper()


def _by_place(served: Iterable[Resource]) -> dict[str, list[Resource]]:
    places: dict[str, list[Resource]] = {}
    for resource in served:
        root = "apis" if resource.group else "api"
        places.setdefault(f"{root}/{resource.kind.api_version}", []).append(resource)
    return places


def _version_3(place: str, members: Sequence[Resource]) -> Data:
    paths: Data = {}
    for each in members:
        namespace = "namespaces/{namespace}/" if each.kind.namespaced else ""
        patch = {
            "parameters": _PARAMETERS,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": group_version_kind(each.kind.api_version, each.kind.name),
        }
        paths[f"/{place}/{namespace}{each.kind.plural}/{{name}}"] = {"patch": patch}
    schemas = {name: _VERSION_3.get(name) or _in_version_3(definition(name)) for name in _definitions(members)}
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version()},
        "paths": paths,
        "components": {"schemas": schemas | _users_schemas(members, _COMPONENT)},
    }


def _version_2(served: Sequence[Resource]) -> Data:
    definitions: dict[str, Data] = {name: msgspec.to_builtins(definition(name)) for name in _definitions(served)}
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version()},
        "paths": {},
        "definitions": definitions | _users_schemas(served, REFERENCE),
    }


def _definitions(members: Iterable[Resource]) -> list[str]:
    """List the definitions of Kubernetes' own kinds, of their lists, and of all that they refer to."""
    own = [each.kind for each in members if each.custom is None]
    names = (definition_of(kind.api_version, f"{kind.name}{suffix}") for kind in own for suffix in ("", "List"))
    return sorted(reachable([*_EVERYWHERE, *filter(None, names)]))


def _in_version_3(schema: Schema) -> Data:
    """Return a schema in the form of version 3, where nothing may stand beside a reference."""
    own = msgspec.structs.replace(schema, reference="", items=None, additional_properties=None, properties={})
    data: Data = msgspec.to_builtins(own)
    if schema.reference:
        data["allOf"] = [{"$ref": f"{_COMPONENT}{schema.definition_name}"}]
    if schema.items is not None:
        data["items"] = _in_version_3(schema.items)
    if schema.additional_properties is not None:
        data["additionalProperties"] = _in_version_3(schema.additional_properties)
    if schema.properties:
        data["properties"] = {name: _in_version_3(each) for name, each in schema.properties.items()}
    return data


def _users_schemas(members: Iterable[Resource], place: str) -> dict[str, Data]:
    """Return the schemas of users' kinds, which refer to that of metadata; `place` is where schemas stand."""
    schemas: dict[str, Data] = {}
    for each in members:
        if each.custom is not None:
            name = ".".join([*reversed(each.group.split(".")), each.version, each.kind.name])
            kinds = [group_version_kind(each.kind.api_version, each.kind.name)]
            described = each.custom.described({"metadata": {"$ref": f"{place}{OBJECT_META}"}})
            schemas[name] = {**described, "x-kubernetes-group-version-kind": kinds}
    return schemas
