"""Namespaces: their labels, and which of them a selector chooses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from kframework.objects import Namespace
from kframework.objects.label_selectors import Selector
from kframework.state.objects import ObjectStore

#: So many names that selectors have chosen are remembered, all selectors together, and each selector counts as 64 more,
#: as it takes a kilobyte itself; what was not asked for longest is dropped.
_NAMES, _SELECTOR = 500_000, 64
#: Nor is a selector remembered that was not asked for while so many namespaces changed: where namespaces come and go,
#: so do the pods that chose among them.
_UNASKED = 64
#: So many changes are remembered; a selector that has not been asked about for longer is tried on all namespaces.
_CHANGES = 1_024


class Namespaces:
    """An index of the store of Namespaces: what was worked out from it holds until `generation` moves."""

    def __init__(self, store: ObjectStore[Namespace]) -> None:
        self._store = store
        #: Counts the namespaces that came, went, or were given other labels.
        self.generation: int = 0
        #: The names of those that did, youngest last.
        self._changes: list[str] = []
        #: What selectors chose, and the generation of that, longest not asked for first.
        self._chosen: OrderedDict[Selector, tuple[int, frozenset[str]]] = OrderedDict()
        self._names = 0
        store.on_change(self._changed)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; a namespace that nobody has heard of has none."""
        namespace = self._store.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def chosen(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces whose labels match; tried are those that changed since the last time."""
        at, names = self._chosen.pop(selector, (-1, None))
        if names is None or self.generation - at > len(self._changes):
            now = frozenset(each.metadata.name for each in self._store if selector.matches(each.metadata.labels))
        else:
            now = self._caught_up(selector, names, self._changes[len(self._changes) - (self.generation - at) :])
        self._chosen[selector] = (self.generation, now)
        self._names += _room(now) - (_room(names) if names is not None else 0)
        while len(self._chosen) > 1 and (self._names > _NAMES or self._longest_unasked > _UNASKED):
            self._names -= _room(self._chosen.popitem(last=False)[1][1])
        return now

    @property
    def _longest_unasked(self) -> int:
        at, _ = next(iter(self._chosen.values()))
        return self.generation - at

    def _caught_up(self, selector: Selector, names: frozenset[str], changed: list[str]) -> frozenset[str]:
        found = ((name, self._store.get(name)) for name in dict.fromkeys(changed))
        matches = {name: each is not None and selector.matches(each.metadata.labels) for name, each in found}
        if all(matches[name] == (name in names) for name in matches):
            return names
        return (names - matches.keys()) | {name for name in matches if matches[name]}

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            changed = new or old
            assert changed is not None
            self.generation += 1
            self._changes.append(changed.metadata.name)
            if len(self._changes) > 2 * _CHANGES:
                del self._changes[:_CHANGES]


def _room(names: frozenset[str]) -> int:
    return len(names) + _SELECTOR
