"""What the types of Kubernetes are called, in its OpenAPI documents and in Go."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kframework.client.models import reached

_MODEL = re.compile(r"([A-Z][a-z]+)??V(\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)")

#: Of the core and of what is common to all groups; a type reached from none of them is its own group's.
_CORE_ROOTS = (
    *("V1Pod", "V1Node", "V1Service", "V1PersistentVolume", "V1PersistentVolumeClaim", "V1Namespace", "V1Secret"),
    *("V1ReplicationController", "V1ResourceQuota", "V1LimitRange", "V1Endpoints", "V1ServiceAccount", "V1ConfigMap"),
    *("V1PodTemplate", "V1ComponentStatus", "V1Binding", "CoreV1Event", "V1ScopeSelector", "V1TopologySelectorTerm"),
)
_META_ROOTS = ("V1ObjectMeta", "V1ListMeta", "V1LabelSelector", "V1Condition", "V1DeleteOptions", "V1Status")

_PACKAGES = {
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}


class TypeName(NamedTuple):
    """A type's name in Go, and the version of its group, which is its package there."""

    version: str
    name: str

    def __str__(self) -> str:
        return f"{self.version}.{self.name}"


@cache
def type_name(model: str) -> TypeName:
    """Name the type that a model is of: `V1PodSpec` is `v1.PodSpec`."""
    found = _MODEL.fullmatch(model)
    return TypeName(f"v{found[2]}", found[3]) if found else TypeName("v1", model)


def component(model: str, group: str) -> str:
    """Name a type as OpenAPI documents do, where a document of this group needs it: `io.k8s.api.core.v1.PodSpec`."""
    version, name = type_name(model)
    if model in _meta():
        return f"io.k8s.apimachinery.pkg.apis.meta.{version}.{name}"
    prefix = found[1] if (found := _MODEL.fullmatch(model)) else None
    own = (prefix or ("core" if model in _core() else group)).lower().partition(".")[0]
    package = _PACKAGES.get(own, f"io.k8s.api.{own or 'core'}")
    return f"{package}.{version}.{name}"


@cache
def _core() -> frozenset[str]:
    return frozenset(reached(_CORE_ROOTS))


@cache
def _meta() -> frozenset[str]:
    return frozenset(reached(_META_ROOTS))
