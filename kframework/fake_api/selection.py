"""Which objects a list or a watch is about: a namespace, labels, and the fields that Kubernetes selects by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kframework.client import api_errors
from kframework.fake_api.served import Resource, as_is
from kframework.fake_api.wire.documents import Document
from kframework.fake_api.wire.plain_data import text, value
from kframework.objects import ApiObject, Kind
from kframework.objects.field_selectors import parse_field_selector
from kframework.objects.label_selectors import SelectorError, parse_label_selector

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
            raise api_errors.bad_request(_unknown(requirement.key, own))
    reads = {requirement.key: fields[requirement.key] for requirement in selector.requirements}
    return lambda document: selector.matches({field: read(document) for field, read in reads.items()})


def _unknown(field: str, own: dict[str, _Read]) -> str:
    if own:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


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


def _source(event: dict[str, object]) -> str:
    return text(event, "source.component") or text(event, "reportingComponent")


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
        "source": _source,
    },
    ("events.k8s.io/v1", "Event"): _fields(f"{_reference('regarding')}, reason, reportingController, type"),
}


class Selection:
    """The objects of a namespace (empty: of all) that `labelSelector` and `fieldSelector` of a query select.

    Raises ClusterError 400 for selectors that make no sense.
    """

    def __init__(self, resource: Resource, namespace: str, query: Mapping[str, str]) -> None:
        self.namespace = namespace
        #: The one name that the fields select; empty if they leave it open.
        self.name: str = ""
        self._labels: Callable[[Mapping[str, str]], bool] | None = None
        self._fields: Callable[[Document], bool] | None = None
        if labels := query.get("labelSelector"):
            self._labels = _label_selector(labels)
        if fields := query.get("fieldSelector"):
            matches, requirements = field_selector(fields, resource.kind), parse_field_selector(fields).requirements
            parts = {each.key.partition(".")[0] for each in requirements}
            if resource.shown is as_is and parts <= {"metadata", "spec", "status"}:
                self._fields = lambda document: matches(document.parts(parts))
            else:
                self._fields = lambda document: matches(resource.data(document))
            names = (each.values[0] for each in requirements if each.key == "metadata.name" and each.operator == "=")
            self.name = next(names, "")

    @property
    def selects_all(self) -> bool:
        """Whether all objects of the namespace are meant."""
        return self._labels is None and self._fields is None

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


def _label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return parse_label_selector(text).matches
    except SelectorError as error:
        raise api_errors.bad_request(f"unable to parse requirement: {error}") from error
