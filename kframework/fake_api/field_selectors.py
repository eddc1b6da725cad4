"""Field selectors, as far as the API lets a list or a watch be narrowed by them: a few fields of a few kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kframework.client import api_errors
from kframework.fake_api.wire.plain_data import text, value
from kframework.objects import ApiObject, Kind
from kframework.objects.field_selectors import parse_field_selector
from kframework.objects.label_selectors import SelectorError

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
