"""What is served: a kind under one of its names in the API, and how its objects look there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from kframework.fake_api.built_in_kinds import SENT, SUBRESOURCES, BuiltIn, built_in_kind
from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.scales import ScalePaths
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.kind_versions import from_core, from_v1, to_core, to_v1
from kframework.objects import (
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    PrinterColumn,
    kind_of,
)

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_AUTOSCALER = "HorizontalPodAutoscaler"


def as_is(data: Data) -> Data:
    """Show an object as it is stored."""
    return data


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as a path of the API names it.

    `stored` is the kind under which its objects are kept: two versions of one kind are views of the same objects.
    `shown` makes of plain data as stored what this view shows, `read` the reverse. `columns` are for kinds that are not
    built in, `scale` is for those with that subresource, `custom` is what a user has defined. Of a review, which is
    answered and not kept, there are no objects. A view that `is_live` shows more than what its object says. What can
    only be read has the verbs of `reading`.
    """

    kind: Kind[ApiObject]
    stored: Kind[ApiObject]
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    subresources: frozenset[str] = frozenset()
    is_review: bool = False
    is_live: bool = False
    reading: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    shown: Callable[[Data], Data] = as_is
    read: Callable[[Data], Data] = as_is
    custom: CustomKind | None = field(default=None, compare=False)

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.kind.api_version.rpartition("/")[0]

    @property
    def has_status(self) -> bool:
        """Whether its status is a part of its own."""
        return "status" in self.subresources

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be done to objects of the kind."""
        return SENT if self.is_review else self.reading or _ALL_VERBS

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.kind.api_version.rpartition("/")[2]

    def body(self, document: Document) -> bytes:
        """The JSON of an object in this view."""
        if self.is_live:
            return msgspec.json.encode(self.data(document))
        return document.body if self.shown is as_is else _viewed(self, document.body)

    def data(self, document: Document) -> Data:
        """The same as plain data."""
        return self.shown(document.data)


@lru_cache(maxsize=1024)  # as many watch a change as may, it is encoded once
def _viewed(resource: Resource, body: bytes) -> bytes:
    return msgspec.json.encode(resource.shown(msgspec.json.decode(body, type=dict[str, object])))


def built_in(built: BuiltIn) -> Resource:
    """Serve a kind of Kubernetes' stable groups; of events and of autoscalers both versions are kept as one kind."""
    kind, singular = built.kind, built.name.lower()
    if kind.struct is CoreEvent:
        return Resource(kind, kind_of(Event), singular, built.short_names, shown=to_core, read=from_core)
    is_view = (built.api_version, built.name) == ("autoscaling/v1", _AUTOSCALER)
    return Resource(
        kind,
        built_in_kind("autoscaling/v2", _AUTOSCALER) if is_view else kind,
        singular,
        built.short_names,
        built.categories,
        subresources=built.traits.intersection(SUBRESOURCES),
        is_review="review" in built.traits,
        scale=ScalePaths() if "scale" in built.traits else None,
        shown=to_v1 if is_view else as_is,
        read=from_v1 if is_view else as_is,
    )


def declared(kind: Kind[ApiObject]) -> Resource:
    """Serve a kind that a plugin has declared."""
    parts = frozenset({"status"} & set(kind.struct.__struct_fields__))
    return Resource(kind, kind, kind.name.lower(), kind.short_names, columns=kind.columns, subresources=parts)
