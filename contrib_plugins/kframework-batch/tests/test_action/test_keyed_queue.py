"""Turns: a heap with keys that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.action import KeyedQueue


@given(st.lists(st.integers(0, 3)))
def test_things_come_by_key_then_in_the_order_in_which_they_were_put_in(keys: list[int]) -> None:
    things = list(enumerate(keys))
    turns = KeyedQueue(lambda thing: (thing[1],), things)
    assert [turns.pop() for _ in things] == sorted(things, key=lambda thing: thing[1])
    assert not turns


def test_a_key_stays_until_its_thing_is_put_in_again() -> None:
    shares = {"a": 1, "b": 2}
    turns = KeyedQueue(lambda name: (shares[name],), shares)
    shares["a"] = 3
    first = turns.pop()
    turns.put(first)
    assert (first, turns.pop(), turns.pop()) == ("a", "b", "a")


def test_an_empty_heap_has_nothing_to_give() -> None:
    with pytest.raises(IndexError):
        KeyedQueue[str](lambda name: (name,)).pop()
