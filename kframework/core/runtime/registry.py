"""The plugins on offer: found by entry point, imported only when an enabled profile names them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import msgspec

from kframework.errors import PluginError, nearest

if TYPE_CHECKING:
    from kframework.framework.plugin import Plugin

#: The entry-point group in which distributions offer plugins.
GROUP = "kframework.plugins"

#: Extension points by their hooks: a plugin extends a point when it implements one of them.
POINTS: Mapping[str, tuple[str, ...]] = {
    "pre_enqueue": ("pre_enqueue",),
    "queue_sort": ("queue_sort",),
    "pre_filter": ("pre_filter",),
    "filter": ("filter", "filter_nodes"),
    "post_filter": ("post_filter",),
    "pre_score": ("pre_score",),
    "score": ("score", "score_nodes"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "pre_bind": ("pre_bind",),
    "bind": ("bind",),
    "post_bind": ("post_bind",),
}


class Offer(msgspec.Struct, frozen=True):
    """A plugin that a distribution offers under a name; `distribution` reads `name version`, or is empty."""

    name: str
    load: Callable[[], object]
    distribution: str = ""
    target: str = ""


class Registry:
    """What can be named in a configuration.

    `Registry.installed()` finds what is installed; `Registry.of(...)` takes plugin classes, for tests and embedding.
    """

    def __init__(self, offers: Iterable[Offer]) -> None:
        self._offers: dict[str, list[Offer]] = {}
        for offer in offers:
            same = self._offers.setdefault(offer.name, [])
            if all((other.distribution, other.target) != (offer.distribution, offer.target) for other in same):
                same.append(offer)
        self._loaded: dict[str, type[Plugin]] = {}

    @classmethod
    def installed(cls) -> Registry:
        """Offer the plugins of every installed distribution, the built-in ones among them."""
        return cls(_installed())

    @classmethod
    def of(cls, *plugins: type[Plugin]) -> Registry:
        """Offer these classes, each under its name, beside the installed ones, which they replace."""
        mine = {plugin.name: plugin for plugin in plugins}
        others = (offer for offer in _installed() if offer.name not in mine)
        return cls([*others, *(Offer(name, functools.partial(_itself, plugin)) for name, plugin in mine.items())])

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._offers))

    def __contains__(self, name: str) -> bool:
        return name in self._offers

    def offers(self, name: str) -> list[Offer]:
        """Return who offers a name; more than one is an error as soon as the name is used."""
        return self._offers.get(name, [])

    def load(self, name: str) -> type[Plugin]:
        """Import the plugin of this name; PluginError if nobody offers it, several do, or it cannot be imported."""
        if name not in self._loaded:
            self._loaded[name] = _load(self._sole(name))
        return self._loaded[name]

    def load_all(self) -> list[PluginError]:
        """Import every plugin on offer, so that all kinds they declare are known; return what went wrong."""
        problems = []
        for name in self:
            try:
                self.load(name)
            except PluginError as problem:
                problems.append(problem)
        return problems

    def distribution(self, name: str) -> str | None:
        """Return the distribution that offers a name, as `name version`."""
        offers = self.offers(name)
        return offers[0].distribution or None if offers else None

    def _sole(self, name: str) -> Offer:
        offers = self.offers(name)
        if not offers:
            close = nearest(name, self._offers)
            hint = f"; did you mean {close!r}?" if close else ""
            raise PluginError(f"no installed distribution offers it{hint}", plugin=name)
        if len(offers) > 1:
            claims = " and ".join(sorted(f"{offer.distribution} ({offer.target})" for offer in offers))
            raise PluginError(f"two distributions claim the name: {claims}; uninstall one", plugin=name)
        return offers[0]


@functools.cache  # reading the metadata of all distributions takes long, and they stay as they are
def _installed() -> tuple[Offer, ...]:
    return tuple(_offer(entry_point) for entry_point in entry_points(group=GROUP))


def _offer(entry_point: EntryPoint) -> Offer:
    distribution = entry_point.dist
    source = f"{distribution.name} {distribution.version}" if distribution is not None else ""
    return Offer(entry_point.name, entry_point.load, source, entry_point.value)


def _itself(plugin: type[Plugin]) -> type[Plugin]:
    return plugin


def _load(offer: Offer) -> type[Plugin]:
    from kframework.framework.plugin import Plugin, PluginArgs

    source = offer.distribution or None
    try:
        loaded = offer.load()
    except Exception as error:
        reason = f"cannot be imported: {type(error).__name__}: {error}"
        raise PluginError(reason, plugin=offer.name, distribution=source) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        reason = f"{offer.target or loaded!r} is no class derived from kframework.Plugin"
        raise PluginError(reason, plugin=offer.name, distribution=source)
    if loaded.name != offer.name:
        reason = f"its entry point is named {offer.name!r} but the class says name = {loaded.name!r}"
        raise PluginError(reason, plugin=offer.name, distribution=source)
    if not (isinstance(loaded.Args, type) and issubclass(loaded.Args, PluginArgs)):
        raise PluginError("its Args do not derive from kframework.PluginArgs", plugin=offer.name, distribution=source)
    return loaded


def hooks_of(plugin: type[Plugin]) -> dict[str, Mapping[str, object]]:
    """Return the methods marked `@hookimpl`, with the options given to the marker."""
    marked = {name: getattr(getattr(plugin, name, None), "kframework_impl", None) for name in dir(plugin)}
    return {name: options for name, options in marked.items() if options is not None}


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """Return the extension points that a plugin extends or wraps."""
    hooks = hooks_of(plugin).keys()
    return frozenset(point for point, names in POINTS.items() if not hooks.isdisjoint(names))
