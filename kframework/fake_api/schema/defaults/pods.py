"""The defaults of pods and of templates of pods."""

from __future__ import annotations

from typing import cast

from kframework.fake_api.schema.defaulting import defaulted
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, text

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

_VERSION: Data = {"properties": {"apiVersion": {"default": "v1"}}}
_FIELD: Data = {"properties": {"fieldRef": _VERSION}}
_HTTP: Data = {"properties": {"path": {"default": "/"}, "scheme": {"default": "HTTP"}}}
_PROBE: Data = {
    "properties": {
        "timeoutSeconds": {"default": 1},
        "periodSeconds": {"default": 10},
        "successThreshold": {"default": 1},
        "failureThreshold": {"default": 3},
        "httpGet": _HTTP,
        "grpc": {"properties": {"service": {"default": ""}}},
    }
}
_HANDLER: Data = {"properties": {"httpGet": _HTTP}}
_CONTAINER: Data = {
    "properties": {
        "resources": {"default": {}},
        "terminationMessagePath": {"default": "/dev/termination-log"},
        "terminationMessagePolicy": {"default": "File"},
        "ports": {"items": {"properties": {"protocol": {"default": "TCP"}}}},
        "env": {"items": {"properties": {"valueFrom": _FIELD}}},
        **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
        "lifecycle": {"properties": {"postStart": _HANDLER, "preStop": _HANDLER}},
    }
}
_MODE: Data = {"default": 0o644}
_DOWNWARD: Data = {"properties": {"items": {"items": _FIELD}}}
_PROJECTED: Data = {
    "properties": {
        "serviceAccountToken": {"properties": {"expirationSeconds": {"default": 3600}}},
        "downwardAPI": _DOWNWARD,
    }
}
_VOLUME: Data = {
    "properties": {
        **{field: {"properties": {"defaultMode": _MODE}} for field in ("secret", "configMap")},
        "downwardAPI": {"properties": {"defaultMode": _MODE, "items": {"items": _FIELD}}},
        "projected": {"properties": {"defaultMode": _MODE, "sources": {"items": _PROJECTED}}},
        "hostPath": {"properties": {"type": {"default": ""}}},
        "iscsi": {"properties": {"iscsiInterface": {"default": "default"}}},
        "rbd": {
            "properties": {
                "pool": {"default": "rbd"},
                "user": {"default": "admin"},
                "keyring": {"default": "/etc/ceph/keyring"},
            }
        },
        "ephemeral": {
            "properties": {
                "volumeClaimTemplate": {
                    "properties": {"spec": {"properties": {"volumeMode": {"default": "Filesystem"}}}}
                }
            }
        },
    }
}
#: Of pods and of templates alike.
_SPEC: Data = {
    "properties": {
        "dnsPolicy": {"default": "ClusterFirst"},
        "restartPolicy": {"default": "Always"},
        "securityContext": {"default": {}},
        "terminationGracePeriodSeconds": {"default": 30},
        "schedulerName": {"default": "default-scheduler"},
        "volumes": {"items": _VOLUME},
        **{field: {"items": _CONTAINER} for field in _CONTAINERS},
    }
}


def template(spec: Data) -> Data:
    """Return the spec of a template of pods with its defaults."""
    filled = cast("Data", defaulted(_SPEC, spec))
    for field in _CONTAINERS:
        if isinstance(containers := filled.get(field), list):
            filled[field] = [_pulled(each) if isinstance(each, dict) else each for each in containers]
    if isinstance(volumes := filled.get("volumes"), list):
        filled["volumes"] = [_held(each) if isinstance(each, dict) else each for each in volumes]
    if account := text(filled, "serviceAccountName") or text(filled, "serviceAccount"):
        filled |= {"serviceAccount": account, "serviceAccountName": account}
    return filled


def pod(spec: Data) -> Data:
    """Return the spec of a pod with its defaults; what depends on the cluster is left to admission."""
    filled = {"enableServiceLinks": True, "serviceAccount": "default", "serviceAccountName": "default"}
    filled |= template(spec)
    for field in _CONTAINERS[:2]:
        if isinstance(containers := filled.get(field), list):
            host = filled.get("hostNetwork") is True
            filled[field] = [_of_a_pod(each, host=host) if isinstance(each, dict) else each for each in containers]
    return filled


def _pulled(container: Data) -> Data:
    """Pull an image anew only if it may be another by now."""
    if container.get("imagePullPolicy"):
        return container
    name = text(container, "image").rpartition("/")[2]
    is_latest = "@" not in name and name.partition(":")[2] in ("", "latest")
    return {**container, "imagePullPolicy": "Always" if is_latest else "IfNotPresent"}


def _held(volume: Data) -> Data:
    """A volume of which only the name is said is an empty folder."""
    return volume if volume.keys() - {"name"} else {**volume, "emptyDir": {}}


def _of_a_pod(container: Data, *, host: bool) -> Data:
    """Let limits stand in for requests and, on the host's network, ports for those of the host."""
    resources = mapping(container, "resources")
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    if limits.keys() - requests.keys():
        container = {**container, "resources": {**resources, "requests": limits | requests}}
    if host and isinstance(ports := container.get("ports"), list):
        container = {**container, "ports": [_on_host(each) if isinstance(each, dict) else each for each in ports]}
    return container


def _on_host(port: Data) -> Data:
    return port if port.get("hostPort") else {**port, "hostPort": port.get("containerPort", 0)}
