"""Lists as tables: the server chooses and fills the columns that `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.client import api_errors
from kframework.fake_api.printers.custom_columns import custom_layout
from kframework.fake_api.printers.layouts import (
    Cell,
    CellReader,
    TableLayout,
    format_duration,
    format_elapsed,
    lay_out,
    parse_columns,
)
from kframework.fake_api.printers.storage import DEVICES, STORAGE
from kframework.fake_api.printers.workloads import WORKLOADS, format_selector_at, format_selector_labels, pod_cells
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.kind_versions import to_core
from kframework.objects import ApiObject, Kind, PrinterColumn
from kframework.objects.plain_data import entries, flag, mapping, name, number, text, value

_CREATED = "Name, Created At=metadata.creationTimestamp"


def _data(document: Data, now: float) -> int:
    return len(mapping(document, "data")) + len(mapping(document, "binaryData"))


def _count(field: str) -> CellReader:
    return lambda document, now: len(entries(document, field))


def _quota(limits: bool) -> CellReader:
    """Return a reader of a quota's usage: of limits, or of everything else."""

    def read_cell(quota: Data, now: float) -> str:
        hard, used = mapping(quota, "status.hard"), mapping(quota, "status.used")
        names = sorted(name for name in hard if name.startswith("limits.") is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read_cell


def _subjects(kind: str) -> CellReader:
    def read_cell(binding: Data, now: float) -> str:
        subjects = [each for each in entries(binding, "subjects") if text(each, "kind") == kind]
        return ", ".join("/".join(filter(None, (text(each, "namespace"), text(each, "name")))) for each in subjects)

    return read_cell


_BINDING = lay_out(
    "Name, Role, Age, (Users), (Groups), (ServiceAccounts)",
    {
        "Role": lambda binding, now: f"{text(binding, 'roleRef.kind')}/{text(binding, 'roleRef.name')}",
        **{"Users": _subjects("User"), "Groups": _subjects("Group"), "ServiceAccounts": _subjects("ServiceAccount")},
    },
)


def _requested_duration(request: Data, now: float) -> str:
    seconds = number(request, "spec.expirationSeconds")
    return format_duration(seconds) if seconds else "<none>"


def _condition(request: Data, now: float) -> str:
    conditions = [text(each, "type") for each in entries(request, "status.conditions")]
    issued = ["Issued"] if text(request, "status.certificate") else []
    return ",".join([*conditions, *issued]) or "Pending"


def _service(served: Data, now: float) -> str:
    name = text(served, "spec.service.name")
    return f"{text(served, 'spec.service.namespace')}/{name}" if name else "Local"


def _available(served: Data, now: float) -> str:
    for each in entries(served, "status.conditions"):
        if text(each, "type") == "Available":
            state = text(each, "status")
            return state if state == "True" else f"{state} ({text(each, 'reason')})"
    return "Unknown"


_WEBHOOKS = lay_out("Name, Webhooks:integer, Age", {"Webhooks": _count("webhooks")})

CONFIGURATION = {
    ("v1", "ConfigMap"): lay_out("Name, Data:integer, Age", {"Data": _data}),
    ("v1", "Secret"): lay_out("Name, Type=type, Data:integer, Age", {"Data": _data}),
    ("v1", "ServiceAccount"): lay_out("Name, Secrets:integer, Age", {"Secrets": _count("secrets")}),
    ("v1", "LimitRange"): lay_out(_CREATED),
    ("v1", "ResourceQuota"): lay_out("Name, Request, Limit, Age", {"Request": _quota(False), "Limit": _quota(True)}),
    ("rbac.authorization.k8s.io/v1", "Role"): lay_out(_CREATED),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): lay_out(_CREATED),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): lay_out(_CREATED),
    ("apiregistration.k8s.io/v1", "APIService"): lay_out(
        "Name, Service, Available, Age", {"Service": _service, "Available": _available}
    ),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("certificates.k8s.io/v1", "CertificateSigningRequest"): lay_out(
        "Name, Age, SignerName=spec.signerName, Requestor=spec.username, RequestedDuration, Condition",
        {"RequestedDuration": _requested_duration, "Condition": _condition},
    ),
    ("node.k8s.io/v1", "RuntimeClass"): lay_out("Name, Handler=handler, Age"),
}


#: Most entries to show; the number of others is appended.
_MAX_SHOWN = 3


def _format_first(texts: list[str]) -> str:
    if not texts:
        return "<none>"
    more = f" + {len(texts) - _MAX_SHOWN} more..." if len(texts) > _MAX_SHOWN else ""
    return ",".join(texts[:_MAX_SHOWN]) + more


