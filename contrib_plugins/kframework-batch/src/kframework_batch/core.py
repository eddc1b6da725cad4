"""How the core is configured: profiles of the Filter and Score plugins that session plugins want to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kframework.engine import Configuration, NodeResourcesFit, Registry, load_configuration
from kframework_batch.program import Program

_EVENLY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]

#: The arguments of the core's plugins where Volcano's differ from kube-scheduler's defaults.
_ARGS: Mapping[str, Mapping[str, object]] = {
    "NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": _EVENLY}},
    "MostAllocated": {"scoringStrategy": {"type": "MostAllocated", "resources": _EVENLY}},
    "NodeResourcesBalancedAllocation": {"resources": [*_EVENLY, {"name": "nvidia.com/gpu", "weight": 1}]},
    "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": []},
}


class MostAllocated(NodeResourcesFit):
    """NodeResourcesFit under a second name: a profile may prefer full nodes and empty ones, by weight."""

    name = "MostAllocated"


def core_registry() -> Registry:
    """Offer the installed plugins of the core, and the second name of one of them."""
    return Registry.of(MostAllocated)


def core_configuration(program: Program, schedulers: Sequence[str], seed: int = 0) -> Configuration:
    """Configure a core profile for each scheduler name: what the plugins of a program are to ask.

    Its options are those of the program, with this seed.
    """
    filters: dict[str, None] = {}
    scores: dict[str, int] = {}
    for plugin in program.tiers.plugins:
        filters |= dict.fromkeys(plugin.core_filters)
        scores |= plugin.core_scores
    options = program.configuration.options.model_copy(update={"seed": seed})
    return replace(_configuration(schedulers, tuple(filters), scores), options=options)


def _configuration(schedulers: Sequence[str], asked: Sequence[str], scores: Mapping[str, int]) -> Configuration:
    plugins: dict[str, object] = {
        "multiPoint": {"disabled": [{"name": "*"}]},
        "queueSort": _enabled(["PrioritySort"]),
        "bind": _enabled(["DefaultBinder"]),
        "preScore": _enabled(_at("pre_score", scores)),
        "score": {"enabled": [{"name": name, "weight": weight} for name, weight in scores.items()]},
    }
    for point, key in _POINTS.items():
        plugins[key] = _enabled(_at(point, asked))
    args = [{"name": name, "args": _ARGS[name]} for name in dict.fromkeys((*asked, *scores)) if name in _ARGS]
    profiles = [{"schedulerName": name, "plugins": plugins, "pluginConfig": args} for name in schedulers]
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": profiles,
    }
    return load_configuration(scheduler)


_POINTS = {"pre_filter": "preFilter", "filter": "filter", "reserve": "reserve", "pre_bind": "preBind"}


def _enabled(names: Iterable[str]) -> dict[str, object]:
    return {"enabled": [{"name": name} for name in names]}


def _at(point: str, plugins: Iterable[str]) -> list[str]:
    """Return those of the plugins that extend a point of the core."""
    registry = core_registry()
    return [name for name in plugins if point in registry.points(name)]
