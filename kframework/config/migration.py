"""Profiles of v1beta1 to v1beta3, brought to v1.

What changes on the way is told with its line and what to write today; what today has nothing for is refused with what
to do instead. What the versions had is in `default_plugins.go` and `types_pluginargs.go` of Kubernetes v1.22 to v1.28.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

import yaml

from kframework.config.configuration import without_kind
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.document import Json, Place
from kframework.config.models import (
    API_VERSION,
    PluginConfigEntry,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileBlock,
    camel,
)
from kframework.errors import ConfigError
from kframework.objects.problem import Problem

_GROUP = API_VERSION.partition("/")[0]
_V1BETA1, _V1BETA2, _V1BETA3 = (f"{_GROUP}/v1beta{number}" for number in (1, 2, 3))

#: The versions that are brought to v1.
OLD_API_VERSIONS = (_V1BETA1, _V1BETA2, _V1BETA3)

_Args = Mapping[str, Json]

_FIT, _SPREAD, _LIMITS = "NodeResourcesFit", "PodTopologySpread", "NodeVolumeLimits"
_LEAST = "NodeResourcesLeastAllocated"
_SELECTOR_SPREAD = "SelectorSpread"

#: Plugins that became a strategy of NodeResourcesFit.
_STRATEGIES = {
    _LEAST: "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}

#: The plugins that do today what others did.
_SUCCESSORS = {
    **dict.fromkeys(_STRATEGIES, _FIT),
    **dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), _LIMITS),
    **dict.fromkeys((_SELECTOR_SPREAD, "DefaultPodTopologySpread"), _SPREAD),
    "NodeLabel": "NodeAffinity",
}

#: Plugins that no other replaces, and what to do without them.
_GONE = {
    "NodePreferAvoidPods": "taint the nodes with effect PreferNoSchedule",
    "ServiceAffinity": "give the pods a podAffinity with its labels as topologyKey",
}

#: Default weights up to v1beta2, of the plugins whose weight is another one since.
_OLD_WEIGHTS = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}


def migrated(
    block: ProfileBlock, version: str, place: Place, warnings: list[ConfigError], errors: list[ConfigError]
) -> ProfileBlock:
    """Return a profile of an old version in v1's form; what changed goes to `warnings`, what cannot to `errors`."""
    return _Migration(block, version, place, warnings, errors).result()


