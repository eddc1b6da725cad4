"""What is served: a kind under one of its names in the API, and how its objects look there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from kframework.apiserver.wire.documents import Data, Document
from kframework.apiserver.wire.event_versions import from_core, to_core
from kframework.objects import (
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    kind_of,
)


def as_is(data: Data) -> Data:
    """Show an object as it is stored."""
    return data


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as a path of the API names it.

    `stored` is the kind under which its objects are kept: two versions of one kind are views of the same objects.
    `shown` makes of plain data as stored what this view shows, `read` the reverse.
    """

    kind: Kind[ApiObject]
    stored: Kind[ApiObject]
    singular: str
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    shown: Callable[[Data], Data] = as_is
    read: Callable[[Data], Data] = as_is

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.kind.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.kind.api_version.rpartition("/")[2]

    def body(self, document: Document) -> bytes:
        """The JSON of an object in this view."""
        return document.body if self.shown is as_is else _viewed(self, document.body)

    def data(self, document: Document) -> Data:
        """The same as plain data."""
        return self.shown(document.data)


@lru_cache(maxsize=1024)  # as many watch a change as may, it is encoded once
def _viewed(resource: Resource, body: bytes) -> bytes:
    return msgspec.json.encode(resource.shown(msgspec.json.decode(body, type=dict[str, object])))


def built_in(kind: Kind[ApiObject]) -> Resource:
    """Serve a kind that is known here; events of both groups are kept as one kind."""
    singular = kind.name.lower()
    short_names = _SHORT_NAMES.get(singular, ())
    if kind.struct is CoreEvent:
        return Resource(kind, kind_of(Event), singular, short_names, shown=to_core, read=from_core)
    has_status = "status" in kind.struct.__struct_fields__ or kind.struct in _STATUS_UNREAD
    return Resource(kind, kind, singular, short_names, has_status=has_status)


#: Kinds whose status exists but is nothing to a scheduler.
_STATUS_UNREAD = (Namespace, Service, ReplicationController, ReplicaSet, StatefulSet)
_SHORT_NAMES = {
    "customresourcedefinition": ("crd", "crds"),
    "event": ("ev",),
    "namespace": ("ns",),
    "node": ("no",),
    "persistentvolume": ("pv",),
    "persistentvolumeclaim": ("pvc",),
    "pod": ("po",),
    "poddisruptionbudget": ("pdb",),
    "priorityclass": ("pc",),
    "replicaset": ("rs",),
    "replicationcontroller": ("rc",),
    "service": ("svc",),
    "statefulset": ("sts",),
    "storageclass": ("sc",),
}
