"""Pods keep every field a scheduler reads."""

from __future__ import annotations

from typing import Any

from kframework.objects.pod import Pod
from tests.objects.conftest import RoundTrip

SELECTOR = {"matchLabels": {"app": "web"}}
NODE_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
POD_TERM = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaces": ["ns"],
    "namespaceSelector": {},
    "matchLabelKeys": ["a"],
    "mismatchLabelKeys": ["b"],
}
POD_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": POD_TERM}],
}
RESOURCES = {"requests": {"cpu": "1", "nvidia.com/gpu": 2}, "limits": {"cpu": 1.5}}
CONTAINER: dict[str, Any] = {
    "name": "c",
    "image": "i:1",
    "ports": [{"name": "p", "containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}],
    "resources": RESOURCES,
    "restartPolicy": "Always",
    "restartPolicyRules": [{"action": "RestartAllContainers"}],
}
STATUS = {
    "name": "c",
    "image": "i:1",
    "imageID": "sha256:0",
    "ready": True,
    "started": False,
    "restartCount": 1,
    "resources": RESOURCES,
    "allocatedResources": {"cpu": "1"},
}
POD: dict[str, Any] = {
    "metadata": {"name": "web-0", "namespace": "ns"},
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "nodeName": "n1",
        "schedulerName": "kframework",
        "priority": 0,
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": NODE_TERM}],
            },
            "podAffinity": POD_TERMS,
            "podAntiAffinity": POD_TERMS,
        },
        "tolerations": [
            {"key": "k", "operator": "Exists", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0}
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 2,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "matchLabelKeys": ["a"],
            }
        ],
        "schedulingGates": [{"name": "wait"}],
        "schedulingGroup": {"podGroupName": "g"},
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}],
        "overhead": {"cpu": "10m"},
        "resources": RESOURCES,
        "runtimeClassName": "kata",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "activeDeadlineSeconds": 9,
        "hostNetwork": True,
        "hostUsers": False,
        "hostname": "h",
        "serviceAccountName": "s",
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available",
                "observedGeneration": 1,
                "lastProbeTime": "2026-01-02T03:04:05Z",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
        "reason": "r",
        "message": "m",
        "nominatedNodeName": "n2",
        "startTime": "2026-01-02T03:04:05Z",
        "containerStatuses": [STATUS],
        "initContainerStatuses": [STATUS],
        "resources": RESOURCES,
        "allocatedResources": {"cpu": "1"},
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-0-gpu"}],
    },
}


def test_pod_encodes_and_decodes(round_trip: RoundTrip) -> None:
    pod = round_trip(Pod, POD)
    assert pod.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert pod.spec.priority == 0


def test_absent_differs_from_zero_and_null_from_empty() -> None:
    assert Pod().spec.priority is None
    assert Pod().spec.host_users is None
    assert Pod().spec.resources is None
    assert Pod().spec.containers == ()
