"""What tables say about how pods are reached: endpoints, ingresses and policies."""

from __future__ import annotations

from kframework.fake_api.printers.layouts import Document, layout
from kframework.fake_api.printers.workloads import selector_at
from kframework.fake_api.wire.plain_data import entries, number, text, value

#: So many are shown; of the rest it is said how many there are.
_SHOWN = 3


def _few(shown: list[str]) -> str:
    if not shown:
        return "<none>"
    more = f" + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else ""
    return ",".join(shown[:_SHOWN]) + more


def _endpoints(endpoints: Document, now: float) -> str:
    return _few(
        [
            ":".join(filter(None, (text(address, "ip"), str(number(port, "port") or ""))))
            for subset in entries(endpoints, "subsets")
            for port in entries(subset, "ports") or [{}]
            for address in entries(subset, "addresses")
        ]
    )


def _slice_ports(slice: Document, now: float) -> str:
    ports = entries(slice, "ports")
    return _few([str(number(each, "port") or "*") for each in ports]) if ports else "<unset>"


def _slice_endpoints(slice: Document, now: float) -> str:
    found = [value(each, "addresses") for each in entries(slice, "endpoints")]
    addresses = [str(address) for each in found if isinstance(each, list) for address in each]
    return _few(addresses) if addresses else "<unset>"


def _class(ingress: Document, now: float) -> str:
    annotations = value(ingress, "metadata.annotations")
    old = annotations.get("kubernetes.io/ingress.class") if isinstance(annotations, dict) else None
    return text(ingress, "spec.ingressClassName") or (str(old) if old else "<none>")


def _hosts(ingress: Document, now: float) -> str:
    hosts = [host for rule in entries(ingress, "spec.rules") if (host := text(rule, "host"))]
    return _few(hosts) if hosts else "*"


def _ingress_ports(ingress: Document, now: float) -> str:
    return "80, 443" if entries(ingress, "spec.tls") else "80"


def _ingress_address(ingress: Document, now: float) -> str:
    points = entries(ingress, "status.loadBalancer.ingress")
    return ",".join(text(each, "ip") or text(each, "hostname") for each in points)


def _parameters(kind: Document, now: float) -> str:
    name = text(kind, "spec.parameters.name")
    if not name:
        return "<none>"
    group = text(kind, "spec.parameters.apiGroup")
    what = text(kind, "spec.parameters.kind")
    return f"{what}.{group}/{name}" if group else f"{what}/{name}"


def _pods(policy: Document, now: float) -> str:
    return selector_at(policy, "spec.podSelector")


_GROUP = "networking.k8s.io/v1"

#: By apiVersion and kind.
NETWORKING = {
    ("v1", "Endpoints"): layout("Name, Endpoints, Age", {"Endpoints": _endpoints}),
    ("discovery.k8s.io/v1", "EndpointSlice"): layout(
        "Name, AddressType=addressType, Ports, Endpoints, Age", {"Ports": _slice_ports, "Endpoints": _slice_endpoints}
    ),
    (_GROUP, "Ingress"): layout(
        "Name, Class, Hosts, Address, Ports, Age",
        {"Class": _class, "Hosts": _hosts, "Address": _ingress_address, "Ports": _ingress_ports},
    ),
    (_GROUP, "IngressClass"): layout("Name, Controller=spec.controller, Parameters, Age", {"Parameters": _parameters}),
    (_GROUP, "NetworkPolicy"): layout("Name, Pod-Selector, Age", {"Pod-Selector": _pods}),
}
