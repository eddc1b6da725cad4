"""Stores of other kinds: by namespace and name, with callbacks."""

from __future__ import annotations

from kframework.objects import ObjectMeta
from kframework.state.objects import ObjectStore


def test_objects_are_kept_by_namespace_and_name() -> None:
    store: ObjectStore[str] = ObjectStore()
    assert store.put(ObjectMeta(name="a", namespace="x"), "one") is None
    assert store.put(ObjectMeta(name="a", namespace="y"), "two") is None
    assert store.put(ObjectMeta(name="a", namespace="x"), "three") == "one"
    assert (store.get("a", "x"), store.get("a", "y"), store.get("a")) == ("three", "two", None)
    assert (len(store), list(store)) == (2, ["three", "two"])


def test_kinds_without_namespace_need_none() -> None:
    store: ObjectStore[str] = ObjectStore()
    store.put(ObjectMeta(name="a"), "one")
    assert store.get("a") == "one"


def test_a_removed_object_is_returned_once() -> None:
    store: ObjectStore[str] = ObjectStore()
    store.put(ObjectMeta(name="a"), "one")
    assert [store.remove(ObjectMeta(name="a")) for _ in range(2)] == ["one", None]
    assert len(store) == 0


def test_every_change_is_told_in_the_order_of_asking() -> None:
    store: ObjectStore[str] = ObjectStore()
    told: list[tuple[int, str | None, str | None]] = []
    store.on_change(lambda old, new: told.append((0, old, new)))
    store.on_change(lambda old, new: told.append((1, old, new)))
    store.put(ObjectMeta(name="a"), "one")
    store.put(ObjectMeta(name="a"), "two")
    store.remove(ObjectMeta(name="b"))
    store.remove(ObjectMeta(name="a"))
    changes = [(None, "one"), ("one", "two"), ("two", None)]
    assert told == [(n, old, new) for old, new in changes for n in range(2)]


def test_a_callback_finds_the_change_made() -> None:
    store: ObjectStore[str] = ObjectStore()
    found: list[str | None] = []
    store.on_change(lambda old, new: found.append(store.get("a")))
    store.put(ObjectMeta(name="a"), "one")
    store.remove(ObjectMeta(name="a"))
    assert found == ["one", None]
