"""What is odd about the plugins of a configuration, although a scheduler can be made of it: lines for its user.

kube-scheduler loads all of this in silence, so it is no error: a plugin may do without what is missing (NodeAffinity
scores without its PreScore), and what is disabled may have been there once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from kframework.config.configuration import Configuration, Profile, named_at
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.document import Place
from kframework.config.expand import ExtensionPoints
from kframework.config.models import camel
from kframework.core.runtime.registry import Registry
from kframework.errors import nearest
from kframework.objects.problem import Problem

#: What is prepared for the hooks of a point, and where.
_PREPARED = {"filter": "pre_filter", "score": "pre_score"}


def notices(configuration: Configuration, expansions: Collection[ExtensionPoints], registry: Registry) -> Iterator[str]:
    """List what is odd about the plugins of each profile."""
    enabled = dict.fromkeys(name for points in expansions for name in chain(*points.order.values()))
    idle = [name for name in enabled if name not in registry]
    if idle:
        yield f"not built yet, so they do not run: {', '.join(idle)}"
    for profile, points in zip(configuration.profiles, expansions, strict=True):
        yield from _unprepared(profile, points, registry)
        yield from _nowhere(profile, points, registry)
        yield from _disabled_in_vain(profile, {*registry, *IN_TREE_PLUGINS})


def _unprepared(profile: Profile, points: ExtensionPoints, registry: Registry) -> Iterator[str]:
    """Name plugins that run at a point and not at the one where they prepare for it."""
    for point, before in _PREPARED.items():
        for name in points[point]:
            if name in registry and name not in points[before] and before in registry.points(name):
                remedy = f"which prepares for it; enable it at {camel(before)} too, or under multiPoint"
                message = f"plugin {name!r} runs at {camel(point)} without its {camel(before)}, {remedy}"
                place = next(named_at(profile, point, "enabled", name), profile.place / "plugins" / camel(before))
                yield _said(place, message)


def _nowhere(profile: Profile, points: ExtensionPoints, registry: Registry) -> Iterator[str]:
    """Name plugins that the file enables everywhere and disables wherever they could run."""
    running = set(chain(*points.order.values()))
    for entry in profile.plugins.multi_point.enabled:
        for place in named_at(profile, "multi_point", "enabled", entry.name):
            if entry.name in registry and entry.name not in running:
                extended = ", ".join(map(camel, sorted(registry.points(entry.name))))
                yield _said(place, f"plugin {entry.name!r} runs nowhere: it is disabled at {extended}")


def _disabled_in_vain(profile: Profile, known: Collection[str]) -> Iterator[str]:
    """Name what is disabled and is no plugin."""
    for key, plugins in profile.plugins.sets().items():
        for name in dict.fromkeys(entry.name for entry in plugins.disabled if entry.name not in ("*", *known)):
            for place in named_at(profile, key, "disabled", name):
                yield _said(place, f"there is no plugin {name!r} to disable", nearest(name, known))


def _said(place: Place, message: str, hint: str | None = None) -> str:
    return str(place.error(Problem((), message, hint)))
