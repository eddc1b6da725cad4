"""The objects of a kind and their changes."""

from __future__ import annotations

import pytest

from kframework.in_memory.kind_store import Change, KindStore
from kframework.objects import Node, ObjectMeta, Pod, kind_of


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def test_change_has_the_object_before_and_after() -> None:
    kind_store = KindStore(kind_of(Node))
    recorded: list[Change] = []
    kind_store.subscribe(recorded.append)
    first, second = node("a"), node("a")
    kind_store.write(("", "a"), first, 1)
    kind_store.write(("", "a"), second, 2)
    kind_store.write(("", "a"), None, 3)
    assert recorded == [Change(1, None, first), Change(2, first, second), Change(3, second, None)]
    assert kind_store.objects == {}


def test_object_is_stored_before_subscribers_are_notified() -> None:
    kind_store = KindStore(kind_of(Node))
    actual: list[bool] = []
    kind_store.subscribe(lambda change: actual.append(("", "a") in kind_store.objects))
    kind_store.write(("", "a"), node("a"), 1)
    kind_store.write(("", "a"), None, 2)
    assert actual == [True, False]


def test_unsubscribed_handler_is_not_called() -> None:
    kind_store = KindStore(kind_of(Node))
    left: list[Change] = []
    stayed: list[Change] = []
    receive = left.append
    kind_store.subscribe(receive)
    kind_store.subscribe(stayed.append)
    kind_store.unsubscribe(receive)
    kind_store.write(("", "a"), node("a"), 1)
    assert (left, len(stayed)) == ([], 1)


@pytest.mark.parametrize("before", [0, 1])
def test_batch_of_writes_equals_single_writes(before: int) -> None:
    at_once, singly = KindStore(kind_of(Node)), KindStore(kind_of(Node))
    recorded: list[Change] = []
    at_once.subscribe(recorded.append)
    for kind_store in (at_once, singly):
        for version in range(before):
            kind_store.write(("", "a"), node("a"), version)
    old = at_once.objects.get(("", "a"))
    changes = [Change(before + number, old, node("a")) for number in range(4)]
    at_once.write_all(changes)
    for change in changes:
        singly.write(("", "a"), change.new, change.version)  # type: ignore[arg-type]  # a Node, as all of them
    assert recorded[-4:] == changes
    assert at_once.objects == singly.objects


def test_key_has_the_default_namespace_for_namespaced_kinds() -> None:
    metadata = [ObjectMeta(name="a"), ObjectMeta(name="a", namespace="team")]
    assert [KindStore(kind_of(Pod)).key(each) for each in metadata] == [("default", "a"), ("team", "a")]
    assert [KindStore(kind_of(Node)).key(each) for each in metadata] == [("", "a"), ("", "a")]
