"""The objects of a kind and their history."""

from __future__ import annotations

import pytest

from kframework.cluster.shelf import HISTORY, Change, Shelf
from kframework.errors import ClusterError
from kframework.objects import Node, ObjectMeta, Pod, kind_of


def node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def test_writes_tell_what_was_before_and_after() -> None:
    shelf = Shelf(kind_of(Node))
    seen: list[Change] = []
    shelf.subscribe(seen.append)
    first, second = node("a"), node("a")
    shelf.write(("", "a"), first, 1)
    shelf.write(("", "a"), second, 2)
    shelf.write(("", "a"), None, 3)
    assert seen == [Change(1, None, first), Change(2, first, second), Change(3, second, None)]
    assert shelf.objects == {}


def test_the_object_is_stored_when_its_subscribers_hear_of_it() -> None:
    shelf = Shelf(kind_of(Node))
    found: list[bool] = []
    shelf.subscribe(lambda change: found.append(("", "a") in shelf.objects))
    shelf.write(("", "a"), node("a"), 1)
    shelf.write(("", "a"), None, 2)
    assert found == [True, False]


def test_who_has_left_hears_no_more() -> None:
    shelf = Shelf(kind_of(Node))
    left: list[Change] = []
    stayed: list[Change] = []
    receive = left.append
    shelf.subscribe(receive)
    shelf.subscribe(stayed.append)
    shelf.unsubscribe(receive)
    shelf.write(("", "a"), node("a"), 1)
    assert (left, len(stayed)) == ([], 1)


def test_changes_resume_after_a_version() -> None:
    shelf = Shelf(kind_of(Node))
    for version in (4, 7, 9):
        shelf.write(("", str(version)), node(str(version)), version)
    assert [[change.version for change in shelf.changes(since)] for since in (0, 4, 8, 9)] == [
        [4, 7, 9],
        [7, 9],
        [9],
        [],
    ]


def test_what_is_too_long_ago_has_expired() -> None:
    shelf = Shelf(kind_of(Node))
    for version in range(1, HISTORY + 3):
        shelf.write(("", "a"), node("a"), version)
    assert len(shelf.changes(2)) == HISTORY
    with pytest.raises(ClusterError) as caught:
        shelf.changes(1)
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


def test_namespaced_kinds_default_their_namespace_and_others_have_none() -> None:
    metadata = [ObjectMeta(name="a"), ObjectMeta(name="a", namespace="team")]
    assert [Shelf(kind_of(Pod)).key(each) for each in metadata] == [("default", "a"), ("team", "a")]
    assert [Shelf(kind_of(Node)).key(each) for each in metadata] == [("", "a"), ("", "a")]
