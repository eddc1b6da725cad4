"""Nodes keep every field a scheduler reads."""

from __future__ import annotations

from kframework.objects.node import Node, NodeSelector
from tests.objects.conftest import RoundTrip


def test_node_encodes_and_decodes(round_trip: RoundTrip) -> None:
    node = round_trip(
        Node,
        {
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {
                "unschedulable": True,
                "providerID": "cloud://1",
                "taints": [{"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}],
            },
            "status": {
                "capacity": {"cpu": 4, "memory": "8Gi"},
                "allocatable": {"cpu": 3.5, "pods": "110"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "message": "fine",
                        "lastHeartbeatTime": "2026-01-02T03:04:05Z",
                        "lastTransitionTime": "2026-01-02T03:04:05Z",
                    }
                ],
                "images": [{"names": ["a:1", "a@sha256:0"], "sizeBytes": 10}],
                "declaredFeatures": ["F"],
            },
        },
    )
    assert node.status.allocatable == {"cpu": 3.5, "pods": "110"}


def test_node_selector_encodes_and_decodes(round_trip: RoundTrip) -> None:
    requirement = {"key": "zone", "operator": "Gt", "values": ["1"]}
    terms = [{"matchExpressions": [requirement], "matchFields": [requirement]}, {}]
    selector = round_trip(NodeSelector, {"nodeSelectorTerms": terms})
    assert len(selector.node_selector_terms) == 2
