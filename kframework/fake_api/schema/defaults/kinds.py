"""Which kind has which defaults; those of other kinds are few, and stand here."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import cast

from kframework.fake_api.schema.defaulting import defaulted
from kframework.fake_api.schema.defaults import pods, workloads
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

_THREE_HOURS = 10800


def service_defaults(data: Data) -> Data:
    """Fill in a Service; its addresses and ports of nodes are given out elsewhere."""
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


_FILESYSTEM: Data = {"volumeMode": {"default": "Filesystem"}}
_BY_SCHEMA: dict[tuple[str, str], Data] = {
    ("v1", "Namespace"): {"spec": {"default": {"finalizers": ["kubernetes"]}}},
    ("v1", "PersistentVolume"): {
        "spec": {"properties": {**_FILESYSTEM, "persistentVolumeReclaimPolicy": {"default": "Retain"}}}
    },
    ("v1", "PersistentVolumeClaim"): {"spec": {"properties": _FILESYSTEM}},
    ("networking.k8s.io/v1", "NetworkPolicy"): {
        "spec": {
            "properties": {
                field: {"items": {"properties": {"ports": {"items": {"properties": {"protocol": {"default": "TCP"}}}}}}}
                for field in ("ingress", "egress")
            }
        }
    },
    ("scheduling.k8s.io/v1", "PriorityClass"): {"preemptionPolicy": {"default": "PreemptLowerPriority"}},
    ("storage.k8s.io/v1", "StorageClass"): {
        "reclaimPolicy": {"default": "Delete"},
        "volumeBindingMode": {"default": "Immediate"},
    },
    ("storage.k8s.io/v1", "CSIDriver"): {
        "spec": {
            "properties": {
                "attachRequired": {"default": True},
                "podInfoOnMount": {"default": False},
                "storageCapacity": {"default": False},
                "fsGroupPolicy": {"default": "ReadWriteOnceWithFSType"},
                "volumeLifecycleModes": {"default": ["Persistent"]},
                "requiresRepublish": {"default": False},
                "seLinuxMount": {"default": False},
            }
        }
    },
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"spec": {"properties": {"minReplicas": {"default": 1}}}},
    ("autoscaling/v1", "HorizontalPodAutoscaler"): {"spec": {"properties": {"minReplicas": {"default": 1}}}},
}


def _pod(data: Data) -> Data:
    spec = data.get("spec")
    return {**data, "spec": pods.pod(spec)} if isinstance(spec, dict) else data


def _secret(data: Data) -> Data:
    """Put what is written in the open beside what is encoded, as it is stored."""
    kept = {field: value for field, value in data.items() if field != "stringData"}
    if plain := mapping(data, "stringData"):
        encoded = {key: b64encode(str(each).encode()).decode() for key, each in plain.items()}
        kept["data"] = mapping(data, "data") | encoded
    return {"type": "Opaque"} | kept


_BY_FUNCTION: dict[tuple[str, str], Callable[[Data], Data]] = {
    ("v1", "Pod"): _pod,
    ("v1", "PodTemplate"): workloads.pod_template,
    ("v1", "ReplicationController"): workloads.replication_controller,
    ("v1", "Secret"): _secret,
    ("v1", "Service"): service_defaults,
    ("apps/v1", "DaemonSet"): workloads.daemon_set,
    ("apps/v1", "Deployment"): workloads.deployment,
    ("apps/v1", "ReplicaSet"): workloads.replica_set,
    ("apps/v1", "StatefulSet"): workloads.stateful_set,
    ("batch/v1", "CronJob"): workloads.cron_job,
    ("batch/v1", "Job"): workloads.job,
}


def with_defaults(data: Data, api_version: str, kind: str) -> Data:
    """Return an object with the defaults of its kind."""
    if fill := _BY_FUNCTION.get((api_version, kind)):
        return fill(data)
    fields = _BY_SCHEMA.get((api_version, kind))
    return cast("Data", defaulted({"properties": fields}, data)) if fields else data