def _endpoints(endpoints: Data, now: float) -> str:
    return _format_first(
        [
            ":".join(filter(None, (text(address, "ip"), str(number(port, "port") or ""))))
            for subset in entries(endpoints, "subsets")
            for port in entries(subset, "ports") or [{}]
            for address in entries(subset, "addresses")
        ]
    )


def _slice_ports(slice: Data, now: float) -> str:
    ports = entries(slice, "ports")
    return _format_first([str(number(each, "port") or "*") for each in ports]) if ports else "<unset>"


def _slice_endpoints(slice: Data, now: float) -> str:
    address_lists = [value(each, "addresses") for each in entries(slice, "endpoints")]
    addresses = [str(address) for each in address_lists if isinstance(each, list) for address in each]
    return _format_first(addresses) if addresses else "<unset>"


def _class(ingress: Data, now: float) -> str:
    annotations = value(ingress, "metadata.annotations")
    old = annotations.get("kubernetes.io/ingress.class") if isinstance(annotations, dict) else None
    return text(ingress, "spec.ingressClassName") or (str(old) if old else "<none>")


def _hosts(ingress: Data, now: float) -> str:
    hosts = [host for rule in entries(ingress, "spec.rules") if (host := text(rule, "host"))]
    return _format_first(hosts) if hosts else "*"


def _ingress_address(ingress: Data, now: float) -> str:
    points = entries(ingress, "status.loadBalancer.ingress")
    return ",".join(text(each, "ip") or text(each, "hostname") for each in points)


def _parameters(kind: Data, now: float) -> str:
    name = text(kind, "spec.parameters.name")
    if not name:
        return "<none>"
    group = text(kind, "spec.parameters.apiGroup")
    kind_name = text(kind, "spec.parameters.kind")
    return f"{kind_name}.{group}/{name}" if group else f"{kind_name}/{name}"


_GROUP = "networking.k8s.io/v1"

NETWORKING = {
    ("v1", "Endpoints"): lay_out("Name, Endpoints, Age", {"Endpoints": _endpoints}),
    ("discovery.k8s.io/v1", "EndpointSlice"): lay_out(
        "Name, AddressType=addressType, Ports, Endpoints, Age", {"Ports": _slice_ports, "Endpoints": _slice_endpoints}
    ),
    (_GROUP, "Ingress"): lay_out(
        "Name, Class, Hosts, Address, Ports, Age",
        {
            "Ports": lambda ingress, now: "80, 443" if entries(ingress, "spec.tls") else "80",
            **{"Class": _class, "Hosts": _hosts, "Address": _ingress_address},
        },
    ),
    (_GROUP, "IngressClass"): lay_out("Name, Controller=spec.controller, Parameters, Age", {"Parameters": _parameters}),
    (_GROUP, "NetworkPolicy"): lay_out(
        "Name, Pod-Selector, Age", {"Pod-Selector": lambda policy, now: format_selector_at(policy, "spec.podSelector")}
    ),
}


def build_table(
    kind: Kind[ApiObject],
    documents: Iterable[Data],
    now: float,
    include: str = "Metadata",
    additional: tuple[PrinterColumn, ...] = (),
) -> Data:
    """Build a Table of meta.k8s.io/v1 for objects of a kind, at a time in seconds since 1970.

    `include` is what each row contains of its object: `None`, `Metadata` or `Object`; ClusterError 400 for others.
    `additional` are the columns of a custom kind.
    """
    if include not in ("None", "Metadata", "Object"):
        raise api_errors.bad_request(f"includeObject {include!r:.100} must be one of None, Metadata and Object")
    described, cells = _LAYOUTS.get((kind.api_version, kind.name)) or custom_layout(additional)
    rows: list[Data] = []
    for document in documents:
        row: Data = {"cells": list(cells(document, now))}
        phase, metadata = text(document, "status.phase"), document.get("metadata")
        if document.get("kind") == "Pod" and phase in ("Succeeded", "Failed"):
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase}]
        if include == "Object":
            row["object"] = document
        elif include == "Metadata":
            row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        rows.append(row)
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
    return {**head, "columnDefinitions": described, "rows": rows}


def _node_status(node: Data, now: float) -> str:
    conditions = {text(each, "type"): text(each, "status") for each in entries(node, "status.conditions")}
    ready = {"": "Unknown", "True": "Ready"}.get(conditions.get("Ready", ""), "NotReady")
    return f"{ready},SchedulingDisabled" if flag(node, "spec.unschedulable") else ready


def _roles(node: Data, now: float) -> str:
    labels = mapping(node, "metadata.labels")
    roles = {label.removeprefix(_ROLE) for label in labels if label.startswith(_ROLE)}
    roles |= {str(role) for label, role in labels.items() if label == "kubernetes.io/role"}
    return ",".join(sorted(roles - {""})) or "<none>"


