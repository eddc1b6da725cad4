"""The OpenAPI documents: what clients look up before they explain, validate or dare to ask for a dry run.

A document is made when somebody asks for it, and kept until what it describes is another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import msgspec

from kframework.client.transport import JSON, Request, Response
from kframework.fake_api.served import Resource
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

_PROTOBUF_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_YEAR = "Fri, 31 Dec 2100 00:00:00 GMT"
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
        cached = {"cache-control": "public, immutable", "expires": _YEAR} if asked else {}
        answer = _unless_known(request, tag, body)
        return msgspec.structs.replace(answer, headers={**answer.headers, **cached, "vary": "Accept"})

    def version_2(self, request: Request, served: Sequence[Resource]) -> Response:
        """Answer `GET /openapi/v2`, all in one; in protobuf nothing is described, which has no bytes."""
        if "protobuf" in request.accept:
            return Response(200, b"", {"content-type": _PROTOBUF_2})
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
        places.setdefault(_place(resource), []).append(resource)
    return places


def _place(resource: Resource) -> str:
    api_version = resource.kind.api_version
    return f"apis/{api_version}" if resource.group else f"api/{api_version}"


def _version_3(place: str, members: Sequence[Resource]) -> Data:
    schemas = {name: _VERSION_3.get(name) or _in_version_3(definition(name)) for name in _definitions(members)}
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": {_path(each): {"patch": _patch(each)} for each in members},
        "components": {"schemas": schemas | _users_schemas(members, _COMPONENT)},
    }


def _version_2(served: Sequence[Resource]) -> Data:
    definitions: dict[str, Data] = {name: msgspec.to_builtins(definition(name)) for name in _definitions(served)}
    return {
        "swagger": "2.0",
        "info": _info(),
        "paths": {},
        "definitions": definitions | _users_schemas(served, REFERENCE),
    }


def _info() -> Data:
    return {"title": "Kubernetes", "version": version()}


def _definitions(members: Iterable[Resource]) -> list[str]:
    """List the definitions of Kubernetes' own kinds, of their lists, and of all that they refer to."""
    return sorted(reachable([*_EVERYWHERE, *_kinds_definitions(members)]))


def _kinds_definitions(members: Iterable[Resource]) -> Iterator[str]:
    for each in members:
        for name in (each.kind.name, f"{each.kind.name}List") if each.custom is None else ():
            if found := definition_of(each.kind.api_version, name):
                yield found


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
            kinds = [_names(each.kind.api_version, each.kind.name)]
            described = each.custom.described({"metadata": {"$ref": f"{place}{OBJECT_META}"}})
            schemas[name] = {**described, "x-kubernetes-group-version-kind": kinds}
    return schemas


def _path(resource: Resource) -> str:
    namespace = "namespaces/{namespace}/" if resource.kind.namespaced else ""
    return f"/{_place(resource)}/{namespace}{resource.kind.plural}/{{name}}"


def _patch(resource: Resource) -> Data:
    return {
        "parameters": _PARAMETERS,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _names(resource.kind.api_version, resource.kind.name),
    }


def _names(api_version: str, name: str) -> Data:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": name}
