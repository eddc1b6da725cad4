"""Turns: a heap with keys that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.action import KeyedQueue


@given(st.lists(st.integers(0, 3)))
def test_items_are_ordered_by_key_then_insertion(keys: list[int]) -> None:
    things = list(enumerate(keys))
    turns = KeyedQueue(lambda thing: (thing[1],), things)
    assert [turns.pop() for _ in things] == sorted(things, key=lambda thing: thing[1])
    assert not turns


def test_key_of_an_item_is_fixed_until_it_is_put_again() -> None:
    shares = {"a": 1, "b": 2}
    turns = KeyedQueue(lambda name: (shares[name],), shares)
    shares["a"] = 3
    first = turns.pop()
    turns.put(first)
    assert (first, turns.pop(), turns.pop()) == ("a", "b", "a")


def test_pop_of_empty_queue_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        KeyedQueue[str](lambda name: (name,)).pop()