_ROLE = "node-role.kubernetes.io/"


def _address(kind: str) -> CellReader:
    def read_cell(node: Data, now: float) -> str:
        addresses = entries(node, "status.addresses")
        return next((text(each, "address") for each in addresses if text(each, "type") == kind), "<none>")

    return read_cell


def _kernel(node: Data, now: float) -> str:
    info = mapping(node, "status.nodeInfo")
    kernel, architecture = text(info, "kernelVersion", "<unknown>"), text(info, "architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _event(event: Data, now: float) -> tuple[Cell, ...]:
    if "regarding" in event or "note" in event:
        event = to_core(event)
    first = format_elapsed(text(event, "firstTimestamp") or text(event, "eventTime"), now)
    last = format_elapsed(text(event, "lastTimestamp"), now) if text(event, "lastTimestamp") else first
    count = number(event, "count") or 1
    if series := mapping(event, "series"):
        last, count = format_elapsed(text(series, "lastObservedTime"), now), number(series, "count")
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


def _cluster_address(service: Data, now: float) -> str:
    addresses = value(service, "spec.clusterIPs")
    address = addresses[0] if isinstance(addresses, list) and addresses else value(service, "spec.clusterIP")
    return address if isinstance(address, str) and address else "<none>"


def _external_address(service: Data, now: float) -> str:
    kind = text(service, "spec.type", "ClusterIP")
    if kind == "ExternalName":
        return text(service, "spec.externalName")
    ingress = entries(service, "status.loadBalancer.ingress") if kind == "LoadBalancer" else []
    addresses = sorted({text(each, "ip") or text(each, "hostname") for each in ingress} - {""})
    external = value(service, "spec.externalIPs")
    addresses += map(str, external) if isinstance(external, list) else []
    return ",".join(addresses) or ("<pending>" if kind == "LoadBalancer" else "<none>")


def _ports(service: Data, now: float) -> str:
    texts = []
    for port in entries(service, "spec.ports"):
        node_port = f":{number(port, 'nodePort')}" if number(port, "nodePort") else ""
        texts.append(f"{number(port, 'port')}{node_port}/{text(port, 'protocol', 'TCP')}")
    return ",".join(texts) or "<none>"


_EVENTS = TableLayout(
    parse_columns("Last Seen, Type, Reason, Object, (Subobject), (Source), Message, (First Seen), (Count), (Name)"),
    _event,
)
_LAYOUTS: dict[tuple[str, str], TableLayout] = {
    **STORAGE,
    **DEVICES,
    **WORKLOADS,
    **CONFIGURATION,
    **NETWORKING,
    ("v1", "Pod"): TableLayout(
        parse_columns("Name, Ready, Status, Restarts, Age, (IP), (Node), (Nominated Node), (Readiness Gates)"),
        pod_cells,
    ),
    ("v1", "Node"): lay_out(
        "Name, Status, Roles, Age, Version=status.nodeInfo.kubeletVersion, (Internal-IP), (External-IP), "
        "(OS-Image)=status.nodeInfo.osImage|<unknown>, (Kernel-Version), "
        "(Container-Runtime)=status.nodeInfo.containerRuntimeVersion|<unknown>",
        {
            **{"Status": _node_status, "Roles": _roles, "Kernel-Version": _kernel},
            **{"Internal-IP": _address("InternalIP"), "External-IP": _address("ExternalIP")},
        },
    ),
    ("v1", "Namespace"): lay_out("Name, Status=status.phase|Active, Age"),
    ("v1", "Event"): _EVENTS,
    ("events.k8s.io/v1", "Event"): _EVENTS,
    ("v1", "Service"): lay_out(
        "Name, Type=spec.type|ClusterIP, Cluster-IP, External-IP, Port(s), Age, (Selector)",
        {
            **{"Cluster-IP": _cluster_address, "External-IP": _external_address},
            **{"Port(s)": _ports, "Selector": format_selector_labels},
        },
    ),
    ("policy/v1", "PodDisruptionBudget"): lay_out(
        "Name, Min Available=spec.minAvailable|N/A, Max Unavailable=spec.maxUnavailable|N/A, "
        "Allowed Disruptions:integer=status.disruptionsAllowed, Age"
    ),
    ("scheduling.k8s.io/v1", "PriorityClass"): lay_out(
        "Name, Value:integer=value, Global-Default:boolean=globalDefault, Age, "
        "PreemptionPolicy=preemptionPolicy|PreemptLowerPriority"
    ),
    ("coordination.k8s.io/v1", "Lease"): lay_out("Name, Holder=spec.holderIdentity, Age"),
}
