"""Field selectors, as far as the API lets a list or a watch be narrowed by them: a few fields of a few kinds."""

from __future__ import annotations

from collections.abc import Callable

from kframework.apiserver.wire.plain_data import flag, text, value
from kframework.cluster import api_errors
from kframework.objects import Kind
from kframework.objects.field_selectors import parse_field_selector
from kframework.objects.label_selectors import SelectorError
from kframework.objects.meta import ApiObject

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
    fields = {"metadata.name": _at("metadata.name"), "metadata.namespace": _at("metadata.namespace"), **own}
    for requirement in selector.requirements:
        if requirement.key not in fields:
            raise api_errors.bad_request(_unknown(requirement.key, own))
    reads = {requirement.key: fields[requirement.key] for requirement in selector.requirements}
    return lambda document: selector.matches({field: read(document) for field, read in reads.items()})


def _unknown(field: str, own: dict[str, _Read]) -> str:
    if own:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _at(path: str, default: str = "") -> _Read:
    return lambda document: text(document, path, default)


def _flag_at(path: str) -> _Read:
    return lambda document: "true" if flag(document, path) else "false"


def _number_at(path: str) -> _Read:
    return lambda document: str(value(document, path) or 0)


def _source(event: dict[str, object]) -> str:
    return text(event, "source.component") or text(event, "reportingComponent")


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

#: By apiVersion and kind; a default is what the API would have filled in.
_FIELDS: dict[tuple[str, str], dict[str, _Read]] = {
    ("v1", "Pod"): {
        "spec.nodeName": _at("spec.nodeName"),
        "spec.host": _at("spec.nodeName"),
        "spec.restartPolicy": _at("spec.restartPolicy", "Always"),
        "spec.schedulerName": _at("spec.schedulerName", "default-scheduler"),
        "spec.serviceAccountName": _at("spec.serviceAccountName"),
        "spec.hostNetwork": _flag_at("spec.hostNetwork"),
        "status.phase": _at("status.phase", "Pending"),
        "status.podIP": _at("status.podIP"),
        "status.podIPs": _at("status.podIP"),
        "status.nominatedNodeName": _at("status.nominatedNodeName"),
    },
    ("v1", "Node"): {"spec.unschedulable": _flag_at("spec.unschedulable")},
    ("v1", "Namespace"): {"status.phase": _at("status.phase", "Active")},
    ("v1", "Service"): {"spec.clusterIP": _at("spec.clusterIP"), "spec.type": _at("spec.type", "ClusterIP")},
    ("v1", "ReplicationController"): {"status.replicas": _number_at("status.replicas")},
    ("resource.k8s.io/v1", "ResourceSlice"): {
        "spec.nodeName": _at("spec.nodeName"),
        "spec.driver": _at("spec.driver"),
    },
    ("v1", "Event"): {
        **{f"involvedObject.{name}": _at(f"involvedObject.{name}") for name in _REFERENCE},
        "reason": _at("reason"),
        "reportingComponent": _at("reportingComponent"),
        "source": _source,
        "type": _at("type"),
    },
    ("events.k8s.io/v1", "Event"): {
        **{f"regarding.{name}": _at(f"regarding.{name}") for name in _REFERENCE},
        "reason": _at("reason"),
        "reportingController": _at("reportingController"),
        "type": _at("type"),
    },
}
