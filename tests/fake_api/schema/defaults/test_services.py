"""Services are filled in as Kubernetes fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.defaults.services import service

PORT = {"port": 80}
FILLED = {"port": 80, "protocol": "TCP", "targetPort": 80}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (
            {"ports": [PORT]},
            {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [FILLED]},
        ),
        ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster"}),
        ({"type": "LoadBalancer"}, {"allocateLoadBalancerNodePorts": True, "externalTrafficPolicy": "Cluster"}),
        (
            {"sessionAffinity": "ClientIP"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
        ),
        ({"ports": [{"port": 80, "targetPort": "http"}]}, {"ports": [{**FILLED, "targetPort": "http"}]}),
    ],
)
def test_specs(spec: Any, found: Any) -> None:
    told: Any = service({"spec": spec})["spec"]
    assert told.items() >= found.items()
    assert service({"spec": told}) == {"spec": told}


def test_a_name_for_another_has_no_policy() -> None:
    told: Any = service({"spec": {"type": "ExternalName", "externalName": "x.example"}})["spec"]
    assert "internalTrafficPolicy" not in told
