"""Objects with which nothing is wrong, from which most that are sent are made."""

from __future__ import annotations

_CONTAINER = {"name": "c", "image": "nginx", "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}
_LABELS = {"app": "web"}
_SELECTOR = {"matchLabels": _LABELS}
_POD = {"containers": [_CONTAINER], "tolerations": [{"operator": "Exists"}]}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _POD}
_ONCE = {"spec": _POD | {"restartPolicy": "Never"}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": _SCHEMA},
    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.n"}},
}

#: What an object says beside its metadata, by its kind.
VALID: dict[str, dict[str, object]] = {
    "ConfigMap": {"data": {"a": "b"}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _ONCE}}}},
    "CustomResourceDefinition": {
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [_VERSION],
        }
    },
    "DaemonSet": {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    "Deployment": {"spec": {"replicas": 2, "selector": _SELECTOR, "template": _TEMPLATE}},
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    },
    "Job": {"spec": {"template": _ONCE}},
    "Lease": {"spec": {"holderIdentity": "a"}},
    "Namespace": {},
    "Node": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "4"}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "Pod": {"spec": _POD},
    "ResourceClaim": {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}},
    "Secret": {"stringData": {"a": "b"}},
    "Service": {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}},
    "StatefulSet": {"spec": {"serviceName": "web", "selector": _SELECTOR, "template": _TEMPLATE}},
    "Widget": {"spec": {"replicas": 2}},
}

#: The only name that a definition of these widgets can have.
WIDGETS = "widgets.example.com"
