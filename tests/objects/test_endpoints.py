"""Endpoints keep what their controllers write."""

from __future__ import annotations

from kframework.objects import Endpoints, EndpointSlice
from tests.objects.conftest import RoundTrip

TARGET = {"kind": "Pod", "name": "web-0", "namespace": "ns", "uid": "u"}


def test_endpoint_slice_decodes(round_trip: RoundTrip) -> None:
    endpoint = {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": False, "serving": True, "terminating": True},
        "targetRef": TARGET,
        "nodeName": "n1",
        "zone": "a",
    }
    port = {"name": "", "port": 80, "protocol": "TCP", "appProtocol": "http"}
    data = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [endpoint], "ports": [port]}
    assert round_trip(EndpointSlice, data).ports[0].name == ""


def test_endpoints_decode(round_trip: RoundTrip) -> None:
    address = {"ip": "10.0.0.1", "nodeName": "n1", "targetRef": TARGET}
    subset = {"addresses": [address], "notReadyAddresses": [address], "ports": [{"port": 80}]}
    assert round_trip(Endpoints, {"metadata": {"name": "s"}, "subsets": [subset]}).subsets[0].ports[0].port == 80
