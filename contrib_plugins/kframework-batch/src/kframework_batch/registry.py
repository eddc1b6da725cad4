"""The actions and session plugins on offer: found by entry point, imported only when a configuration names them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Generic, Protocol, TypeVar

from kframework import PluginError
from kframework.engine import Offer
from kframework_batch.action import Action
from kframework_batch.plugin import BatchArguments, BatchPlugin

#: The entry-point groups in which distributions offer actions and plugins.
ACTIONS = "kframework.batch.actions"
PLUGINS = "kframework.batch.plugins"


class Named(Protocol):
    """What actions and plugins have in common."""

    name: ClassVar[str]
    Arguments: ClassVar[type[BatchArguments]]

    def __init__(self, arguments: BatchArguments) -> None: ...


N = TypeVar("N", bound=Named)


class Offers(Generic[N]):
    """What is on offer of one sort, by name: classes derived from `base`."""

    def __init__(self, base: type[N], offers: Iterable[Offer]) -> None:
        self._base = base
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

    def load(self, name: str) -> type[N]:
        """Import the class of this name; KeyError if nobody offers it, PluginError if several do or it is broken."""
        if name not in self._loaded:
            self._loaded[name] = self._checked(self._sole(name))
        return self._loaded[name]

    def distribution(self, name: str) -> str:
        """Return the distribution that offers a name, as `name version`; "" if none does."""
        offers = self._offers.get(name)
        return offers[0].distribution if offers else ""

    def _sole(self, name: str) -> Offer:
        offers = self._offers[name]
        if len(offers) > 1:
            claims = " and ".join(sorted(f"{offer.distribution} ({offer.target})" for offer in offers))
            raise PluginError(f"two distributions claim the name: {claims}; uninstall one", plugin=name)
        return offers[0]

    def _checked(self, offer: Offer) -> type[N]:
        base = self._base.__name__
        try:
            loaded = offer.load()
        except Exception as error:
            raise _fault(offer, f"cannot be imported: {type(error).__name__}: {error}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, self._base)):
            raise _fault(offer, f"{offer.target or loaded!r} is no class derived from kframework_batch's {base}")
        if loaded.name != offer.name:
            raise _fault(offer, f"its entry point is named {offer.name!r} but the class says name = {loaded.name!r}")
        if not (isinstance(loaded.Arguments, type) and issubclass(loaded.Arguments, BatchArguments)):
            raise _fault(offer, "its Arguments do not derive from kframework_batch's BatchArguments")
        return loaded


class BatchRegistry:
    """What can be named in a scheduler configuration.

    `BatchRegistry.installed()` finds what is installed; `BatchRegistry.of(...)` takes classes, for tests and embedding.
    """

    def __init__(self, actions: Iterable[Offer], plugins: Iterable[Offer]) -> None:
        self.actions: Offers[Action] = Offers(Action, actions)
        self.plugins: Offers[BatchPlugin] = Offers(BatchPlugin, plugins)

    @classmethod
    def installed(cls) -> BatchRegistry:
        """Offer the actions and plugins of every installed distribution, this one's among them."""
        return cls(_installed(ACTIONS), _installed(PLUGINS))

    @classmethod
    def of(cls, *classes: type[Action] | type[BatchPlugin]) -> BatchRegistry:
        """Offer these classes, each under its name, beside the installed ones, which they replace."""
        actions = [offered for offered in classes if issubclass(offered, Action)]
        plugins = [offered for offered in classes if issubclass(offered, BatchPlugin)]
        return cls(_beside(_installed(ACTIONS), actions), _beside(_installed(PLUGINS), plugins))


@functools.cache  # reading the metadata of all distributions takes long, and they stay as they are
def _installed(group: str) -> tuple[Offer, ...]:
    return tuple(_offer(entry_point) for entry_point in entry_points(group=group))


def _offer(entry_point: EntryPoint) -> Offer:
    distribution = entry_point.dist
    source = f"{distribution.name} {distribution.version}" if distribution is not None else ""
    return Offer(entry_point.name, entry_point.load, source, entry_point.value)


def _beside(installed: Iterable[Offer], mine: Iterable[type[Named]]) -> Iterator[Offer]:
    names = {offered.name: offered for offered in mine}
    yield from (offer for offer in installed if offer.name not in names)
    yield from (Offer(name, functools.partial(_itself, offered)) for name, offered in names.items())


def _itself(offered: type[Named]) -> type[Named]:
    return offered


def _fault(offer: Offer, reason: str) -> PluginError:
    return PluginError(reason, plugin=offer.name, distribution=offer.distribution or None)
