"""What plugins of a shadow see of the tables that they share with the scheduler: everything, but read-only.

Nodes and columns are views, and objects are copies with read-only mappings. Pods are the pods themselves, as statements
move them, of a class that refuses what plugins write while a shadow decides. A write raises in the plugin.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from copy import copy
from types import FrameType, MappingProxyType, MethodType
from typing import Any, Final, Never, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.runtime.hooks import marked_hooks
from kframework.core.runtime.registry import Offer, Registry
from kframework.framework.answers import Diagnosis
from kframework.framework.handle import Preemption, VictimRules
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Pod, PodSpec
from kframework.objects.identity import cached_by_identity
from kframework.objects.read_only import ReadOnlyError, read_only
from kframework.state.columns import Column
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo

T = TypeVar("T")

#: The methods that change a table or a column.
_WRITERS = frozenset(
    [
        *("add", "add_pod", "code", "compact", "grow", "mark_changed", "mark_named_changed", "put"),
        *("remove", "remove_pod", "replace", "replace_pod", "update_order"),
    ]
)

_read_only_object: Callable[[Any], Any] = cached_by_identity(read_only)
_read_only_spec: Callable[[PodSpec], PodSpec] = cached_by_identity(lambda spec: read_only(Pod(spec=spec)).spec)


def _refuse(owner: str, attribute: str, author: FrameType) -> Never:
    location = f"{author.f_code.co_filename}:{author.f_lineno}"
    raise ReadOnlyError(f"{owner} is read-only for a shadow: {attribute} is written to in {location}")


# -- pods --------------------------------------------------------------------------------------------------------------


class WriteGuard:
    """The moments at which plugins may not write to pods: those at which a shadow decides."""

    is_shut: bool = False

    def stops(self, author: FrameType) -> bool:
        """Return whether code may not write now; that of kframework may, as it does what a statement asks for."""
        return self.is_shut and not str(author.f_globals.get("__name__")).startswith("kframework.")


GUARD: Final = WriteGuard()


class ReadOnlyPod(PodInfo):
    """A pod that a plugin of a shadow has seen."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if GUARD.stops(author := sys._getframe(1)):
            _refuse(f"pod {self.key}", name, author)
        super().__setattr__(name, value)

    def __copy__(self) -> PodInfo:
        return self._copy_to(PodInfo.__new__(PodInfo))

    @property
    def labels(self) -> Mapping[str, str]:
        labels = super().labels
        return MappingProxyType(labels) if GUARD.stops(sys._getframe(1)) else labels

    @property
    def spec(self) -> PodSpec:
        spec = super().spec
        return _read_only_spec(spec) if GUARD.stops(sys._getframe(1)) else spec


class ReadOnlyPendingPod(ReadOnlyPod, PendingPod):
    """A waiting pod that a plugin of a shadow has seen."""

    __slots__ = ()

    def __copy__(self) -> PendingPod:
        pod = self._copy_to(PendingPod.__new__(PendingPod))
        pod.object, pod.kind = _OBJECT.__get__(self), self.kind
        return pod

    @property
    def object(self) -> Pod:  # type: ignore[override]  # it is never replaced
        pod: Pod = _OBJECT.__get__(self)
        return _read_only_object(pod) if GUARD.stops(sys._getframe(1)) else pod

    @property
    def annotations(self) -> Mapping[str, str]:
        annotations = super().annotations
        return MappingProxyType(annotations) if GUARD.stops(sys._getframe(1)) else annotations


def _show_pod(pod: PodInfo) -> PodInfo:
    if (kind := _READ_ONLY.get(type(pod))) is not None:
        pod.__class__ = kind
    return pod


_OBJECT: Any = vars(PendingPod)["object"]

_READ_ONLY: Final[Mapping[type[PodInfo], type[PodInfo]]] = {PodInfo: ReadOnlyPod, PendingPod: ReadOnlyPendingPod}


# -- tables, nodes and columns -----------------------------------------------------------------------------------------


