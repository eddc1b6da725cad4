"""From a profile's plugin sets to the plugins of each extension point, in the order in which they run.

Its own sets are merged into the default ones, key by key; then `multi_point` is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kframework.config.configuration import Configuration, ProfileConfiguration, plugin_references
from kframework.config.default_plugins import (
    GROUP_PLUGINS,
    IN_TREE_PLUGINS,
    PLACEMENT_PLUGINS,
    REMOVED_PLUGINS,
    REPLACEMENT,
)
from kframework.config.models import GROUP_POINTS, POINTS, PluginEntry, Plugins, PluginSet, camel
from kframework.errors import ConfigError, collect_errors, nearest_name, raise_collected
from kframework.objects.problem import Problem

#: Returns the extension points that a plugin implements; raises KeyError for a name that is not registered.
PointsLookup = Callable[[str], frozenset[str]]

#: Under `disabled`: every default plugin.
_ALL = "*"

#: What to do about a plugin that is not there.
_MISSING = "install its package, or name its class with --plugin FILE.py:CLASS"

_EXPANDED = (*POINTS, *GROUP_POINTS)
_MAX_NODE_SCORE = 100
_MAX_TOTAL_SCORE = 2**63 - 1


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Return the plugins that a profile ends up with, before `multi_point` is expanded."""
    sets = custom.sets()
    return Plugins(**{key: merge_sets(default, sets[key]) for key, default in defaults.sets().items()})


