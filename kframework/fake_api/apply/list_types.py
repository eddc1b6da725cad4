"""Which lists of Kubernetes' own types are maps or sets, and which of their objects and maps are one value.

The tables are those of `+listType`, `+listMapKey`, `+mapType` and `+structType` in Kubernetes' types, by the names of
types, which mean the same in all versions. Strategic merge patches go by another one, in which a list has one key only.
"""

from __future__ import annotations

from kframework.fake_api.schema.names import type_name

#: The keys of a list whose elements are its own keys.
SET: tuple[str, ...] = ()

_Keys = dict[str, tuple[str, ...]]

_CONTAINER: _Keys = {
    "ports": ("containerPort", "protocol"),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
}
_CONDITIONAL: _Keys = {"matchConditions": ("name",)}

_LISTS: dict[str, _Keys] = {
    "ObjectMeta": {"finalizers": SET, "ownerReferences": ("uid",)},
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "ContainerRestartRuleOnExitCodes": {"values": SET},
    "ContainerStatus": {"allocatedResourcesStatus": ("name",), "volumeMounts": ("mountPath",)},
    "CSIDriverSpec": {"volumeLifecycleModes": SET},
    "CSINodeSpec": {"drivers": ("name",)},
    "Endpoint": {"addresses": SET},
    "JSONSchemaProps": {"x-kubernetes-validations": ("rule",)},
    "MutatingAdmissionPolicySpec": _CONDITIONAL,
    "MutatingWebhook": _CONDITIONAL,
    "MutatingWebhookConfiguration": {"webhooks": ("name",)},
    "NodeAllocatableResourceClaimStatus": {"containers": SET},
    "NodeSpec": {"podCIDRs": SET},
    "NodeStatus": {"addresses": ("type",)},
    "NonResourcePolicyRule": {"nonResourceURLs": SET, "verbs": SET},
    "PodFailurePolicyOnExitCodesRequirement": {"values": SET},
    "PodGroupSpec": {"resourceClaims": ("name",)},
    "PodGroupStatus": {"resourceClaimStatuses": ("name",)},
    "PodGroupTemplate": {"resourceClaims": ("name",)},
    "PodSpec": {
        **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "volumes"), ("name",)),
        **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates"), ("name",)),
        "hostAliases": ("ip",),
        "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    },
    "PodStatus": {"podIPs": ("ip",), "resourceClaimStatuses": ("name",)},
    "ResourceClaimStatus": {"devices": ("driver", "device", "pool", "shareID"), "reservedFor": ("uid",)},
    "ResourcePolicyRule": dict.fromkeys(("apiGroups", "namespaces", "resources", "verbs"), SET),
    "ResourceRequirements": {"claims": ("name",)},
    "ResourceStatus": {"resources": ("resourceID",)},
    "ServiceAccount": {"secrets": ("name",)},
    "ServiceSpec": {"ports": ("port", "protocol")},
    "UncountedTerminatedPods": {"failed": SET, "succeeded": SET},
    "ValidatingAdmissionPolicyBindingSpec": {"validationActions": SET},
    "ValidatingAdmissionPolicySpec": {"matchConditions": ("name",), "variables": ("name",)},
    "ValidatingWebhook": _CONDITIONAL,
    "ValidatingWebhookConfiguration": {"webhooks": ("name",)},
    "WorkloadSpec": {"podGroupTemplates": ("name",)},
}
_CONDITIONS = ("type",)
#: Where conditions are one list that is replaced.
_ATOMIC_CONDITIONS = frozenset({"JobStatus"})

_ATOMIC_TYPES = frozenset(
    "ConfigMapKeySelector CrossVersionObjectReference EndpointAddress EndpointPort FileKeySelector LabelSelector"
    " LocalObjectReference MatchResources NamedRuleWithOperations NodeSelector NodeSelectorTerm ObjectFieldSelector"
    " ObjectReference OwnerReference ParamKind ParamRef ResourceFieldSelector RoleRef ScopeSelector SecretKeySelector"
    " SecretReference ServiceBackendPort Subject TopologySelectorTerm TypedLocalObjectReference Variable".split()
)
#: What bears the name of such a type, or is of one, and yet is merged.
_GRANULAR = frozenset({"FlowcontrolV1Subject", "V2CrossVersionObjectReference"})
_GRANULAR_FIELDS = frozenset({("PersistentVolumeSpec", "claimRef")})
_ATOMIC_MAPS = frozenset(
    {
        ("PodSpec", "nodeSelector"),
        ("ReplicationControllerSpec", "selector"),
        ("Scheduling", "nodeSelector"),
        ("ServiceSpec", "selector"),
    }
)
#: What a key counts as where it is not said.
_DEFAULTS = {"protocol": "TCP"}


def list_map_keys(model: str, name: str) -> tuple[str, ...] | None:
    """Return what tells the elements of a list apart, SET if they do themselves; None if the list is one value."""
    owner = type_name(model).name
    if name == "conditions" and owner.endswith("Status") and owner not in _ATOMIC_CONDITIONS:
        return _CONDITIONS
    return _LISTS.get(owner, {}).get(name)


def default_of(key: str) -> object:
    """Return what a key of an element counts as where it is not said; None if it has no default."""
    return _DEFAULTS.get(key)


def is_atomic_map(model: str, name: str) -> bool:
    """Return whether a map is one value."""
    return (type_name(model).name, name) in _ATOMIC_MAPS


def is_atomic_object(model: str, name: str, held: str) -> bool:
    """Return whether the object of a type `held` that stands in a field, or in a list or map there, is one value."""
    if held in _GRANULAR or (type_name(model).name, name) in _GRANULAR_FIELDS:
        return False
    return type_name(held).name in _ATOMIC_TYPES
