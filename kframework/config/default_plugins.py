"""The plugins of kube-scheduler: the default set with weights, those behind gates, and removed ones.

Their extension points and Args are defined by the plugins themselves.
"""

from __future__ import annotations

from kframework.config.models import PluginEntry, Plugins, PluginSet
from kframework.values.feature_gates import FeatureGates

#: The default plugins in order, with their weights; 0 means 1 if the plugin scores.
_WEIGHTS = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}

#: The plugins that GenericWorkload adds to the default ones, and those that TopologyAwareWorkloadScheduling adds.
GROUP_PLUGINS, PLACEMENT_PLUGINS = ("GangScheduling",), ("TopologyPlacementGenerator", "PodGroupPodsCount")


def default_plugins(gates: FeatureGates) -> Plugins:
    """Return the plugins of an absent `plugins` block: one `multiPoint` list."""
    gated = (*(GROUP_PLUGINS if gates.has_pod_groups else ()), *(PLACEMENT_PLUGINS if gates.has_placements else ()))
    weights = {**_WEIGHTS, **dict.fromkeys(gated, 0)}
    entries = tuple(PluginEntry(name=name, weight=weight) for name, weight in weights.items())
    return Plugins(multi_point=PluginSet(enabled=entries))


#: The names of all of them.
IN_TREE_PLUGINS: frozenset[str] = frozenset({*_WEIGHTS, *GROUP_PLUGINS, *PLACEMENT_PLUGINS})

#: Plugins that earlier versions had; to name them at a specific point or in `pluginConfig` is an error of its own.
REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

#: What to do about them.
REPLACEMENT = "remove it: NodeVolumeLimits, a default plugin, counts these volumes"
