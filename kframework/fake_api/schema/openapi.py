"""The OpenAPI documents: what clients look up before they explain, validate or dare to ask for a dry run.

A document is made when somebody asks for it, and kept until what it describes is another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from kframework.client.models import model_of
from kframework.client.transport import JSON, Request, Response
from kframework.fake_api.schema.components import Components
from kframework.fake_api.schema.names import component
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data

_INFO = {"title": "Kubernetes", "version": "v1.36.2"}
_PROTOBUF_2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_YEAR = "Fri, 31 Dec 2100 00:00:00 GMT"
_PARAMETERS = [
    *(
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ),
    {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}},
]
#: Kinds that stand for none of their own, and are in the document of every group.
_EVERYWHERE = ("V1DeleteOptions", "V1Status")


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
        """Make the document of a path, if there is one, for those who ask for it later; it reads many files."""
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
    paths = {_path(each): {"patch": _patch(each)} for each in members}
    schemas = _schemas(Components(members[0].group), members)
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _version_2(served: Sequence[Resource]) -> Data:
    definitions: dict[str, Data] = {}
    for members in _by_place(served).values():
        definitions |= _schemas(Components(members[0].group, "#/definitions/"), members)
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}


def _schemas(components: Components, members: Sequence[Resource]) -> dict[str, Data]:
    models: dict[str, list[Data]] = {model: [] for model in _EVERYWHERE}
    own: dict[str, Data] = {}
    for each in members:
        kind = each.kind
        if each.custom is not None:
            name = ".".join([*reversed(each.group.split(".")), each.version, kind.name])
            metadata: Data = {"metadata": components.reference("V1ObjectMeta")}
            own[name] = {**each.custom.described(metadata), **_marked([_names(kind.api_version, kind.name)])}
            continue
        for name in (kind.name, f"{kind.name}List"):
            if model := model_of(kind.api_version, name):
                models.setdefault(model, []).append(_names(kind.api_version, name))
    schemas = components.of(models)
    for model, kinds in models.items():
        if kinds:
            schemas[component(model, members[0].group)] |= _marked(kinds)
    return schemas | own


def _marked(kinds: Sequence[Data]) -> Data:
    return {"x-kubernetes-group-version-kind": kinds}


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
