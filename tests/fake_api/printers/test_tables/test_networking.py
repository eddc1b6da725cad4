"""The rows of endpoints, ingresses and policies."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.tables import NETWORKING

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
GROUP = "networking.k8s.io/v1"


def subset(count: int) -> ApiDocument:
    return {"addresses": [{"ip": f"10.0.0.{number}"} for number in range(count)], "ports": [{"port": 80}]}


@pytest.mark.parametrize(
    ("api_version", "kind", "document", "expected"),
    [
        ("v1", "Endpoints", {}, ("<none>",)),
        ("v1", "Endpoints", {"subsets": [subset(2)]}, ("10.0.0.0:80,10.0.0.1:80",)),
        ("v1", "Endpoints", {"subsets": [subset(5)]}, ("10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...",)),
        ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4"}, ("IPv4", "<unset>", "<unset>")),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"addressType": "IPv4", "ports": [{"port": 80}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}]},
            ("IPv4", "80,*", "10.0.0.1"),
        ),
        (GROUP, "Ingress", {"spec": {"rules": [{}]}}, ("<none>", "*", "", "80")),
        (
            GROUP,
            "Ingress",
            {
                "spec": {"ingressClassName": "nginx", "tls": [{}], "rules": [{"host": "a.example"}, {"host": "b"}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb"}]}},
            },
            ("nginx", "a.example,b", "192.0.2.1,lb", "80, 443"),
        ),
        (
            GROUP,
            "IngressClass",
            {"spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}},
            ("c", "K.g/n"),
        ),
        (GROUP, "IngressClass", {"spec": {"controller": "c"}}, ("c", "<none>")),
        (GROUP, "NetworkPolicy", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, ("a=b",)),
        (GROUP, "NetworkPolicy", {"spec": {"podSelector": {}}}, ("<none>",)),
    ],
)
def test_objects_are_encoded_as_rows(
    api_version: str, kind: str, document: ApiDocument, expected: tuple[str, ...]
) -> None:
    document = {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}, **document}
    assert NETWORKING[api_version, kind].cells(document, NOW) == ("a", *expected, "5m")
