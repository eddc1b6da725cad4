"""Representations of objects: as JSON, as metadata only, or as a Table for `kubectl get`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from kframework.client.transport import JSON
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.fake_api.printers.tables import build_table
from kframework.fake_api.resources import ApiResource
from kframework.fake_api.wire.documents import ApiDocument, Data
from kframework.fake_api.wire.yaml_bodies import YAML


class Representation(Protocol):
    """Encodes objects of one kind in the form that the client asked for."""

    def encode_one(self, document: ApiDocument) -> bytes: ...

    def encode_list(self, documents: Sequence[ApiDocument], metadata: Mapping[str, str | int]) -> bytes: ...

    def encode_bookmark(self, metadata: Mapping[str, object]) -> bytes:
        """Encode the object of a bookmark, which only has metadata."""


class PlainRepresentation(Representation):
    """Objects as JSON."""

    def __init__(self, resource: ApiResource) -> None:
        self._resource = resource
        self._head = msgspec.json.encode({"kind": resource.kind.name, "apiVersion": resource.kind.api_version})[:-1]
        self._list_head = self._head.replace(b'",', b'List",', 1)

    def encode_one(self, document: ApiDocument) -> bytes:
        return self._resource.body(document)

    def encode_list(self, documents: Sequence[ApiDocument], metadata: Mapping[str, str | int]) -> bytes:
        items = b",".join([self._resource.body(document) for document in documents])
        return b'%b,"metadata":%b,"items":[%b]}' % (self._list_head, msgspec.json.encode(metadata), items)

    def encode_bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return b'%b,"metadata":%b}' % (self._head, msgspec.json.encode(metadata))


class TableRepresentation(Representation):
    """Objects as rows; `include` is what a row contains of its object: None, Metadata or Object."""

    def __init__(self, resource: ApiResource, clock: Clock, include: str) -> None:
        self._resource = resource
        self._clock = clock
        self._include = include

    def encode_one(self, document: ApiDocument) -> bytes:
        return self.encode_list([document], {"resourceVersion": document.subject.metadata.resource_version})

    def encode_list(self, documents: Sequence[ApiDocument], metadata: Mapping[str, str | int]) -> bytes:
        rows = (self._resource.data(document) for document in documents)
        resource = self._resource
        rows_table = build_table(resource.kind, rows, self._clock.now(), self._include, resource.columns)
        return msgspec.json.encode({**rows_table, "metadata": metadata})

    def encode_bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return msgspec.json.encode({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": []})


class MetadataRepresentation(Representation):
    """The metadata of objects, for clients that need only labels, owners and versions."""

    def __init__(self, resource: ApiResource) -> None:
        self._resource = resource

    def encode_one(self, document: ApiDocument) -> bytes:
        return msgspec.json.encode(self._partial(document))

    def encode_list(self, documents: Sequence[ApiDocument], metadata: Mapping[str, str | int]) -> bytes:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata}
        return msgspec.json.encode({**head, "items": [self._partial(document) for document in documents]})

    def encode_bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return msgspec.json.encode({"kind": _PARTIAL, "apiVersion": _META, "metadata": metadata})

    def _partial(self, document: ApiDocument) -> Data:
        metadata = self._resource.data(document).get("metadata")
        return {"kind": _PARTIAL, "apiVersion": _META, "metadata": metadata}


_PARTIAL, _META = "PartialObjectMetadata", "meta.k8s.io/v1"


def negotiate(accept: str, resource: ApiResource, clock: Clock, include: str) -> Representation:
    """Choose the client's preferred representation; ClusterError 406 if none is supported."""
    for media_type in parse_accept(accept):
        match media_type.form:
            case "":
                return PlainRepresentation(resource)
            case "Table":
                return TableRepresentation(resource, clock, include)
            case form if form in (_PARTIAL, f"{_PARTIAL}List"):
                return MetadataRepresentation(resource)
    raise ClusterError(
        "only the following media types are accepted: application/json, application/yaml,"
        " application/json;as=Table;v=v1;g=meta.k8s.io"
        " (of a client of Kubernetes, set acceptContentTypes to application/json)",
        status=406,
        reason="NotAcceptable",
    )


#: Supported encodings, by the names that clients may use.
_ENCODINGS = {JSON: JSON, "application/*": JSON, "*/*": JSON, YAML: YAML}


class MediaType(NamedTuple):
    """An accepted encoding, and a form such as `Table`."""

    encoding: str
    form: str = ""


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[MediaType, ...]:
    """List the supported media types that a client accepts, the preferred first (RFC 9110, 12.5.1); JSON by default."""
    weighted: list[tuple[float, MediaType]] = []
    for each in (accept or JSON).split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = options.get("as", "")
        if name.lower() in _ENCODINGS and (not form or options.get("g") == "meta.k8s.io"):
            try:
                weight = float(options.get("q", "1"))
            except ValueError:
                weight = 1.0
            weighted.append((weight, MediaType(_ENCODINGS[name.lower()], form)))
    weighted.sort(key=lambda each: -each[0])
    return tuple(media_type for weight, media_type in weighted if weight > 0)


def negotiate_encoding(accept: str) -> str:
    """Return the preferred encoding; JSON if the client accepts none of the supported ones."""
    return next((each.encoding for each in parse_accept(accept)), JSON)
