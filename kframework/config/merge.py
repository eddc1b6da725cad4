"""A profile's own plugin sets merged into the default ones, key by key."""

from __future__ import annotations

from kframework.config.models import PluginEntry, Plugins, PluginSet

#: Under `disabled`: every default plugin.
ALL = "*"


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Return the plugins that a profile ends up with, before `multi_point` is expanded."""
    sets = custom.sets()
    return Plugins(**{key: merge_sets(default, sets[key]) for key, default in defaults.sets().items()})


def merge_sets(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge one key: a default plugin that is named again is replaced in its place, other names are appended.

    "Enabled" beats "disabled": a default plugin that is both leaves its place and comes back at the end.
    """
    chosen = {entry.name: index for index, entry in enumerate(custom.enabled)}  # of duplicates the last
    enabled: list[PluginEntry] = []
    placed: set[int] = set()
    for entry in _survivors(default, custom):
        if entry.name in chosen:
            placed.add(chosen[entry.name])
            enabled.append(custom.enabled[chosen[entry.name]])
        else:
            enabled.append(entry)
    enabled += [entry for index, entry in enumerate(custom.enabled) if index not in placed]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(PluginEntry(name=entry.name) for entry in custom.disabled))


def _survivors(default: PluginSet, custom: PluginSet) -> list[PluginEntry]:
    disabled = {entry.name for entry in custom.disabled}
    return [] if ALL in disabled else [entry for entry in default.enabled if entry.name not in disabled]
