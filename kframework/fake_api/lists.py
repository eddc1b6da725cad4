"""Which objects a list or a watch is about, and lists in pages: all pages show the moment of the first."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.fake_api.collection import Collection
from kframework.fake_api.served import Resource, as_is
from kframework.fake_api.wire.documents import Document
from kframework.fake_api.wire.plain_data import text, value
from kframework.objects import ApiObject, Kind
from kframework.objects.label_selectors import SelectorError, parse_label_selector
from kframework.objects.node_selectors import parse_field_selector

#: Reads one field of an object as a selector compares it.
_Read = Callable[[dict[str, object]], str]


def field_selector(text: str, kind: Kind[ApiObject]) -> Callable[[dict[str, object]], bool]:
    """Compile a selector (`=`, `==`, `!=`) into a test of objects of a kind.

    ClusterError 400 for text that is no selector, and for fields that the kind cannot be selected by.
    """
    try:
        selector = parse_field_selector(text)
    except SelectorError as error:
        raise api_errors.bad_request(str(error)) from error
    own = _FIELDS.get((kind.api_version, kind.name), {})
    fields = _OF_EVERY_KIND | own
    for requirement in selector.requirements:
        if requirement.key not in fields:
            said = f'"{requirement.key}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise api_errors.bad_request(f"field label not supported: {requirement.key}" if own else said)
    reads = {requirement.key: fields[requirement.key] for requirement in selector.requirements}
    return lambda document: selector.matches({field: read(document) for field, read in reads.items()})


def _fields(written: str) -> dict[str, _Read]:
    """Read `field|default, field=path`: what stands at a path, its own without another, and what the API fills in."""
    read: dict[str, _Read] = {}
    for each in written.split(", "):
        place, _, default = each.partition("|")
        field, _, path = place.partition("=")
        read[field] = partial(_shown, path or field, default)
    return read


def _shown(path: str, default: str, document: dict[str, object]) -> str:
    found = value(document, path)
    return default if not found else "true" if found is True else str(found) if isinstance(found, str | int) else ""


def _reference(field: str) -> str:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return ", ".join(f"{field}.{part}" for part in parts)


_OF_EVERY_KIND = _fields("metadata.name, metadata.namespace")

#: By apiVersion and kind.
_FIELDS: dict[tuple[str, str], dict[str, _Read]] = {
    ("v1", "Pod"): _fields(
        "spec.nodeName, spec.host=spec.nodeName, spec.restartPolicy|Always, spec.schedulerName|default-scheduler, "
        "spec.serviceAccountName, spec.hostNetwork|false, status.phase|Pending, status.podIP, "
        "status.podIPs=status.podIP, status.nominatedNodeName"
    ),
    ("v1", "Node"): _fields("spec.unschedulable|false"),
    ("v1", "Namespace"): _fields("status.phase|Active"),
    ("v1", "Service"): _fields("spec.clusterIP, spec.type|ClusterIP"),
    ("v1", "ReplicationController"): _fields("status.replicas|0"),
    ("resource.k8s.io/v1", "ResourceSlice"): _fields("spec.nodeName, spec.driver"),
    ("v1", "Event"): {
        **_fields(f"{_reference('involvedObject')}, reason, reportingComponent, type"),
        "source": lambda event: text(event, "source.component") or text(event, "reportingComponent"),
    },
    ("events.k8s.io/v1", "Event"): _fields(f"{_reference('regarding')}, reason, reportingController, type"),
}


class Selection:
    """The objects of a namespace (empty: of all) that a query's selectors select; ClusterError 400 for nonsense."""

    def __init__(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> None:
        self.namespace = namespace
        #: The one name that the fields select; empty if they leave it open.
        self.name: str = ""
        self._labels: Callable[[Mapping[str, str]], bool] | None = None
        self._fields: Callable[[Document], bool] | None = None
        if labels := query.get("labelSelector"):
            try:
                self._labels = parse_label_selector(labels).matches
            except SelectorError as error:
                raise api_errors.bad_request(f"unable to parse requirement: {error}") from error
        if fields := query.get("fieldSelector"):
            matches, requirements = field_selector(fields, resource.kind), parse_field_selector(fields).requirements
            parts = {each.key.partition(".")[0] for each in requirements}
            if resource.shown is as_is and parts <= {"metadata", "spec", "status"}:
                self._fields = lambda document: matches(document.parts(parts))
            else:
                self._fields = lambda document: matches(resource.data(document))
            names = (each.values[0] for each in requirements if each.key == "metadata.name" and each.operator == "=")
            self.name = next(names, "")
        #: Whether all objects of the namespace are meant.
        self.selects_all: bool = self._labels is None and self._fields is None

    def selects(self, document: Document | None) -> bool:
        """Return whether the object is meant; None, where there is no object, never is."""
        if document is None:
            return False
        metadata = document.subject.metadata
        return (
            (not self.namespace or metadata.namespace == self.namespace)
            and (self._labels is None or self._labels(metadata.labels))
            and (self._fields is None or self._fields(document))
        )


class _Token(msgspec.Struct, frozen=True):
    """Where a list goes on: the version that it shows, and the last object that has been shown."""

    version: int
    namespace: str
    name: str


def listed(
    collection: Collection, selection: Selection, query: Mapping[str, str]
) -> tuple[list[Document], dict[str, str | int]]:
    """List what is selected, with the list's metadata, as `limit`, `continue` and `resourceVersion` of a query want it.

    ClusterError 400 for a query that makes no sense, 410 for a version that is forgotten, 504 for one still to come.
    """
    _check(query)
    said = query.get("limit", "")  # 0, also for a negative number, is none
    limit = 0 if said.startswith("-") and number({"limit": said[1:]}, "limit") else number(query, "limit")
    if query.get("continue"):
        begun = _read(query["continue"])
        if begun.version > collection.version:
            raise api_errors.version_expired(begun.version, collection.version)  # of another server
        version, after = begun.version, (begun.namespace, begun.name)
    else:
        wanted, version, after = number(query, "resourceVersion"), collection.version, ("", "")
        if wanted > version:
            raise too_large(wanted, version)
        if query.get("resourceVersionMatch") == "Exact":
            version = wanted
    documents: list[Document] = []
    found = collection.at(version, selection.namespace, after)
    if selection.name and (selection.namespace or not collection.kind.namespaced) and version == collection.version:
        named = collection.find((selection.namespace, selection.name))
        found = iter([named] if named is not None else [])
    for document in found:
        if selection.selects(document):
            if limit and len(documents) == limit:
                last = documents[-1]
                token = base64.urlsafe_b64encode(msgspec.json.encode(_Token(version, *last.key))).decode().rstrip("=")
                metadata: dict[str, str | int] = {"resourceVersion": str(version), "continue": token}
                if selection.selects_all:
                    metadata["remainingItemCount"] = collection.count(selection.namespace, last.key)
                return documents, metadata
            documents.append(document)
    return documents, {"resourceVersion": str(version)}


def _check(query: Mapping[str, str]) -> None:
    """Raise ClusterError 422 for options that do not go together, in the words of apimachinery's validation."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    if not match:
        if query.get("continue") and version not in ("", "0"):
            raise api_errors.bad_request("specifying resource version is not allowed when using continue")
        return
    if not version:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif query.get("continue"):
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    elif match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match:.100}": supported values: "Exact", "NotOlderThan", ""'
    elif match == "Exact" and version == "0":
        why = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    else:
        return
    message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}'
    raise ClusterError(message, status=422, reason="Invalid")


def number(query: Mapping[str, str], name: str) -> int:
    """Read a number from a query, 0 if it is not there; ClusterError 400 if it is none."""
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise api_errors.bad_request(
            f"{name}: Invalid value: {msgspec.json.encode(text).decode():.100}: it must be a number"
        )
    return int(text)


def too_large(wanted: int, current: int) -> ClusterError:
    """Say that a version is still to come: the client has seen another server, or this one before it was restarted."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ClusterError(message, status=504, reason="Timeout", retryable=True, causes=(cause,))


def _read(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except ValueError as error:
        raise api_errors.bad_request(
            "continue key is not valid: it is none that a list of this server ended with"
        ) from error
