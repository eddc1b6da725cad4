"""Which lists of an object are merged element by element, and what tells their elements apart.

The table is Kubernetes' own (`patchStrategy` and `patchMergeKey` of its types) for the kinds that are served. A list
that does not stand here is one value: whoever changes it replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The merge key of a list whose elements are strings, each of which it holds once.
SET = ""

_METADATA = {"ownerReferences": "uid", "finalizers": SET}
_CONTAINER = {"ports": "containerPort", "env": "name", "volumeMounts": "mountPath", "volumeDevices": "devicePath"}
_CONTAINER_STATUS = {"volumeMounts": "mountPath", "allocatedResourcesStatus": "name"}
_CONDITIONS = {"status.conditions": "type"}


def _under(path: str, keys: Mapping[str, str]) -> dict[str, str]:
    return {f"{path}.{field}": key for field, key in keys.items()}


_POD_SPEC = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    **dict.fromkeys(("initContainers", "containers", "ephemeralContainers"), "name"),
    **_under("initContainers", _CONTAINER),
    **_under("containers", _CONTAINER),
    **_under("ephemeralContainers", _CONTAINER),
}
_POD_STATUS = {
    "conditions": "type",
    "hostIPs": "ip",
    "podIPs": "ip",
    "resourceClaimStatuses": "name",
    **_under("initContainerStatuses", _CONTAINER_STATUS),
    **_under("containerStatuses", _CONTAINER_STATUS),
    **_under("ephemeralContainerStatuses", _CONTAINER_STATUS),
}
_WORKLOAD = {
    **_CONDITIONS,
    **_under("spec.template.metadata", _METADATA),
    **_under("spec.template.spec", _POD_SPEC),
    **_under("spec.volumeClaimTemplates.metadata", _METADATA),
}

_JOB = _under("spec.template.metadata", _METADATA) | _under("spec.template.spec", _POD_SPEC)
_WEBHOOKS = {"webhooks": "name", "webhooks.matchConditions": "name"}
_POLICY = {"spec.matchConditions": "name", "spec.variables": "name"}

_OF_EVERY_KIND = _under("metadata", _METADATA)
_OF_KIND: dict[str, dict[str, str]] = {
    "CSINode": {"spec.drivers": "name"},
    "CronJob": {
        **_under("spec.jobTemplate.metadata", _METADATA),
        **_under("spec.jobTemplate", _JOB),
    },
    "DaemonSet": _WORKLOAD,
    "Deployment": _WORKLOAD,
    "HorizontalPodAutoscaler": _CONDITIONS,
    "Job": {**_CONDITIONS, **_JOB},
    "MutatingAdmissionPolicy": _POLICY,
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "Namespace": _CONDITIONS,
    "Node": {**_CONDITIONS, "status.addresses": "type", "spec.podCIDRs": SET},
    "PersistentVolumeClaim": _CONDITIONS,
    "Pod": {**_under("spec", _POD_SPEC), **_under("status", _POD_STATUS)},
    "PodDisruptionBudget": _CONDITIONS,
    "PodTemplate": _under("template.metadata", _METADATA) | _under("template.spec", _POD_SPEC),
    "ReplicaSet": _WORKLOAD,
    "ReplicationController": _WORKLOAD,
    "ResourceClaim": {"status.reservedFor": "uid"},
    "Service": {**_CONDITIONS, "spec.ports": "port"},
    "ServiceAccount": {"imagePullSecrets": "name", "secrets": "name"},
    "ServiceCIDR": _CONDITIONS,
    "StatefulSet": _WORKLOAD,
    "ValidatingAdmissionPolicy": _POLICY,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
}


def merge_key(kind: str, path: str) -> str | None:
    """Name the field that tells the elements of a list apart, SET for a set of strings; None if the list is one value.

    `path` goes from the object down, through lists without indices: `spec.containers.env`.
    """
    return _OF_KIND.get(kind, {}).get(path, _OF_EVERY_KIND.get(path))


def is_replaced(kind: str, path: str) -> bool:
    """Return whether a mapping is one value, so that a patch replaces it instead of merging into it."""
    return (kind, path) == ("PodDisruptionBudget", "spec.selector")
