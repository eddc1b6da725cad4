"""The defaults of Services that need nothing but the Service; addresses and ports of nodes are given out elsewhere."""

from __future__ import annotations

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

_THREE_HOURS = 10800


def service(data: Data) -> Data:
    """Fill in a Service."""
    spec = mapping(data, "spec")
    kind = text(spec, "type", "ClusterIP")
    filled = {"type": kind, "sessionAffinity": "None"} | {name: told for name, told in spec.items() if told != ""}
    if filled["sessionAffinity"] == "None":
        filled.pop("sessionAffinityConfig", None)
    elif value(filled, "sessionAffinityConfig.clientIP.timeoutSeconds") is None:
        filled["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _THREE_HOURS}}
    if "ports" in spec:
        filled["ports"] = [_port(each) for each in entries(spec, "ports")]
    if kind != "ExternalName":
        filled.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs"):
        filled.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        filled.setdefault("allocateLoadBalancerNodePorts", True)
    return {**data, "spec": filled}


def _port(port: Data) -> Data:
    filled = {"protocol": "TCP"} | {name: told for name, told in port.items() if told != ""}
    if not filled.get("targetPort") and "port" in filled:
        filled["targetPort"] = filled["port"]
    return filled
