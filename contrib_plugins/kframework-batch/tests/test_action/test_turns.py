"""Turns: a heap with keys that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.action import Turns


@given(st.lists(st.integers(0, 3)))
def test_things_come_by_key_then_in_the_order_in_which_they_were_put_in(keys: list[int]) -> None:
    things = list(enumerate(keys))
    turns = Turns(lambda thing: (thing[1],), things)
    assert [turns.take() for _ in things] == sorted(things, key=lambda thing: thing[1])
    assert not turns


def test_a_key_stays_until_its_thing_is_put_in_again() -> None:
    shares = {"a": 1, "b": 2}
    turns = Turns(lambda name: (shares[name],), shares)
    shares["a"] = 3
    first = turns.take()
    turns.put(first)
    assert (first, turns.take(), turns.take()) == ("a", "b", "a")


def test_an_empty_heap_has_nothing_to_give() -> None:
    with pytest.raises(IndexError):
        Turns[str](lambda name: (name,)).take()