@dataclass
class _Migration:
    _block: ProfileBlock
    _version: str
    _place: Place
    _warnings: list[ConfigError]
    _errors: list[ConfigError]

    def __post_init__(self) -> None:
        self._sets = self._block.plugins.sets()
        self._keeps_selector_spread = bool(entry_points(group="kframework.plugins", name=_SELECTOR_SPREAD))

    def result(self) -> ProfileBlock:
        """Return what v1 says."""
        strategy = self._strategy()
        named = {entry.name for plugins in self._sets.values() for entry in plugins.enabled} | {strategy}
        plugins = {key: self._set(key, plugins) for key, plugins in self._sets.items()}
        config = self._config(named - {""})
        if self._version != _V1BETA3:
            plugins["score"] = self._with_old_weights(plugins["score"])
        return self._block.model_copy(update={"plugins": Plugins(**plugins), "plugin_config": tuple(config)})

    # -- plugins -------------------------------------------------------------------------------------------------------

    def _strategy(self) -> str:
        """Return which of the plugins that became strategies scores, "" for none; two are an error."""
        score = self._sets["score"]
        enabled = (*score.enabled, *self._sets["multi_point"].enabled)
        names = [entry.name for entry in enabled if entry.name in _STRATEGIES]
        if self._version == _V1BETA1 and self._is_default(_FIT, "score") and not _names(score.disabled) & {_LEAST}:
            names.append(_LEAST)
        if len(set(names)) > 1:
            both = " and ".join(dict.fromkeys(names))
            default = "" if _names(enabled) >= set(names) else f" ({_LEAST} by default)"
            message = f"{both} both score{default}, and {_FIT} has one scoringStrategy: disable one of them"
            self._refuse(self._place / "plugins" / "score", message)
        return names[0] if names else ""

    def _set(self, key: str, plugins: PluginSet) -> PluginSet:
        """Name today's plugins at a key, each where the old one stood."""
        place = self._place / "plugins" / camel(key)
        enabled: list[PluginEntry] = []
        for index, entry in enumerate(plugins.enabled):
            at, successor = place / "enabled" / index, self._successor(entry.name)
            if entry.name in _GONE:
                self._refuse(at, f"{entry.name} is not in v1: {_GONE[entry.name]}")
            elif successor is None:
                enabled.append(entry)
            elif _names((*enabled, *plugins.enabled)) & {successor} or (
                entry.name not in _STRATEGIES and self._is_default(successor, key)  # a strategy brings a weight along
            ):
                self._tell(at, f"{self._is(entry.name)}, which is there already: leave it out")
            else:
                enabled.append(entry.model_copy(update={"name": successor}))
                written = {"name": successor} | ({"weight": entry.weight} if entry.weight else {})
                self._tell(at, f"{self._is(entry.name)}; write: {_flow(written)}")
        return PluginSet(enabled=tuple(enabled), disabled=tuple(self._disabled(place, plugins, _names(enabled))))

    def _disabled(self, place: Place, plugins: PluginSet, enabled: set[str]) -> Iterator[PluginEntry]:
        for index, entry in enumerate(plugins.disabled):
            at = place / "disabled" / index
            if entry.name == _LEAST and _FIT not in enabled:
                self._tell(at, f"{self._is(entry.name)}; write: {_flow({'name': _FIT})}")
                yield PluginEntry(name=_FIT)
            elif entry.name in _GONE or self._successor(entry.name) is not None:
                self._tell(at, f"{entry.name} is not in v1: leave it out")
            else:
                yield entry

    def _successor(self, name: str) -> str | None:
        """Return who does the work of an old plugin: SelectorSpread itself where it is installed."""
        if _SUCCESSORS.get(name) == _SPREAD and self._keeps_selector_spread:
            return None if name == _SELECTOR_SPREAD else _SELECTOR_SPREAD
        return _SUCCESSORS.get(name)

    def _is_default(self, name: str, key: str) -> bool:
        disabled = _names((*self._sets[key].disabled, *self._sets["multi_point"].disabled))
        return name in IN_TREE_PLUGINS and not disabled & {"*", name}

    def _is(self, name: str) -> str:
        successor, also = self._successor(name), ""
        if name in _STRATEGIES:
            also = f" with scoringStrategy type {_STRATEGIES[name]}"
        elif successor == _SPREAD:
            also = " (as it was, kframework-selector-spread has it)"
        return f"{name} is {successor}{also} in v1"

    def _with_old_weights(self, score: PluginSet) -> PluginSet:
        """Name the plugins that an old version weighs otherwise by default."""
        kept = {name: weight for name, weight in _OLD_WEIGHTS.items() if self._is_default(name, "score")}
        added = [PluginEntry(name=name, weight=kept[name]) for name in kept if name not in _names(score.enabled)]
        if not added:
            return score
        form = {"score": {"enabled": [entry.model_dump() for entry in added]}}
        self._tell(self._place, f"default weights of {self._version} are kept; write: plugins: {_flow(form)}")
        return score.model_copy(update={"enabled": (*score.enabled, *added)})

    # -- args ----------------------------------------------------------------------------------------------------------

    def _config(self, enabled: set[str]) -> list[PluginConfigEntry]:
        """Give the args of old plugins to their successors."""
        written = {entry.name: entry for entry in self._block.plugin_config}
        if len(written) < len(self._block.plugin_config):
            return list(self._block.plugin_config)  # two entries for one plugin are refused, in any version
        for name in sorted(enabled & _STRATEGIES.keys() - {_LEAST} - written.keys()):
            written[name] = PluginConfigEntry(name=name)  # the type of a strategy has to be said
        result: dict[str, PluginConfigEntry] = {}
        for name, entry in written.items():
            at = self._entry(name)
            if name in _GONE or self._successor(name) is not None:
                if name not in enabled or name not in _ARGS:
                    self._tell(at, f"args of {name} have no effect: leave them out")
                    continue
                successor = str(self._successor(name))
                before = result.get(successor) or written.get(successor) or PluginConfigEntry(name=successor)
                result[successor] = self._given(before, name, entry, at)
            elif name == _SPREAD and self._version == _V1BETA1:
                result[name] = entry.model_copy(update={"args": _with_defaulting_type(entry.args or {})})
            else:
                result.setdefault(name, entry)
        return list(result.values())

    def _given(self, before: PluginConfigEntry, name: str, entry: PluginConfigEntry, at: Place) -> PluginConfigEntry:
        """Add what an old plugin's args come to to those of its successor."""
        try:
            made = _ARGS[name](without_kind(entry.args or {}, name, at / "args"))
        except ValueError as advice:
            self._refuse(at, f"{name} is not in v1: {advice}")
            return before
        args = before.args or {}
        if args.keys() & made.keys():
            self._refuse(at, f"args of {before.name} say {', '.join(made)} already: leave these out")
            return before
        form = {"name": before.name, "args": {**args, **made}}
        self._tell(at, f"{self._is(name)}; write: pluginConfig: {_flow([form])}")
        return PluginConfigEntry.model_validate(form)

    def _entry(self, name: str) -> Place:
        names = [entry.name for entry in self._block.plugin_config]
        place = self._place / "pluginConfig"
        return place / names.index(name) if name in names else place

    def _refuse(self, at: Place, message: str) -> None:
        self._errors.append(at.error(Problem((), message)))

    def _tell(self, at: Place, message: str) -> None:
        self._warnings.append(at.error(Problem((), message)))


