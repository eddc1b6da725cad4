"""Selection of objects in lists and watches, and paged lists, whose pages all show the version of the first."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.fake_api.calls import invalid_option
from kframework.fake_api.collection import Collection
from kframework.fake_api.resources import ApiResource, identity
from kframework.fake_api.wire.documents import ApiDocument
from kframework.objects import ApiObject, Kind
from kframework.objects.label_selectors import SelectorError, parse_label_selector
from kframework.objects.node_selectors import parse_field_selector
from kframework.objects.plain_data import text, value

_FieldReader = Callable[[dict[str, object]], str]


def compile_field_selector(text: str, kind: Kind[ApiObject]) -> Callable[[dict[str, object]], bool]:
    """Compile a selector (`=`, `==`, `!=`) into a test of objects of a kind.

    ClusterError 400 for an invalid selector, or a field that the kind cannot be selected by.
    """
    try:
        selector = parse_field_selector(text)
    except SelectorError as error:
        raise api_errors.bad_request(str(error)) from error
    own = _FIELDS.get((kind.api_version, kind.name), {})
    fields = _COMMON_FIELDS | own
    for requirement in selector.requirements:
        if requirement.key not in fields:
            problem = f'"{requirement.key}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise api_errors.bad_request(f"field label not supported: {requirement.key}" if own else problem)
    reads = {requirement.key: fields[requirement.key] for requirement in selector.requirements}
    return lambda document: selector.matches({field: read(document) for field, read in reads.items()})


def _readers(spec: str) -> dict[str, _FieldReader]:
    """Parse `field|default, field=path`: fields with their paths, if different, and the API's defaults."""
    readers: dict[str, _FieldReader] = {}
    for each in spec.split(", "):
        field_spec, _, default = each.partition("|")
        field, _, path = field_spec.partition("=")
        readers[field] = partial(_read_field, path or field, default)
    return readers


def _read_field(path: str, default: str, document: dict[str, object]) -> str:
    current = value(document, path)
    if not current:
        return default
    return "true" if current is True else str(current) if isinstance(current, str | int) else ""


def _reference_fields(field: str) -> str:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return ", ".join(f"{field}.{part}" for part in parts)


_COMMON_FIELDS = _readers("metadata.name, metadata.namespace")

_FIELDS: dict[tuple[str, str], dict[str, _FieldReader]] = {
    ("v1", "Pod"): _readers(
        "spec.nodeName, spec.host=spec.nodeName, spec.restartPolicy|Always, spec.schedulerName|default-scheduler, "
        "spec.serviceAccountName, spec.hostNetwork|false, status.phase|Pending, status.podIP, "
        "status.podIPs=status.podIP, status.nominatedNodeName"
    ),
    ("v1", "Node"): _readers("spec.unschedulable|false"),
    ("v1", "Namespace"): _readers("status.phase|Active"),
    ("v1", "Service"): _readers("spec.clusterIP, spec.type|ClusterIP"),
    ("v1", "ReplicationController"): _readers("status.replicas|0"),
    ("resource.k8s.io/v1", "ResourceSlice"): _readers("spec.nodeName, spec.driver"),
    ("v1", "Event"): {
        **_readers(f"{_reference_fields('involvedObject')}, reason, reportingComponent, type"),
        "source": lambda event: text(event, "source.component") or text(event, "reportingComponent"),
    },
    ("events.k8s.io/v1", "Event"): _readers(f"{_reference_fields('regarding')}, reason, reportingController, type"),
}


