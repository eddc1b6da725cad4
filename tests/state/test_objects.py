"""Stores of other kinds: by namespace and name, with callbacks."""

from __future__ import annotations

import pytest

from kframework.objects import ObjectMeta
from kframework.state.objects import AssumptionError, ObjectStore


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


def test_removed_object_is_returned_once() -> None:
    store: ObjectStore[str] = ObjectStore()
    store.put(ObjectMeta(name="a"), "one")
    assert [store.remove(ObjectMeta(name="a")) for _ in range(2)] == ["one", None]
    assert len(store) == 0


def test_callbacks_get_every_change_in_order_of_registration() -> None:
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


def test_callback_finds_the_change_made() -> None:
    store: ObjectStore[str] = ObjectStore()
    found: list[str | None] = []
    store.on_change(lambda old, new: found.append(store.get("a")))
    store.put(ObjectMeta(name="a"), "one")
    store.remove(ObjectMeta(name="a"))
    assert found == ["one", None]


def at(version: str, name: str = "a") -> ObjectMeta:
    return ObjectMeta(name=name, namespace="x", resource_version=version)


def assumed() -> ObjectStore[str]:
    """Make a store in which the cluster's "one" and "other" are known and "mine" is assumed in place of "one"."""
    store: ObjectStore[str] = ObjectStore()
    store.put(at("1"), "one")
    store.put(at("1", "b"), "other")
    store.assume(at("1"), "mine")
    return store


def test_assumed_object_is_read_until_it_is_restored() -> None:
    store = assumed()
    assert (store.get("a", "x"), store.latest("a", "x"), list(store), len(store)) == (
        "mine",
        "one",
        ["mine", "other"],
        2,
    )
    store.restore(at("1"))
    assert (store.get("a", "x"), list(store)) == ("one", ["one", "other"])


def test_only_the_version_that_the_cluster_has_can_be_assumed() -> None:
    store = assumed()
    for version in ("2", "0"):
        with pytest.raises(AssumptionError, match=rf'"x/a" is out of sync \(stored: 1, assume: {version}\)'):
            store.assume(at(version), "never")
    with pytest.raises(AssumptionError, match='"x/c" is out of sync'):
        store.assume(at("1", "c"), "never")
    store.assume(at("1"), "mine again")
    assert store.get("a", "x") == "mine again"


def test_newer_object_of_the_cluster_ends_the_assumption() -> None:
    store = assumed()
    assert store.put(at("2"), "two") == "one"
    assert store.get("a", "x") == "two"
    store.restore(at("1"))
    assert store.get("a", "x") == "two"


def test_repeated_object_of_the_cluster_keeps_the_assumption() -> None:
    store = assumed()
    assert store.put(at("1"), "one") == "one"
    assert store.get("a", "x") == "mine"


def test_object_of_another_version_is_not_restored() -> None:
    store = assumed()
    store.restore(at("2"))
    assert store.get("a", "x") == "mine"


def test_deleted_object_is_not_assumed_any_more() -> None:
    store = assumed()
    assert store.remove(at("1")) == "one"
    assert (store.get("a", "x"), list(store)) == (None, ["other"])
    store.restore(at("1"))
    store.put(at("1"), "one")
    assert store.get("a", "x") == "one"


def test_callbacks_get_the_assumed_version() -> None:
    store = assumed()
    told: list[tuple[str | None, str | None]] = []
    store.on_change(lambda old, new: told.append((old, new)))
    store.restore(at("1"))
    store.restore(at("1"))
    store.assume(at("1"), "mine")
    store.put(at("1"), "one")
    store.put(at("2"), "two")
    store.assume(at("2"), "ours")
    store.remove(at("2"))
    assert told == [
        ("mine", "one"),
        ("one", "mine"),
        ("mine", "mine"),
        ("mine", "two"),
        ("two", "ours"),
        ("ours", None),
    ]


def test_index_is_built_once_for_all_callers() -> None:
    class Names:
        def __init__(self, store: ObjectStore[str]) -> None:
            self.seen = list(store)

    store = assumed()
    assert store.index(Names) is store.index(Names)
    assert store.index(Names).seen == ["mine", "other"]