def _names(entries: Sequence[PluginEntry]) -> set[str]:
    return {entry.name for entry in entries}


def _flow(value: object) -> str:
    """Write a value on one line, as it may stand in a file."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=2**31 - 1).strip()


# -- args, from old to new ---------------------------------------------------------------------------------------------


def _ratio(args: _Args) -> _Args:
    rest = {name: value for name, value in args.items() if name != "shape"}
    shape: _Args = {"requestedToCapacityRatio": {"shape": args["shape"]}} if "shape" in args else {}
    return {"scoringStrategy": {"type": "RequestedToCapacityRatio", **rest, **shape}}


def _affinity(args: _Args) -> _Args:
    """Demand the labels that NodeLabel demanded; what it preferred has no equal."""
    if not args.keys() <= {"presentLabels", "absentLabels"}:
        raise ValueError("preferences for labels are for the pods to have: a preferred nodeAffinity")
    operators = {"presentLabels": "Exists", "absentLabels": "DoesNotExist"}
    expressions = [
        {"key": label, "operator": operators[field]}
        for field, labels in args.items()
        for label in (labels if isinstance(labels, list) else ())
    ]
    terms: Json = {"nodeSelectorTerms": [{"matchExpressions": [*expressions]}]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _with_defaulting_type(args: _Args) -> _Args:
    """Say what v1beta1 took from the constraints being there."""
    listed = args.get("defaultConstraints") and not args.get("defaultingType")
    return {**args, "defaultingType": "List"} if listed else args


_ARGS: Mapping[str, Callable[[_Args], _Args]] = {
    _LEAST: lambda args: {"scoringStrategy": {"type": "LeastAllocated", **args}},
    "NodeResourcesMostAllocated": lambda args: {"scoringStrategy": {"type": "MostAllocated", **args}},
    "RequestedToCapacityRatio": _ratio,
    "NodeLabel": _affinity,
}