class ObjectSelection:
    """The objects that a query's selectors select, in a namespace or in all; ClusterError 400 for invalid ones."""

    def __init__(self, resource: ApiResource, namespace: str, query: Mapping[str, str]) -> None:
        self.namespace = namespace
        #: The only name that the field selector allows; empty if any.
        self.name: str = ""
        self._labels: Callable[[Mapping[str, str]], bool] | None = None
        self._fields: Callable[[ApiDocument], bool] | None = None
        if labels := query.get("labelSelector"):
            try:
                self._labels = parse_label_selector(labels).matches
            except SelectorError as error:
                raise api_errors.bad_request(f"unable to parse requirement: {error}") from error
        if fields := query.get("fieldSelector"):
            matches = compile_field_selector(fields, resource.kind)
            requirements = parse_field_selector(fields).requirements
            parts = {each.key.partition(".")[0] for each in requirements}
            if resource.to_view is identity and parts <= {"metadata", "spec", "status"}:
                self._fields = lambda document: matches(document.decode_parts(parts))
            else:
                self._fields = lambda document: matches(resource.data(document))
            names = (each.values[0] for each in requirements if each.key == "metadata.name" and each.operator == "=")
            self.name = next(names, "")
        #: Whether all objects of the namespace are selected.
        self.selects_all: bool = self._labels is None and self._fields is None

    def matches(self, document: ApiDocument | None) -> bool:
        if document is None:
            return False
        metadata = document.subject.metadata
        return (
            (not self.namespace or metadata.namespace == self.namespace)
            and (self._labels is None or self._labels(metadata.labels))
            and (self._fields is None or self._fields(document))
        )


class _ContinueToken(msgspec.Struct, frozen=True):
    """The position of a list's next page: its version, and the last object of the previous page."""

    version: int
    namespace: str
    name: str


def list_page(
    collection: Collection, selection: ObjectSelection, query: Mapping[str, str]
) -> tuple[list[ApiDocument], dict[str, str | int]]:
    """Return a page of selected objects with the list's metadata, by `limit`, `continue` and `resourceVersion`.

    ClusterError 400 for an invalid query, 410 for an expired version, 504 for a future one.
    """
    _check_version_options(query)
    number_text = query.get("limit", "")  # 0 and negative numbers mean no limit
    limit = (
        0
        if number_text.startswith("-") and parse_number({"limit": number_text[1:]}, "limit")
        else parse_number(query, "limit")
    )
    if query.get("continue"):
        token = _decode_token(query["continue"])
        if token.version > collection.version:
            raise api_errors.version_expired(token.version, collection.version)  # another server's
        version, after = token.version, (token.namespace, token.name)
    else:
        wanted, version, after = parse_number(query, "resourceVersion"), collection.version, ("", "")
        if wanted > version:
            raise version_too_large(wanted, version)
        if query.get("resourceVersionMatch") == "Exact":
            version = wanted
    documents: list[ApiDocument] = []
    candidates = collection.documents_at(version, selection.namespace, after)
    if selection.name and (selection.namespace or not collection.kind.namespaced) and version == collection.version:
        document = collection.find((selection.namespace, selection.name))
        candidates = iter([document] if document is not None else [])
    for document in candidates:
        if selection.matches(document):
            if limit and len(documents) == limit:
                last = documents[-1]
                position = msgspec.json.encode(_ContinueToken(version, *last.key))
                next_token = base64.urlsafe_b64encode(position).decode().rstrip("=")
                metadata: dict[str, str | int] = {"resourceVersion": str(version), "continue": next_token}
                if selection.selects_all:
                    metadata["remainingItemCount"] = collection.count(selection.namespace, last.key)
                return documents, metadata
            documents.append(document)
    return documents, {"resourceVersion": str(version)}


def _check_version_options(query: Mapping[str, str]) -> None:
    """Raise ClusterError 422 for options that exclude each other, with apimachinery's messages."""
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
    raise invalid_option("ListOptions", "resourceVersionMatch", why)


def parse_number(query: Mapping[str, str], name: str) -> int:
    """Parse a number in a query, 0 if it is absent; ClusterError 400 if it is invalid."""
    text = query.get(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise api_errors.bad_request(
            f"{name}: Invalid value: {msgspec.json.encode(text).decode():.100}: it must be a number"
        )
    return int(text)


def version_too_large(wanted: int, current: int) -> ClusterError:
    """Return the error for a future version, which is from another server or from before a restart."""
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ClusterError(message, status=504, reason="Timeout", retryable=True, causes=(cause,))


def _decode_token(text: str) -> _ContinueToken:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_ContinueToken)
    except ValueError as error:
        raise api_errors.bad_request("continue key is not valid: it is not from a list of this server") from error
