"""OpenAPI documents, which clients use to explain and validate, and before a dry run.

A document is built on the first request, and kept until its kinds change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from kframework.client.transport import JSON, Request, Response
from kframework.fake_api.resources import ApiResource, group_version_kind
from kframework.fake_api.wire.documents import Data
from kframework.objects.openapi.definitions import (
    OBJECT_META,
    REFERENCE,
    Schema,
    definition,
    definition_of,
    reachable,
)

_PARAMETERS = [
    *(
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ),
    {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}},
]
_COMPONENT = "#/components/schemas/"
#: Definitions in the documents of all groups.
_COMMON_DEFINITIONS = tuple(f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("DeleteOptions", "Status"))
_V3_DEFINITIONS: dict[str, Data] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


class OpenApi:
    """Answers requests for `/openapi`, as a server of some version."""

    def __init__(self, version: str) -> None:
        self._info = {"title": "Kubernetes", "version": version}
        self._cache: dict[str, tuple[str, bytes]] = {}

    def answer_index(self, request: Request, served: Iterable[ApiResource]) -> Response:
        """Answer `GET /openapi/v3`: the URLs of all versions' documents."""
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_document_tag(path, members)}"}
            for path, members in _by_path(served).items()
        }
        body = msgspec.json.encode({"paths": paths})
        return _conditional_response(request, hashlib.sha256(body).hexdigest().upper(), body)

    def prepare(self, path: str, served: Sequence[ApiResource]) -> None:
        """Build the document of a path, if there is one, for a later request."""
        name = path.strip("/").removeprefix("openapi/").removeprefix("v3/")
        if name == "v2":
            self._encode_document(name, served, _build_v2)
        elif members := _by_path(served).get(name):
            self._encode_document(name, members, partial(_build_v3, name))

    def answer_document(self, request: Request, path: str, served: Iterable[ApiResource]) -> Response | None:
        """Answer `GET /openapi/v3/apis/GROUP/VERSION`; None if there is no such version."""
        members = _by_path(served).get(path)
        if not members:
            return None
        tag, body = self._encode_document(path, members, partial(_build_v3, path))
        tag_in_query = dict(request.query).get("hash", "")
        if tag_in_query and tag_in_query != tag:
            return Response(301, b"", {"location": f"/openapi/v3/{path}?hash={tag}"})
        answer = _conditional_response(request, tag, body)
        headers = {**answer.headers, "vary": "Accept"}
        if tag_in_query:
            headers |= {"cache-control": "public, immutable", "expires": "Fri, 31 Dec 2100 00:00:00 GMT"}
        return msgspec.structs.replace(answer, headers=headers)

    def answer_v2(self, request: Request, served: Sequence[ApiResource]) -> Response:
        """Answer `GET /openapi/v2`; an empty document for protobuf, which has no bytes."""
        if "protobuf" in request.accept:
            media_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            return Response(200, b"", {"content-type": media_type})
        return _conditional_response(request, *self._encode_document("v2", served, _build_v2))

    def _encode_document(
        self, path: str, members: Sequence[ApiResource], build: Callable[[Sequence[ApiResource]], Data]
    ) -> tuple[str, bytes]:
        tag, cached = _document_tag(path, members), self._cache.get(path)
        if cached is None or cached[0] != tag:
            cached = self._cache[path] = tag, msgspec.json.encode({"info": self._info, **build(members)})
        return cached


def _conditional_response(request: Request, tag: str, body: bytes) -> Response:
    headers = {"content-type": JSON, "etag": f'"{tag}"'}
    if f'"{tag}"' in request.if_none_match:
        return Response(304, b"", headers)
    return Response(200, body, headers)


def _document_tag(path: str, members: Iterable[ApiResource]) -> str:
    """Identify the content of a document without building it: only custom kinds change."""
    described = [(path, each.kind.api_version, each.kind.plural, each.kind.namespaced) for each in members]
    schemas = [each.custom.fingerprint for each in members if each.custom is not None]
    return hashlib.sha256(msgspec.json.encode([described, schemas])).hexdigest().upper()


def _by_path(served: Iterable[ApiResource]) -> dict[str, list[ApiResource]]:
    paths: dict[str, list[ApiResource]] = {}
    for resource in served:
        root = "apis" if resource.group else "api"
        paths.setdefault(f"{root}/{resource.kind.api_version}", []).append(resource)
    return paths


def _build_v3(path: str, members: Sequence[ApiResource]) -> Data:
    paths: Data = {}
    for each in members:
        namespace = "namespaces/{namespace}/" if each.kind.namespaced else ""
        patch = {
            "parameters": _PARAMETERS,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": group_version_kind(each.kind.api_version, each.kind.name),
        }
        paths[f"/{path}/{namespace}{each.kind.plural}/{{name}}"] = {"patch": patch}
    schemas = {name: _V3_DEFINITIONS.get(name) or _to_v3(definition(name)) for name in _definitions(members)}
    return {
        "openapi": "3.0.0",
        "paths": paths,
        "components": {"schemas": schemas | _custom_schemas(members, _COMPONENT)},
    }


def _build_v2(served: Sequence[ApiResource]) -> Data:
    definitions: dict[str, Data] = {name: msgspec.to_builtins(definition(name)) for name in _definitions(served)}
    return {
        "swagger": "2.0",
        "paths": {},
        "definitions": definitions | _custom_schemas(served, REFERENCE),
    }


def _definitions(members: Iterable[ApiResource]) -> list[str]:
    own = [each.kind for each in members if each.custom is None]
    names = (definition_of(kind.api_version, f"{kind.name}{suffix}") for kind in own for suffix in ("", "List"))
    return sorted(reachable([*_COMMON_DEFINITIONS, *filter(None, names)]))


def _to_v3(schema: Schema) -> Data:
    """Convert a schema to version 3, where a reference has no siblings."""
    own = msgspec.structs.replace(schema, reference="", items=None, additional_properties=None, properties={})
    data: Data = msgspec.to_builtins(own)
    if schema.reference:
        data["allOf"] = [{"$ref": f"{_COMPONENT}{schema.definition_name}"}]
    if schema.items is not None:
        data["items"] = _to_v3(schema.items)
    if schema.additional_properties is not None:
        data["additionalProperties"] = _to_v3(schema.additional_properties)
    if schema.properties:
        data["properties"] = {name: _to_v3(each) for name, each in schema.properties.items()}
    return data


def _custom_schemas(members: Iterable[ApiResource], path: str) -> dict[str, Data]:
    schemas: dict[str, Data] = {}
    for each in members:
        if each.custom is not None:
            name = ".".join([*reversed(each.group.split(".")), each.version, each.kind.name])
            kinds = [group_version_kind(each.kind.api_version, each.kind.name)]
            described = each.custom.openapi_schema({"metadata": {"$ref": f"{path}{OBJECT_META}"}})
            schemas[name] = {**described, "x-kubernetes-group-version-kind": kinds}
    return schemas
