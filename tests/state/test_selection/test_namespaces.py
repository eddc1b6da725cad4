from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from kframework.objects import Namespace, ObjectMeta
from kframework.objects.label_selectors import EVERYTHING, NOTHING, Selector, exact_selector, parse_label_selector
from kframework.state import selection as module
from kframework.state.objects import ObjectStore
from kframework.state.selection import Namespaces


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
    assert namespaces.matching(exact_selector({"team": "x"})) == {"a"}
    assert namespaces.matching(EVERYTHING) == {"a", "b"}
    assert namespaces.matching(NOTHING) == frozenset()
    put(store, "b", team="x")
    assert namespaces.matching(exact_selector({"team": "x"})) == {"a", "b"}


def test_generation_moves_with_names_and_labels() -> None:
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


def test_selector_is_matched_with_changed_namespaces_only() -> None:
    store = ObjectStore[Namespace]()
    namespaces = store.index(Namespaces)
    for n in range(100):
        put(store, f"n{n}", team="x")
    tried: list[object] = []

    def of_team_x(labels: Mapping[str, str]) -> bool:
        tried.append(labels)
        return labels.get("team") == "x"

    selector = Selector((), of_team_x)
    assert len(namespaces.matching(selector)) == len(tried) == 100
    put(store, "n7", team="y")
    put(store, "n7", team="z")
    store.remove(ObjectMeta(name="n8"))
    assert namespaces.matching(selector) == {f"n{n}" for n in range(100)} - {"n7", "n8"}
    assert len(tried) == 101
    again = namespaces.matching(selector)
    assert (namespaces.matching(selector) is again, len(tried)) == (True, 101)


def test_unused_selector_is_dropped_as_namespaces_change() -> None:
    store = ObjectStore[Namespace]()
    namespaces = store.index(Namespaces)
    kept = exact_selector({"team": "x"})
    for n in range(1000):
        put(store, f"n{n}", team=f"team-{n}")
        namespaces.matching(exact_selector({"team": f"team-{n}"}))
        namespaces.matching(kept)
    assert len(namespaces._matches) <= 66 and kept in namespaces._matches
    assert namespaces.matching(exact_selector({"team": "team-3"})) == {"n3"}


@pytest.mark.parametrize("seed", range(5))
def test_selected_namespaces_stay_true_within_any_limits(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(module, "_LOG_SIZE", 4)
    monkeypatch.setattr(module, "_MAX_NAMES", 36)
    monkeypatch.setattr(module, "_SELECTOR_COST", 10)
    random, store = Random(seed), ObjectStore[Namespace]()
    namespaces = store.index(Namespaces)
    selectors = [parse_label_selector(text) for text in ("team=x", "team!=x", "team", "!team", "team in (x,y)")]
    for _ in range(400):
        name = random.choice("abcdef")
        if random.random() < 0.2:
            store.remove(ObjectMeta(name=name))
        else:
            put(store, name, **({"team": random.choice("xyz")} if random.random() < 0.7 else {}))
        if random.random() < 0.5:
            selector = random.choice(selectors)
            chosen = {each.metadata.name for each in store if selector.matches(each.metadata.labels)}
            assert namespaces.matching(selector) == chosen
        assert sum(10 + len(names) for _, names in namespaces._matches.values()) <= 36 or len(namespaces._matches) == 1
