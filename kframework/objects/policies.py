"""Objects by which an API server changes and limits pods: priority classes, runtime classes and limit ranges."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, ResourceList
from kframework.objects.pod import Toleration


class PriorityClass(ApiObject, frozen=True, kw_only=True):
    """A name for a priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""


class RuntimeClassOverhead(ApiStruct, frozen=True, kw_only=True):
    """The resources that a runtime takes for each pod, in addition to its containers."""

    pod_fixed: ResourceList = msgspec.field(default_factory=dict)


class RuntimeClassScheduling(ApiStruct, frozen=True, kw_only=True):
    """The nodes that have a runtime, and the tolerations that pods need to run there."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(ApiObject, frozen=True, kw_only=True):
    """A container runtime, by the name of its handler on the nodes (node.k8s.io/v1)."""

    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


class LimitRangeItem(ApiStruct, frozen=True, kw_only=True):
    """The limits of one `type`: Container, Pod or PersistentVolumeClaim; only containers have defaults."""

    type: str = ""
    max: ResourceList = msgspec.field(default_factory=dict)
    min: ResourceList = msgspec.field(default_factory=dict)
    default: ResourceList = msgspec.field(default_factory=dict)
    default_request: ResourceList = msgspec.field(default_factory=dict)
    max_limit_request_ratio: ResourceList = msgspec.field(default_factory=dict)


class LimitRangeSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a limit range."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(ApiObject, frozen=True, kw_only=True):
    """Defaults and limits for the resources of a namespace's pods and claims."""

    spec: LimitRangeSpec = LimitRangeSpec()
