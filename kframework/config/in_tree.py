"""kube-scheduler's own plugins: the points they implement, their default order and weights, and their Args.

The table stands here rather than with the plugins because a configuration must be understood, shown and expanded
rightly even where it names one that is not built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kframework.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    VolumeBindingArgs,
)
from kframework.config.models import PluginEntry, Plugins, PluginSet
from kframework.framework.plugin import PluginArgs


@dataclass(frozen=True)
class InTreePlugin:
    """A plugin of kube-scheduler; `weight` is the one in the default set, 0 meaning 1 if the plugin scores."""

    name: str
    points: frozenset[str]
    weight: int = 0
    args: type[PluginArgs] | None = None


def _plugin(name: str, points: str, weight: int = 0, args: type[PluginArgs] | None = None) -> InTreePlugin:
    return InTreePlugin(name, frozenset(points.split()), weight, args)


_DEFAULT = (
    _plugin("SchedulingGates", "pre_enqueue"),
    _plugin("PrioritySort", "queue_sort"),
    _plugin("NodeUnschedulable", "filter"),
    _plugin("NodeName", "filter"),
    _plugin("TaintToleration", "filter pre_score score", 3),
    _plugin("NodeAffinity", "pre_filter filter pre_score score", 2, NodeAffinityArgs),
    _plugin("NodePorts", "pre_filter filter"),
    _plugin("NodeResourcesFit", "pre_filter filter pre_score score", 1, NodeResourcesFitArgs),
    _plugin("VolumeRestrictions", "pre_filter filter"),
    _plugin("NodeVolumeLimits", "pre_filter filter"),
    _plugin("VolumeBinding", "pre_filter filter pre_score score reserve pre_bind", 0, VolumeBindingArgs),
    _plugin("VolumeZone", "pre_filter filter"),
    _plugin("PodTopologySpread", "pre_filter filter pre_score score", 2, PodTopologySpreadArgs),
    _plugin("InterPodAffinity", "pre_filter filter pre_score score", 2, InterPodAffinityArgs),
    _plugin(
        "DynamicResources",
        "pre_enqueue pre_filter filter post_filter score reserve pre_bind",
        2,
        DynamicResourcesArgs,
    ),
    _plugin("DefaultPreemption", "pre_enqueue post_filter", 0, DefaultPreemptionArgs),
    _plugin("NodeResourcesBalancedAllocation", "pre_score score", 1, NodeResourcesBalancedAllocationArgs),
    _plugin("ImageLocality", "score", 1),
    _plugin("DefaultBinder", "bind"),
    _plugin("NodeDeclaredFeatures", "pre_filter filter"),
)

# Behind alpha gates, which are off: known, but in no default set.
_GATED = (
    _plugin("GangScheduling", "pre_enqueue permit"),
    _plugin("TopologyPlacementGenerator", "placement_generate"),
    _plugin("PodGroupPodsCount", "placement_score", 1),
)

#: Every plugin of kube-scheduler 1.36 by name.
known_in_tree: Mapping[str, InTreePlugin] = MappingProxyType({plugin.name: plugin for plugin in (*_DEFAULT, *_GATED)})

#: What an absent `plugins` block means: one `multiPoint` list, in this order.
DEFAULT_PLUGINS = Plugins(
    multi_point=PluginSet(enabled=tuple(PluginEntry(name=plugin.name, weight=plugin.weight) for plugin in _DEFAULT))
)

#: Plugins that earlier versions had; to name them at a specific point or in `pluginConfig` is an error of its own.
REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})


def in_tree_points(name: str) -> frozenset[str]:
    """Return the extension points of a plugin of kube-scheduler; raises KeyError for any other name."""
    return known_in_tree[name].points
