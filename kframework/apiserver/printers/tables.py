"""Lists as tables: the columns that `kubectl get` prints are chosen and filled in by the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kframework.apiserver.event_versions import to_core
from kframework.apiserver.printers.ages import since
from kframework.apiserver.printers.pod_cells import pod_cells
from kframework.apiserver.printers.storage_cells import (
    csi_driver_cells,
    csi_node_cells,
    csi_storage_capacity_cells,
    persistent_volume_cells,
    persistent_volume_claim_cells,
    storage_class_cells,
    volume_attachment_cells,
)
from kframework.apiserver.wire.plain_data import age, entries, flag, mapping, name, number, text, value
from kframework.cluster import api_errors
from kframework.objects import Kind, LabelSelector
from kframework.objects.label_selectors import label_selector
from kframework.objects.meta import ApiObject

_Document = dict[str, object]
_Cell = str | int | bool
_Cells = tuple[_Cell, ...]


class _Layout(NamedTuple):
    """The columns of a kind, and what fills them.

    Columns are separated by commas; one in parentheses shows in the output format `wide` only. They hold strings, if no
    other type stands behind a colon.
    """

    columns: str
    cells: Callable[[_Document, float], _Cells]


def table(kind: Kind[ApiObject], documents: Iterable[_Document], now: float, include: str = "Metadata") -> _Document:
    """Lay objects of a kind out as a Table of meta.k8s.io/v1, at a time in seconds since 1970.

    `include` says what each row carries of its object: `None`, `Metadata` or `Object`; ClusterError 400 for any other.
    """
    if include not in ("None", "Metadata", "Object"):
        raise api_errors.bad_request(f"includeObject {include!r:.100} must be one of None, Metadata and Object")
    columns, cells = _LAYOUTS.get((kind.api_version, kind.name), _Layout("Name, Age", _name_and_age))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_column(column) for column in columns.split(", ")],
        "rows": [_row(document, cells(document, now), include) for document in documents],
    }


def _column(written: str) -> _Document:
    is_wide = written.startswith("(")
    title, _, type_name = (written[1:-1] if is_wide else written).partition(":")
    return {
        "name": title,
        "type": type_name or "string",
        "format": "name" if title == "Name" else "",
        "description": "",
        "priority": int(is_wide),
    }


def _row(document: _Document, cells: _Cells, include: str) -> _Document:
    row: _Document = {"cells": list(cells)}
    if document.get("kind") == "Pod" and text(document, "status.phase") in ("Succeeded", "Failed"):
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": text(document, "status.phase")}]
    if include == "Object":
        row["object"] = document
    elif include == "Metadata":
        metadata = document.get("metadata")
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return row


# -- the kinds -----------------------------------------------------------------------------------------------------


def _name_and_age(document: _Document, now: float) -> _Cells:
    return name(document), age(document, now)


def _node(node: _Document, now: float) -> _Cells:
    conditions = {text(each, "type"): text(each, "status") for each in entries(node, "status.conditions")}
    status = "Unknown"
    if "Ready" in conditions:
        status = "Ready" if conditions["Ready"] == "True" else "NotReady"
    if flag(node, "spec.unschedulable"):
        status += ",SchedulingDisabled"
    labels = mapping(node, "metadata.labels")
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)}
    roles |= {str(role) for label, role in labels.items() if label == "kubernetes.io/role"}
    info = mapping(node, "status.nodeInfo")
    kernel, architecture = text(info, "kernelVersion", "<unknown>"), text(info, "architecture")
    return (
        name(node),
        status,
        ",".join(sorted(roles - {""})) or "<none>",
        age(node, now),
        text(info, "kubeletVersion"),
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        text(info, "osImage", "<unknown>"),
        f"{kernel} ({architecture})" if architecture else kernel,
        text(info, "containerRuntimeVersion", "<unknown>"),
    )


_ROLE = "node-role.kubernetes.io/"


def _address(node: _Document, kind: str) -> str:
    addresses = entries(node, "status.addresses")
    return next((text(each, "address") for each in addresses if text(each, "type") == kind), "<none>")


def _namespace(namespace: _Document, now: float) -> _Cells:
    return name(namespace), text(namespace, "status.phase", "Active"), age(namespace, now)


def _event(event: _Document, now: float) -> _Cells:
    if "regarding" in event or "note" in event:
        event = to_core(event)
    first = since(text(event, "firstTimestamp") or text(event, "eventTime"), now)
    last = since(text(event, "lastTimestamp"), now) if text(event, "lastTimestamp") else first
    count = number(event, "count") or 1
    if series := mapping(event, "series"):
        last, count = since(text(series, "lastObservedTime"), now), number(series, "count")
    subject = mapping(event, "involvedObject")
    source = text(event, "source.component") or text(event, "reportingComponent")
    instance = text(event, "source.host") or text(event, "reportingInstance")
    return (
        last,
        text(event, "type"),
        text(event, "reason"),
        "/".join(filter(None, (text(subject, "kind").lower(), text(subject, "name")))),
        text(subject, "fieldPath"),
        f"{source}, {instance}" if instance else source,
        text(event, "message").strip(),
        first,
        count,
        name(event),
    )


def _service(service: _Document, now: float) -> _Cells:
    addresses = value(service, "spec.clusterIPs")
    address = addresses[0] if isinstance(addresses, list) and addresses else value(service, "spec.clusterIP")
    return (
        name(service),
        text(service, "spec.type", "ClusterIP"),
        address if isinstance(address, str) and address else "<none>",
        _external_address(service),
        ",".join(_port(port) for port in entries(service, "spec.ports")) or "<none>",
        age(service, now),
        _labels(mapping(service, "spec.selector")),
    )


def _external_address(service: _Document) -> str:
    kind = text(service, "spec.type", "ClusterIP")
    if kind == "ExternalName":
        return text(service, "spec.externalName")
    ingress = entries(service, "status.loadBalancer.ingress") if kind == "LoadBalancer" else []
    addresses = sorted({text(each, "ip") or text(each, "hostname") for each in ingress} - {""})
    external = value(service, "spec.externalIPs")
    addresses += map(str, external) if isinstance(external, list) else []
    return ",".join(addresses) or ("<pending>" if kind == "LoadBalancer" else "<none>")


def _port(port: _Document) -> str:
    node_port = number(port, "nodePort")
    number_text = f"{number(port, 'port')}:{node_port}" if node_port else str(number(port, "port"))
    return f"{number_text}/{text(port, 'protocol', 'TCP')}"


def _replicas(workload: _Document) -> int:
    """Return how many replicas are wanted, one if the object does not say."""
    return 1 if value(workload, "spec.replicas") is None else number(workload, "spec.replicas")


def _containers(workload: _Document) -> tuple[str, str]:
    """Name the containers of a pod template, and their images."""
    containers = entries(workload, "spec.template.spec.containers")
    return ",".join(text(each, "name") for each in containers), ",".join(text(each, "image") for each in containers)


def _replication_controller(controller: _Document, now: float) -> _Cells:
    return *_replica_counts(controller, now), _labels(mapping(controller, "spec.selector"))


def _replica_set(replica_set: _Document, now: float) -> _Cells:
    return *_replica_counts(replica_set, now), _selector(value(replica_set, "spec.selector"))


def _replica_counts(workload: _Document, now: float) -> _Cells:
    current, ready = number(workload, "status.replicas"), number(workload, "status.readyReplicas")
    return name(workload), _replicas(workload), current, ready, age(workload, now), *_containers(workload)


def _stateful_set(stateful_set: _Document, now: float) -> _Cells:
    ready = f"{number(stateful_set, 'status.readyReplicas')}/{_replicas(stateful_set)}"
    return name(stateful_set), ready, age(stateful_set, now), *_containers(stateful_set)


def _labels(labels: dict[str, object]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"


def _selector(selector: object) -> str:
    try:
        return str(label_selector(msgspec.convert(selector, LabelSelector))) or "<none>"
    except ValueError:
        return "<error>"


def _pod_disruption_budget(budget: _Document, now: float) -> _Cells:
    least, most = (value(budget, f"spec.{bound}") for bound in ("minAvailable", "maxUnavailable"))
    return (
        name(budget),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        number(budget, "status.disruptionsAllowed"),
        age(budget, now),
    )


def _priority_class(priority_class: _Document, now: float) -> _Cells:
    return (
        name(priority_class),
        number(priority_class, "value"),
        flag(priority_class, "globalDefault"),
        age(priority_class, now),
        text(priority_class, "preemptionPolicy", "PreemptLowerPriority"),
    )


def _lease(lease: _Document, now: float) -> _Cells:
    return name(lease), text(lease, "spec.holderIdentity"), age(lease, now)


_REPLICAS = "Name, Desired:integer, Current:integer, Ready:integer, Age, (Containers), (Images), (Selector)"
_EVENTS = _Layout(
    "Last Seen, Type, Reason, Object, (Subobject), (Source), Message, (First Seen), (Count), (Name)", _event
)
#: By apiVersion and kind.
_LAYOUTS: dict[tuple[str, str], _Layout] = {
    ("v1", "Pod"): _Layout(
        "Name, Ready, Status, Restarts, Age, (IP), (Node), (Nominated Node), (Readiness Gates)", pod_cells
    ),
    ("v1", "Node"): _Layout(
        "Name, Status, Roles, Age, Version, (Internal-IP), (External-IP), (OS-Image), (Kernel-Version), "
        "(Container-Runtime)",
        _node,
    ),
    ("v1", "Namespace"): _Layout("Name, Status, Age", _namespace),
    ("v1", "Event"): _EVENTS,
    ("events.k8s.io/v1", "Event"): _EVENTS,
    ("v1", "Service"): _Layout("Name, Type, Cluster-IP, External-IP, Port(s), Age, (Selector)", _service),
    ("v1", "ReplicationController"): _Layout(_REPLICAS, _replication_controller),
    ("apps/v1", "ReplicaSet"): _Layout(_REPLICAS, _replica_set),
    ("apps/v1", "StatefulSet"): _Layout("Name, Ready, Age, (Containers), (Images)", _stateful_set),
    ("v1", "PersistentVolume"): _Layout(
        "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, "
        "Age, (VolumeMode)",
        persistent_volume_cells,
    ),
    ("v1", "PersistentVolumeClaim"): _Layout(
        "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, (VolumeMode)",
        persistent_volume_claim_cells,
    ),
    ("storage.k8s.io/v1", "StorageClass"): _Layout(
        "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion:boolean, Age", storage_class_cells
    ),
    ("storage.k8s.io/v1", "CSINode"): _Layout("Name, Drivers:integer, Age", csi_node_cells),
    ("storage.k8s.io/v1", "CSIDriver"): _Layout(
        "Name, AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, TokenRequests, "
        "RequiresRepublish:boolean, Modes, Age",
        csi_driver_cells,
    ),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): _Layout(
        "Name, StorageClassName, Capacity", csi_storage_capacity_cells
    ),
    ("storage.k8s.io/v1", "VolumeAttachment"): _Layout(
        "Name, Attacher, PV, Node, Attached:boolean, Age", volume_attachment_cells
    ),
    ("policy/v1", "PodDisruptionBudget"): _Layout(
        "Name, Min Available, Max Unavailable, Allowed Disruptions:integer, Age", _pod_disruption_budget
    ),
    ("scheduling.k8s.io/v1", "PriorityClass"): _Layout(
        "Name, Value:integer, Global-Default:boolean, Age, PreemptionPolicy", _priority_class
    ),
    ("coordination.k8s.io/v1", "Lease"): _Layout("Name, Holder, Age", _lease),
}
