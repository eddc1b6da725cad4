"""The objects of a kind and their history."""

from __future__ import annotations

import pytest

from kframework.errors import ClusterError
from kframework.in_memory.kind_store import HISTORY, Change, KindStore
from kframework.objects import Node, ObjectMeta, Pod, kind_of


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def test_writes_tell_what_was_before_and_after() -> None:
    kind_store = KindStore(kind_of(Node))
    seen: list[Change] = []
    kind_store.subscribe(seen.append)
    first, second = node("a"), node("a")
    kind_store.write(("", "a"), first, 1)
    kind_store.write(("", "a"), second, 2)
    kind_store.write(("", "a"), None, 3)
    assert seen == [Change(1, None, first), Change(2, first, second), Change(3, second, None)]
    assert kind_store.objects == {}


def test_the_object_is_stored_when_its_subscribers_hear_of_it() -> None:
    kind_store = KindStore(kind_of(Node))
    found: list[bool] = []
    kind_store.subscribe(lambda change: found.append(("", "a") in kind_store.objects))
    kind_store.write(("", "a"), node("a"), 1)
    kind_store.write(("", "a"), None, 2)
    assert found == [True, False]


def test_who_has_left_hears_no_more() -> None:
    kind_store = KindStore(kind_of(Node))
    left: list[Change] = []
    stayed: list[Change] = []
    receive = left.append
    kind_store.subscribe(receive)
    kind_store.subscribe(stayed.append)
    kind_store.unsubscribe(receive)
    kind_store.write(("", "a"), node("a"), 1)
    assert (left, len(stayed)) == ([], 1)


def test_changes_resume_after_a_version() -> None:
    kind_store = KindStore(kind_of(Node))
    for version in (4, 7, 9):
        kind_store.write(("", str(version)), node(str(version)), version)
    assert [[change.version for change in kind_store.changes(since)] for since in (0, 4, 8, 9)] == [
        [4, 7, 9],
        [7, 9],
        [9],
        [],
    ]


def test_what_is_too_long_ago_has_expired() -> None:
    kind_store = KindStore(kind_of(Node))
    for version in range(1, HISTORY + 3):
        kind_store.write(("", "a"), node("a"), version)
    assert len(kind_store.changes(2)) == HISTORY
    with pytest.raises(ClusterError) as caught:
        kind_store.changes(1)
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


@pytest.mark.parametrize("before", [0, 1, HISTORY - 2, HISTORY])
def test_writes_at_once_are_as_if_made_one_after_the_other(before: int) -> None:
    at_once, singly = KindStore(kind_of(Node)), KindStore(kind_of(Node))
    seen: list[Change] = []
    at_once.subscribe(seen.append)
    for kind_store in (at_once, singly):
        for version in range(before):
            kind_store.write(("", "a"), node("a"), version)
    old = at_once.objects.get(("", "a"))
    changes = [Change(before + number, old, node("a")) for number in range(4)]
    at_once.write_all(changes)
    for change in changes:
        singly.write(("", "a"), change.new, change.version)  # type: ignore[arg-type]  # a Node, as all of them
    assert seen[-4:] == changes
    assert at_once.objects == singly.objects
    for since in (0, 1, 2, 3, before + 1):
        told = [_versions(kind_store, since) for kind_store in (at_once, singly)]
        assert told[0] == told[1]


def _versions(kind_store: KindStore[Node], since: int) -> list[int] | str:
    try:
        return [change.version for change in kind_store.changes(since)]
    except ClusterError as error:
        return error.reason


def test_namespaced_kinds_default_their_namespace_and_others_have_none() -> None:
    metadata = [ObjectMeta(name="a"), ObjectMeta(name="a", namespace="team")]
    assert [KindStore(kind_of(Pod)).key(each) for each in metadata] == [("default", "a"), ("team", "a")]
    assert [KindStore(kind_of(Node)).key(each) for each in metadata] == [("", "a"), ("", "a")]
