from __future__ import annotations

from kframework.objects import Namespace, ObjectMeta
from kframework.objects.label_selectors import EVERYTHING, NOTHING, exact
from kframework.state.namespaces import Namespaces
from kframework.state.objects import ObjectStore


def put(store: ObjectStore[Namespace], name: str, version: str = "", **labels: str) -> None:
    metadata = ObjectMeta(name=name, resource_version=version, labels=labels)
    store.put(metadata, Namespace(metadata=metadata))


def test_labels_and_what_a_selector_chooses() -> None:
    store = ObjectStore[Namespace]()
    namespaces = store.index(Namespaces)
    put(store, "a", team="x")
    put(store, "b", team="y")
    assert namespaces.labels("a") == {"team": "x"}
    assert namespaces.labels("unheard-of") == {}
    assert namespaces.chosen(exact({"team": "x"})) == {"a"}
    assert namespaces.chosen(EVERYTHING) == {"a", "b"}
    assert namespaces.chosen(NOTHING) == frozenset()
    put(store, "b", team="x")
    assert namespaces.chosen(exact({"team": "x"})) == {"a", "b"}


def test_the_generation_moves_with_names_and_labels() -> None:
    store = ObjectStore[Namespace]()
    namespaces = store.index(Namespaces)
    seen = [namespaces.generation]
    put(store, "a", team="x")
    seen.append(namespaces.generation)
    put(store, "a", team="y")
    seen.append(namespaces.generation)
    store.remove(ObjectMeta(name="a"))
    seen.append(namespaces.generation)
    assert seen == sorted(set(seen))
    put(store, "a", version="1")
    before = namespaces.generation
    put(store, "a", version="2")
    assert namespaces.generation == before
