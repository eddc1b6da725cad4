"""What the plugins of all profiles need to see of the cluster."""

from __future__ import annotations

from kframework.errors import ConfigError, nearest
from kframework.events import EventResource, event_resource
from kframework.objects import ApiObject, Node, Pod, kind_of
from kframework.plugin import Plugin, Watch
from kframework.profiles import Profiles

__all__ = ["watched_kinds"]


def watched_kinds(profiles: Profiles) -> list[type[ApiObject]]:
    """Return the kinds to follow: pods, nodes, and what the plugins watch.

    Raises ConfigError for a watch on what is no kind, and for registered events of a kind that nobody watches.
    """
    found: dict[type[ApiObject], None] = {Node: None, Pod: None}
    for _, plugin in profiles.plugins():
        for watch in plugin.watches:
            _check_kind(plugin, watch)
            found[watch.kind] = None
    _check_events(profiles, {*EventResource, *(event_resource(kind_of(kind)) for kind in found)})
    return list(found)


def _check_kind(plugin: Plugin, watch: Watch) -> None:
    try:
        kind_of(watch.kind)
    except KeyError:
        name = getattr(watch.kind, "__qualname__", repr(watch.kind))
        remedy = "give it a struct of kframework.objects, or declare one with @kind"
        raise ConfigError(f"plugin {plugin.name!r} watches {name}, which is no kind: {remedy}") from None


def _check_events(profiles: Profiles, resources: set[str]) -> None:
    """Refuse a registration that no event could ever match: its pods would sleep on."""
    for profile in profiles.values():
        for plugin, registrations in profile.events.items():
            for wanted in (registration.resource for registration in registrations):
                if wanted not in resources:
                    message = f"plugin {plugin!r} registers events on {wanted!r}, a kind that no plugin watches"
                    raise ConfigError(message, nearest=nearest(wanted, resources))
