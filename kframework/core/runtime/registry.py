"""The available plugins: discovered by entry point, imported only when an enabled profile names them."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from kframework.config.args import ApiArgs
from kframework.config.configuration import Configuration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.core.runtime.hooks import check_plugin_class, extension_points
from kframework.errors import PluginError, format_import_error, nearest_name
from kframework.framework.plugin import Plugin, PluginArgs
from kframework.objects.meta import ApiObject

#: The entry-point group in which distributions offer plugins.
GROUP = "kframework.plugins"


class NamedClass(Protocol):
    """A class with a name."""

    name: ClassVar[str]


N = TypeVar("N", bound=NamedClass)


class Offer(msgspec.Struct, frozen=True):
    """A plugin that a distribution offers under a name; `distribution` reads `name version`, or is empty."""

    name: str
    load: Callable[[], object]
    distribution: str = ""
    target: str = ""

    @property
    def source(self) -> str | None:
        """The distribution to name in errors, or the module of a class that belongs to none."""
        return self.distribution or self.target or None


class Offers(Generic[N]):
    """The available classes of one sort, by name, checked by `problem`."""

    def __init__(self, offers: Iterable[Offer], problem: Callable[[Offer, object], str]) -> None:
        self._problem = problem
        self._offers: dict[str, list[Offer]] = {}
        for offer in offers:
            same = self._offers.setdefault(offer.name, [])
            if all((other.distribution, other.target) != (offer.distribution, offer.target) for other in same):
                same.append(offer)
        self._loaded: dict[str, type[N]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._offers))

    def __contains__(self, name: str) -> bool:
        return name in self._offers

    def offers(self, name: str) -> list[Offer]:
        """Return the offers of a name; more than one is an error as soon as the name is used."""
        return self._offers.get(name, [])

    def load(self, name: str) -> type[N]:
        """Import the class of this name; PluginError if there is none, more than one, or it cannot be used."""
        if name not in self._loaded:
            offers = self.offers(name)
            if not offers:
                close = nearest_name(name, self._offers)
                hint = f"; did you mean {close!r}?" if close else ""
                raise PluginError(f"no installed distribution offers it{hint}", plugin=name)
            if len(offers) > 1:
                claims = " and ".join(sorted(f"{offer.distribution} ({offer.target})" for offer in offers))
                raise PluginError(f"several distributions offer the name: {claims}; uninstall one", plugin=name)
            self._loaded[name] = self._load(offers[0])
        return self._loaded[name]

    def distribution(self, name: str) -> str | None:
        """Return the distribution that offers a name, as `name version`."""
        offers = self.offers(name)
        return offers[0].distribution or None if offers else None

    def _load(self, offer: Offer) -> type[N]:
        try:
            loaded = offer.load()
        except Exception as error:
            reason = f"cannot be imported: {format_import_error(error)}{_remedy(offer, error)}"
            raise PluginError(reason, plugin=offer.name, distribution=offer.source) from error
        if problem := self._problem(offer, loaded):
            raise PluginError(problem, plugin=offer.name, distribution=offer.source)
        return cast("type[N]", loaded)


class Registry(Offers[Plugin]):
    """The plugins that a configuration can name.

    `Registry.from_installed()` finds installed plugins; `Registry.with_plugins(...)` adds classes, for tests.
    """

    def __init__(self, offers: Iterable[Offer]) -> None:
        super().__init__(offers, _find_problem)

    def _load(self, offer: Offer) -> type[Plugin]:
        plugin = super()._load(offer)
        check_plugin_class(plugin, offer.source)
        return plugin

    @classmethod
    def from_installed(cls) -> Registry:
        """Offer the plugins of every installed distribution, the built-in ones among them."""
        return cls(installed_offers(GROUP))

    @classmethod
    def with_plugins(cls, *plugins: type[Plugin]) -> Registry:
        """Return the installed plugins plus these classes, which replace installed ones of the same name."""
        return cls(override_installed(GROUP, plugins))

    def points(self, name: str) -> frozenset[str]:
        """Import a plugin and return the extension points that it extends."""
        return extension_points(self.load(name))

    def watches(self, name: str, kind: type[ApiObject]) -> bool:
        """Return whether a plugin that has been imported watches or lists a kind."""
        plugin = self._loaded.get(name)
        return plugin is not None and (kind in plugin.lists or any(each.kind is kind for each in plugin.watches))

    def load_all(self) -> list[PluginError]:
        """Import every available plugin, so that all kinds they declare are known; return the errors."""
        problems = []
        for name in self:
            try:
                self.load(name)
            except PluginError as problem:
                problems.append(problem)
        return problems


def load_in_tree_args(configuration: Configuration) -> Mapping[str, type[ApiArgs]]:
    """Import the configured plugins of kube-scheduler; return their Args models, by plugin."""
    registry = Registry.from_installed()
    profiles = configuration.with_all_profiles.profiles
    names = {name for each in profiles for name in (*each.plugins.enabled_names(), *each.args)}
    models = {name: registry.load(name).Args for name in names & IN_TREE_PLUGINS if name in registry}
    return {name: model for name, model in models.items() if issubclass(model, ApiArgs)}


@functools.cache  # reading the metadata of all distributions is slow, and it does not change
def installed_offers(group: str) -> tuple[Offer, ...]:
    """List the entry points of a group in all distributions."""
    return tuple(_offer(entry_point) for entry_point in entry_points(group=group))


def override_installed(group: str, classes: Iterable[type[NamedClass]]) -> list[Offer]:
    """List these classes and the installed ones of a group, except those they replace by name."""
    by_name = {each.name: each for each in classes}
    others = (offer for offer in installed_offers(group) if offer.name not in by_name)
    return [*others, *(_offer_class(each) for each in by_name.values())]


def _offer(entry_point: EntryPoint) -> Offer:
    distribution = entry_point.dist
    source = _describe(distribution) if distribution is not None else ""
    return Offer(entry_point.name, entry_point.load, source, entry_point.value)


@functools.cache  # each access to a distribution's metadata parses its file: 45 times a twelfth of the time of a start
def _describe(distribution: Distribution) -> str:
    return f"{distribution.name} {distribution.version}"


def _offer_class(cls: type[NamedClass]) -> Offer:
    return Offer(cls.name, lambda: cls, target=f"{cls.__module__}:{cls.__qualname__}")


def _remedy(offer: Offer, error: Exception) -> str:
    """Return a hint if an entry point names a missing target; "" for errors of the module itself."""
    module, _, attribute = offer.target.partition(":")
    remedy = f"; its entry point names {offer.target}: correct it"
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return f"{remedy}, or install the distribution again if its folder was moved or deleted"
    loaded = sys.modules.get(module)
    if isinstance(error, AttributeError) and loaded is not None and error.obj is loaded:
        close = nearest_name(attribute, [name for name, each in vars(loaded).items() if isinstance(each, type)])
        hint = f" (did you mean {close!r}?)" if close else ""
        return f"{remedy}, or give {loaded.__file__} such a class{hint}"
    return ""


def _find_problem(offer: Offer, loaded: object) -> str:
    if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
        return f"{offer.target or loaded!r} is not a subclass of kframework.Plugin"
    if not loaded.name:
        return f"the class has no name: set name = {loaded.__name__!r}"
    if loaded.name != offer.name:
        return f"its entry point is named {offer.name!r} but the class has name = {loaded.name!r}"
    if not (isinstance(loaded.Args, type) and issubclass(loaded.Args, PluginArgs)):
        return "its Args do not derive from kframework.PluginArgs"
    return ""


# -- editable installs ---------------------------------------------------------------------------------------------


def stale_install_remedy(group: str, name: str) -> str:
    """Return how to get a plugin that an editable install's project added after the installation; else ""."""
    for distribution in distributions():
        url_info = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not url_info.get("dir_info", {}).get("editable"):
            continue
        project = Path(url2pathname(urlsplit(url_info["url"]).path), "pyproject.toml")
        if name in _project_entry_points(project, group):
            remedy = f"{project} offers it, but {distribution.name} {distribution.version} was installed before that"
            return f"{remedy}: install it again, as with pip install --editable {project.parent}"
    return ""


def _project_entry_points(project: Path, group: str) -> dict[str, Any]:
    """Return the entry points of a group from a project file; empty if it cannot be read."""
    import tomllib  # 2 ms, and only for a name that is not registered

    try:
        groups = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
        entry_points: dict[str, Any] = dict(groups[group])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return entry_points
