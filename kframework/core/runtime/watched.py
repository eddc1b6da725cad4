"""What the plugins of all profiles need to see of the cluster."""

from __future__ import annotations

from typing import get_args

from kframework.core.runtime.profiles import Profiles
from kframework.errors import ConfigError, nearest
from kframework.framework.events import EventResource, event_resource
from kframework.framework.plugin import Plugin, Verb, Watch
from kframework.objects import ApiObject, Node, Pod, kind_of

_VERBS = get_args(Verb)


def watched_kinds(profiles: Profiles) -> list[type[ApiObject]]:
    """Return the kinds to follow: pods, nodes, and what the plugins watch.

    Raises ConfigError for a watch on what is no kind or with what is no verb, and for registered events of a kind that
    nobody watches.
    """
    found: dict[type[ApiObject], None] = {Node: None, Pod: None}
    for _, plugin in profiles.plugins():
        for watch in plugin.watches:
            _check(plugin, watch)
            found[watch.kind] = None
    sources = (source.key for source in profiles.sources())
    _check_events(profiles, {*EventResource, *(event_resource(kind_of(kind)) for kind in found), *sources})
    return list(found)


def _check(plugin: Plugin, watch: Watch) -> None:
    name = getattr(watch.kind, "__qualname__", repr(watch.kind))
    try:
        kind_of(watch.kind)
    except KeyError:
        remedy = "give it a struct of kframework.objects, or declare one with @kind"
        raise ConfigError(f"plugin {plugin.name!r} watches {name}, which is no kind: {remedy}") from None
    for verb in watch.verbs:
        if verb not in _VERBS:
            known = f"there are {', '.join(_VERBS)} beside get, list and watch"
            message = f"plugin {plugin.name!r} watches {name} with the verb {verb!r}; {known}"
            raise ConfigError(message, nearest=nearest(verb, _VERBS))


def _check_events(profiles: Profiles, resources: set[str]) -> None:
    """Refuse a registration that no event could ever match: its pods would sleep on."""
    for profile in profiles.values():
        for plugin, registrations in profile.events.items():
            for wanted in (registration.resource for registration in registrations):
                if wanted not in resources:
                    message = f"plugin {plugin!r} registers events on {wanted!r}, a kind that no plugin watches"
                    raise ConfigError(message, nearest=nearest(wanted, resources))
