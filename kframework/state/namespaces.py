"""Namespaces: their labels, and which of them a selector chooses."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.objects import Namespace
from kframework.objects.label_selectors import Selector
from kframework.state.objects import ObjectStore


class Namespaces:
    """An index of the store of Namespaces: what was worked out from it holds until `generation` moves."""

    def __init__(self, store: ObjectStore[Namespace]) -> None:
        self._store = store
        #: Counts the namespaces that came, went, or were given other labels.
        self.generation: int = 0
        store.on_change(self._changed)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; a namespace that nobody has heard of has none."""
        namespace = self._store.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def chosen(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces whose labels match."""
        return frozenset(each.metadata.name for each in self._store if selector.matches(each.metadata.labels))

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self.generation += 1

    def __repr__(self) -> str:
        return f"<Namespaces {len(self._store)}>"
