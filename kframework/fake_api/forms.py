"""The forms in which clients want objects: as they are, their metadata alone, or as a Table for `kubectl get`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec

from kframework.client.transport import JSON
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.fake_api.printers.tables import table
from kframework.fake_api.served import Resource
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.yaml_bodies import YAML


class Form(Protocol):
    """Writes objects of one kind in the form that the client asked for."""

    def one(self, document: Document) -> bytes:
        """Write one object."""
        ...

    def many(self, documents: Sequence[Document], metadata: Mapping[str, str | int]) -> bytes:
        """Write a list of objects; `metadata` is that of the list."""
        ...

    def bookmark(self, metadata: Mapping[str, object]) -> bytes:
        """Write what stands for no object, but says how far a watch has come."""
        ...


class Plain(Form):
    """Objects as they are."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._head = msgspec.json.encode({"kind": resource.kind.name, "apiVersion": resource.kind.api_version})[:-1]
        self._list_head = self._head.replace(b'",', b'List",', 1)

    def one(self, document: Document) -> bytes:
        return self._resource.body(document)

    def many(self, documents: Sequence[Document], metadata: Mapping[str, str | int]) -> bytes:
        items = b",".join([self._resource.body(document) for document in documents])
        return b'%b,"metadata":%b,"items":[%b]}' % (self._list_head, msgspec.json.encode(metadata), items)

    def bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return b'%b,"metadata":%b}' % (self._head, msgspec.json.encode(metadata))


class Table(Form):
    """Objects as rows; `include` says what each row carries of its object: None, Metadata or Object."""

    def __init__(self, resource: Resource, clock: Clock, include: str) -> None:
        self._resource = resource
        self._clock = clock
        self._include = include

    def one(self, document: Document) -> bytes:
        return self.many([document], {"resourceVersion": document.subject.metadata.resource_version})

    def many(self, documents: Sequence[Document], metadata: Mapping[str, str | int]) -> bytes:
        rows = (self._resource.data(document) for document in documents)
        resource = self._resource
        laid_out = table(resource.kind, rows, self._clock.now(), self._include, resource.columns)
        return msgspec.json.encode({**laid_out, "metadata": metadata})

    def bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return msgspec.json.encode({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": []})


class PartialMetadata(Form):
    """Of objects their metadata alone, for those who only look at labels, owners and versions."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource

    def one(self, document: Document) -> bytes:
        return msgspec.json.encode(self._partial(document))

    def many(self, documents: Sequence[Document], metadata: Mapping[str, str | int]) -> bytes:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata}
        return msgspec.json.encode({**head, "items": [self._partial(document) for document in documents]})

    def bookmark(self, metadata: Mapping[str, object]) -> bytes:
        return msgspec.json.encode({"kind": _PARTIAL, "apiVersion": _META, "metadata": metadata})

    def _partial(self, document: Document) -> Data:
        metadata = self._resource.data(document).get("metadata")
        return {"kind": _PARTIAL, "apiVersion": _META, "metadata": metadata}


_PARTIAL, _META = "PartialObjectMetadata", "meta.k8s.io/v1"


def negotiated(accept: str, resource: Resource, clock: Clock, include: str) -> Form:
    """Choose the form that the client prefers of those that there are; ClusterError 406 if there is none."""
    for wanted in accepted(accept):
        match wanted.form:
            case "":
                return Plain(resource)
            case "Table":
                return Table(resource, clock, include)
            case form if form in (_PARTIAL, f"{_PARTIAL}List"):
                return PartialMetadata(resource)
    raise ClusterError(
        "only the following media types are accepted: application/json, application/yaml,"
        " application/json;as=Table;v=v1;g=meta.k8s.io"
        " (of a client of Kubernetes, set acceptContentTypes to application/json)",
        status=406,
        reason="NotAcceptable",
    )


#: What is written, by what clients may call it.
_ENCODINGS = {JSON: JSON, "application/*": JSON, "*/*": JSON, YAML: YAML}


class MediaType(NamedTuple):
    """What is written how: objects as they are, or in a form such as `Table`."""

    encoding: str
    form: str = ""


@lru_cache(maxsize=256)
def accepted(accept: str) -> tuple[MediaType, ...]:
    """List what a client accepts, the preferred first (RFC 9110, 12.5.1); without a header it accepts JSON."""
    weighed: list[tuple[float, MediaType]] = []
    for each in (accept or JSON).split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        said = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = said.get("as", "")
        if name.lower() in _ENCODINGS and (not form or said.get("g") == "meta.k8s.io"):
            try:
                weight = float(said.get("q", "1"))
            except ValueError:
                weight = 1.0
            weighed.append((weight, MediaType(_ENCODINGS[name.lower()], form)))
    weighed.sort(key=lambda each: -each[0])
    return tuple(media_type for weight, media_type in weighed if weight > 0)


def encoding(accept: str) -> str:
    """Return in which media type answers are to be written: JSON where a client accepts nothing that there is."""
    return next((each.encoding for each in accepted(accept)), JSON)