def merge_sets(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge one key: a default plugin named again is replaced at its position, other names are appended.

    "Enabled" beats "disabled": a default plugin that is both moves to the end.
    """
    chosen = {entry.name: index for index, entry in enumerate(custom.enabled)}  # of duplicates the last
    enabled: list[PluginEntry] = []
    placed: set[int] = set()
    disabled = {entry.name for entry in custom.disabled}
    for entry in default.enabled:
        if _ALL in disabled or entry.name in disabled:
            continue
        if entry.name in chosen:
            placed.add(chosen[entry.name])
            enabled.append(custom.enabled[chosen[entry.name]])
        else:
            enabled.append(entry)
    enabled += [entry for index, entry in enumerate(custom.enabled) if index not in placed]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(PluginEntry(name=entry.name) for entry in custom.disabled))


@dataclass(frozen=True)
class ExtensionPoints:
    """The names of the plugins of each point in order, and the weight of each plugin that scores."""

    order: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]

    def __getitem__(self, point: str) -> tuple[str, ...]:
        return self.order[point]


def expand_all(
    configuration: Configuration, points_of: PointsLookup, known: Collection[str] = ()
) -> tuple[ExtensionPoints, ...]:
    """Expand every profile, and check that all have the same queue sort; see `expand`."""
    errors: list[ConfigError] = []
    expanded: list[ExtensionPoints] = []
    for profile in configuration.profiles:
        with collect_errors(errors):
            expanded.append(expand(profile, points_of, known))
    raise_collected(errors)
    (first,) = expanded[0]["queue_sort"]
    for profile, points in zip(configuration.profiles, expanded, strict=True):
        (name,) = points["queue_sort"]
        if name != first:
            message = f'different queue sort plugins for profile "{profile.scheduler_name}": "{name}", first: "{first}"'
            errors.append(profile.location.error(Problem(("plugins",), message)))
        elif profile.args.get(name) != configuration.profiles[0].args.get(name):
            message = f'different queue sort plugin args for profile "{profile.scheduler_name}"'
            errors.append(profile.location.error(Problem(("pluginConfig",), message)))
    raise_collected(errors)
    return tuple(expanded)


def expand(profile: ProfileConfiguration, points_of: PointsLookup, known: Collection[str] = ()) -> ExtensionPoints:
    """Return the plugins of each extension point of a profile.

    `known` are the names that `points_of` has, for hints. Raises ConfigError (ConfigErrors) in kube-scheduler's words.
    """
    return _Expansion(profile, points_of, known).extension_points()


class _Expansion:
    def __init__(self, profile: ProfileConfiguration, points_of: PointsLookup, known: Collection[str]) -> None:
        self._profile = profile
        self._plugins = profile.plugins
        self._points_of = points_of
        self._known = {*known, *IN_TREE_PLUGINS}
        self._points: dict[str, frozenset[str] | None] = {}

    def extension_points(self) -> ExtensionPoints:
        """Check the specific keys, all of them first; then expand `multi_point`, then count and weigh."""
        raise_collected([error for point in _EXPANDED for error in self._key_errors(point)])
        raise_collected(self._multi_point_errors())
        order = {point: self._order(point) for point in _EXPANDED}
        raise_collected(self._count_errors(order))
        return ExtensionPoints(order, self._weights("score", order), self._weights("placement_score", order))

    def _implemented(self, name: str) -> frozenset[str] | None:
        """Return the points of a plugin, None for an unknown name."""
        if name not in self._points:
            try:
                self._points[name] = self._points_of(name)
            except KeyError:
                self._points[name] = None
        return self._points[name]

    def _implements(self, name: str, point: str) -> bool:
        return point in (self._implemented(name) or ())

    def _key_errors(self, point: str) -> list[ConfigError]:
        """Return errors for unknown plugins under a key, those that do not implement the point, and duplicates."""
        errors = []
        seen: set[str] = set()
        for entry in self._plugins.key(point).enabled:
            name = entry.name
            if self._implemented(name) is None:
                errors.append(self._unknown(name, [point], point))
            elif not self._implements(name, point):
                errors.append(self._error(point, name, f'plugin "{name}" does not extend {_interface(point)} plugin'))
            elif name in seen:
                errors.append(self._registered_twice(name, point, point))
            seen.add(name)
        return errors

    def _multi_point_errors(self) -> list[ConfigError]:
        """Return errors for unknown and duplicate plugins, at the first point where kube-scheduler would find them."""
        open_points = [point for point in _EXPANDED if _ALL not in self._disabled(point)]
        names = [entry.name for entry in self._plugins.multi_point.enabled]
        errors = []
        for index, name in enumerate(names):
            if self._implemented(name) is None and open_points:
                errors.append(self._unknown(name, open_points, "multi_point"))
            elif name in names[:index]:
                twice = [point for point in open_points if self._is_expanded(name, point)]
                errors += [self._registered_twice(name, point, "multi_point") for point in twice[:1]]
        return errors

    def _is_expanded(self, name: str, point: str) -> bool:
        return self._implements(name, point) and name not in self._disabled(point) and name not in self._specific(point)

    def _order(self, point: str) -> tuple[str, ...]:
        specific, disabled = self._specific(point), self._disabled(point)
        if _ALL in disabled:
            return tuple(specific)
        everywhere = [entry.name for entry in self._plugins.multi_point.enabled]
        # A name that the key disables is not taken from `multi_point`, even if the key enables it too.
        overriding = [name for name in specific if name in everywhere and name not in disabled]
        expanded = [name for name in everywhere if self._is_expanded(name, point)]
        rest = [name for name in specific if name not in overriding]
        return (*overriding, *expanded, *rest)

    def _specific(self, point: str) -> list[str]:
        return [entry.name for entry in self._plugins.key(point).enabled]

    def _disabled(self, point: str) -> set[str]:
        return {entry.name for entry in self._plugins.key(point).disabled}

    def _count_errors(self, order: Mapping[str, Sequence[str]]) -> list[ConfigError]:
        named = f'profile with scheduler name "{self._profile.scheduler_name}"'
        sorts = len(order["queue_sort"])
        rules = (
            ("queue_sort", sorts == 1, f"only one queue sort plugin required for {named}, but got {sorts}"),
            ("bind", order["bind"], f"at least one bind plugin is needed for {named}"),
        )
        location = self._profile.location
        return [location.error(Problem(("plugins", camel(key)), message)) for key, kept, message in rules if not kept]

    def _weights(self, point: str, order: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """Return the weights of the plugins of a point; its own key overrides `multiPoint`.

        Plugins that could score count for the check of the sum, even if they are disabled.
        """
        weights: dict[str, int] = {}
        entries: tuple[PluginEntry, ...] = (*self._plugins.key(point).enabled, *self._plugins.multi_point.enabled)
        for entry in entries:
            if entry.name not in weights and self._implements(entry.name, point):
                weights[entry.name] = entry.weight or 1
        if sum(weights.values()) * _MAX_NODE_SCORE > _MAX_TOTAL_SCORE:
            title = _interface(point).removesuffix("Plugin")
            message = f"total score of {title} plugins could overflow"
            raise self._profile.location.error(Problem(("plugins", camel(point)), message))
        return {name: weights[name] for name in order[point]}

    def _unknown(self, name: str, points: Sequence[str], key: str) -> ConfigError:
        if name in REMOVED_PLUGINS:
            return self._error(key, name, f'there is no plugin "{name}" any more; {REPLACEMENT}')
        message = (
            f'there is no plugin "{name}"' if key == "multi_point" else f'{_interface(key)} "{name}" does not exist'
        )
        nearest = nearest_name(name, self._known - {*GROUP_PLUGINS, *PLACEMENT_PLUGINS})
        with suppress(ConfigError):  # a broken plugin is no help either
            if nearest is not None and any(self._implements(nearest, point) for point in points):
                return self._error(key, name, message, nearest)
        remedy = f"; {_MISSING}" if key == "multi_point" else ""  # the others are in kube-scheduler's words
        return self._error(key, name, message + remedy)

    def _registered_twice(self, name: str, point: str, key: str) -> ConfigError:
        return self._error(key, name, f'plugin "{name}" already registered as "{_interface(point)}"')

    def _error(self, key: str, name: str, message: str, hint: str | None = None) -> ConfigError:
        """Return an error at the last location where the file enables a plugin under a key; else at the key."""
        locations = [
            self._profile.location / "plugins" / camel(key),
            *plugin_references(self._profile, key, "enabled", name),
        ]
        return locations[-1].error(Problem((), message, hint))


def _interface(point: str) -> str:
    name = camel(point)
    return f"{name[0].upper()}{name[1:]}Plugin"
