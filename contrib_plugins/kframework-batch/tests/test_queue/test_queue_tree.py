"""Queues below the root."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.queue import QueueInfo, QueueTree
from kframework_batch.testing import make_queue


def tree(parents: Mapping[str, str]) -> QueueTree:
    return QueueTree({name: QueueInfo(make_queue(name, parent=parent)) for name, parent in parents.items()})


def test_queue_without_parent_is_below_the_root() -> None:
    assert tree({"a": "", "b": "a", "c": "b"}).paths == {
        "root": ("root",),
        "a": ("root", "a"),
        "b": ("root", "a", "b"),
        "c": ("root", "a", "b", "c"),
    }


def test_leaf_queues_have_no_children() -> None:
    made = tree({"root": "", "a": "", "b": "a", "c": "root"})
    assert [name for name in ("root", "a", "b", "c") if made.is_leaf(name)] == ["b", "c"]


def test_root_alone_is_a_leaf() -> None:
    assert tree({"root": ""}).is_leaf("root")


@pytest.mark.parametrize(
    ("parents", "why"),
    [
        ({"a": "b"}, "queue a has the parent b, which does not exist: create it, or change spec.parent"),
        ({"a": "a"}, "queue a is its own ancestor (a -> a): change a spec.parent"),
        ({"a": "b", "b": "c", "c": "b"}, "queue b is its own ancestor (b -> c -> b): change a spec.parent"),
    ],
)
def test_invalid_tree_has_a_problem(parents: dict[str, str], why: str) -> None:
    made = tree({"fine": "", **parents})
    assert made.problem == why
    assert made.paths == {}


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["", "root", *"abcdefg"]), max_size=6))
def test_every_queue_has_a_path_unless_the_tree_is_invalid(parents: dict[str, str]) -> None:
    made = tree(parents)

    def leads_up(name: str) -> bool:
        for _ in range(10):
            if name in ("", "root"):
                return True
            if name not in parents:
                return False
            name = parents[name]
        return False

    assert (made.problem == "") is all(leads_up(name) for name in parents)
    if not made.problem:
        assert made.paths.keys() == {"root", *parents}
        for name, parent in parents.items():
            assert made.paths[name] == (*made.paths[parent or "root"], name)