class View:
    """A view of a table, a node or a column: what is read and called there, is shown read-only, too."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        get = object.__getattribute__
        if name.startswith("__"):
            return get(self, name)
        if name in _WRITERS:
            _refuse(type(self).__name__, name, sys._getframe(1))
        return get(self, "__tables__").show(getattr(get(self, "__origin__"), name))

    def __setattr__(self, name: str, value: object) -> None:
        _refuse(type(self).__name__, name, sys._getframe(1))


@functools.cache
def _view_class(kind: type[NodeInfo | NodeTable | Column]) -> type[View]:
    return type(f"ReadOnly{kind.__name__}", (View, kind), {"__slots__": ("__origin__", "__tables__")})


def origin(column: Column) -> Column:
    """Return the column itself for a view of it."""
    return column.__origin__ if isinstance(column, View) else column


def _same(value: T) -> T:
    return value


def _show_array(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


class ReadOnlyTables:
    """The read-only form of all that the plugins of a shadow get of the tables."""

    def __init__(self) -> None:
        #: The names of the plugins that see it: those that are not built in.
        self.readers: set[str] = set()
        #: The views of nodes and of the table, by the identity of these, which a view refers to.
        self._views: dict[int, Any] = {}
        #: What shows the values of a type.
        self._forms: dict[type[Any], Callable[[Any], Any]] = {}

    def show(self, value: T) -> T:
        """Return the read-only form of a value, of the same kind."""
        return cast("T", self._show(value))

    def show_argument(self, value: Any) -> Any:
        """Return the read-only form of an argument of a hook; arrays are the plugin's own."""
        if isinstance(value, Diagnosis):
            value = copy(value)
            value.nodes = self.show(value.nodes)
        return value if type(value) is np.ndarray else self._show(value)

    def _show(self, value: Any) -> Any:
        kind = type(value)
        form = self._forms.get(kind)
        if form is None:
            form = self._forms[kind] = self._form_of(kind)
        return form(value)

    def _form_of(self, kind: type[Any]) -> Callable[[Any], Any]:
        """Return the function that shows values of a type."""
        if issubclass(kind, View | str | bytes):
            return _same
        forms = ((types, form) for types, form in self._by_type if issubclass(kind, types))
        return next((form for _, form in forms), _same)

    @property
    def _by_type(self) -> Sequence[tuple[tuple[type[Any], ...], Callable[[Any], Any]]]:
        return (
            ((PodInfo,), _show_pod),
            ((NodeInfo, NodeTable), self._lasting_view),
            ((Column,), self._view),
            ((ApiObject,), _read_only_object),
            ((msgspec.Struct,), self._show_fields),
            ((tuple,), self._show_items),
            ((np.ndarray,), _show_array),
            ((memoryview,), memoryview.toreadonly),
            ((MethodType,), self._show_method),
            ((Mapping,), lambda value: ShownMapping(value, self._show)),
            ((Sequence,), lambda value: ShownSequence(value, self._show)),
            ((type({}.values()),), lambda value: ShownCollection(value, self._show)),
        )

    def _show_fields(self, value: Any) -> Any:
        """Show what is in a struct: a pod becomes read-only where it is, as a victim of a candidate."""
        for field in value.__struct_fields__:
            self._show(getattr(value, field))
        return value

    def _show_items(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        for item in value:
            self._show(item)
        return value

    def _show_method(self, method: MethodType) -> Callable[..., Any]:
        return lambda *arguments: self._show(method(*arguments))

    def with_shown_arguments(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a plugin that is called with read-only arguments."""
        return lambda *arguments: call(*map(self.show_argument, arguments))

    def _lasting_view(self, value: NodeInfo | NodeTable) -> Any:
        view = self._views.get(id(value))
        if view is None or view.__origin__ is not value:
            nodes = value if isinstance(value, NodeTable) else value.table
            if len(self._views) > 2 * len(nodes) + 64:
                self._views.clear()
            view = self._views[id(value)] = self._view(value)
        return view

    def _view(self, value: NodeInfo | NodeTable | Column) -> Any:
        view = object.__new__(_view_class(cast("Hashable", type(value))))
        object.__setattr__(view, "__origin__", value)
        object.__setattr__(view, "__tables__", self)
        return view


class ShownPreemption:
    """An evaluator of dry runs whose candidates, and what rules of victims get, are shown read-only."""

    def __init__(self, preemption: Preemption, tables: ReadOnlyTables) -> None:
        self._preemption = preemption
        self._tables = tables

    def __getattr__(self, name: str) -> Any:
        value, show = getattr(self._preemption, name), self._tables.show
        if not callable(value):
            return value

        def call(*arguments: object, rules: VictimRules | None = None, **options: object) -> Any:
            if rules is not None:
                shown = self._tables.with_shown_arguments
                options["rules"] = VictimRules(shown(rules.may_evict), shown(rules.rejection))
            return show(value(*arguments, **options))

        return call


class ShownCollection(Collection[Any]):
    """A collection whose items are shown read-only."""

    def __init__(self, items: Any, show: Callable[[Any], Any]) -> None:
        self._items = items
        self._show = show

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return map(self._show, self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._items


class ShownSequence(ShownCollection, Sequence[Any]):
    """A sequence whose items are shown read-only."""

    def __getitem__(self, index: Any) -> Any:
        return self._show(self._items[index])


class ShownMapping(ShownCollection, Mapping[Any, Any]):
    """A mapping whose values are shown read-only."""

    def __getitem__(self, key: Any) -> Any:
        return self._show(self._items[key])


# -- plugins -----------------------------------------------------------------------------------------------------------


class ReadOnlyRegistry(Registry):
    """The plugins of a registry as a shadow uses them: hooks that are not built in get read-only arguments."""

    def __init__(self, registry: Registry, tables: ReadOnlyTables) -> None:
        super().__init__(offer for name in registry for offer in registry.offers(name))
        self._tables = tables

    def _load(self, offer: Offer) -> type[Plugin]:
        plugin = super()._load(offer)
        if plugin.__module__.startswith("kframework.plugins."):
            return plugin  # built in: it changes nothing that it is given
        self._tables.readers.add(offer.name)
        hooks = {name: self._with_read_only_arguments(getattr(plugin, name)) for name in marked_hooks(plugin)}
        return type(plugin.__name__, (plugin,), {"__module__": plugin.__module__, **hooks})

    def _with_read_only_arguments(self, hook: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(hook)
        def call(plugin: Plugin, *arguments: object) -> object:
            return hook(plugin, *map(self._tables.show_argument, arguments))

        return call
