"""Objects as a real API server takes them."""

from __future__ import annotations

from tests.end_to_end.api import Json

PODS = "/api/v1/namespaces/default/pods"


def node(name: str, cpu: int) -> Json:
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, **spec: object) -> Json:
    """Make a pod that takes one CPU."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
