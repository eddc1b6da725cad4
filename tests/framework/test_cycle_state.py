"""The cycle state: typed keys, a read-only state parent, copies for what-ifs."""

from __future__ import annotations

import pytest

from kframework.framework.cycle_state import CycleState, StateKey, StateKeyError

NUMBER = StateKey[int]("number")
NUMBERS = StateKey[list[int]]("numbers")


class Counted:
    """A value that changes in what-ifs."""

    def __init__(self, count: int) -> None:
        self.count = count

    def clone(self) -> Counted:
        return Counted(self.count)


COUNTED = StateKey[Counted]("counted")


def test_stored_value_is_read() -> None:
    state = CycleState()
    state[NUMBER] = 1
    state[NUMBER] = 2
    assert (state[NUMBER], state.get(NUMBER), NUMBER in state, list(state)) == (2, 2, True, [NUMBER])


def test_missing_key_error_names_the_key_and_its_module() -> None:
    state = CycleState()
    with pytest.raises(StateKeyError) as raised:
        state[NUMBER]
    assert str(raised.value) == f"nothing is stored under 'number', a key of {__name__}"
    assert isinstance(raised.value, KeyError)
    assert raised.value.args == ("number",)
    assert state.get(NUMBER) is None
    assert NUMBER not in state


def test_keys_with_one_name_are_distinct() -> None:
    state, twin = CycleState(), StateKey[int]("number")
    state[NUMBER] = 1
    assert twin not in state
    assert repr(twin) == "StateKey('number')"
    assert twin.module == StateKey("number").module == __name__  # made through the alias of a type, and without


def test_stored_none_is_contained() -> None:
    key, state = StateKey[None]("nothing"), CycleState()
    state[key] = None
    assert key in state
    assert state[key] is None


def test_reads_fall_through_to_the_parent_and_writes_do_not() -> None:
    parent = CycleState()
    parent[NUMBER] = 1
    middle = CycleState(parent)
    top = CycleState(middle)
    assert top[NUMBER] == 1
    top[NUMBER] = 2
    middle[NUMBERS] = [3]
    assert (top[NUMBER], middle[NUMBER], parent[NUMBER], top[NUMBERS]) == (2, 1, 1, [3])
    assert NUMBERS not in parent
    assert list(top) == [NUMBER, NUMBERS]


def test_clone_copies_cloneable_values_and_shares_others() -> None:
    parent = CycleState()
    parent[COUNTED] = Counted(1)
    state = CycleState(parent)
    state[NUMBERS] = [1]
    copy = state.clone()
    copy[COUNTED].count += 1
    copy[NUMBER] = 7
    assert (copy[COUNTED].count, state[COUNTED].count, parent[COUNTED].count) == (2, 1, 1)
    assert copy[NUMBERS] is state[NUMBERS]
    assert NUMBER not in state


def test_clone_is_independent_of_its_original() -> None:
    parent = CycleState()
    parent[NUMBER] = 1
    copy = CycleState(parent).clone()
    parent[NUMBER] = 2
    assert copy[NUMBER] == 1


def test_clone_takes_the_value_that_hides_the_parent_value() -> None:
    parent = CycleState()
    parent[COUNTED] = Counted(1)
    state = CycleState(parent)
    state[COUNTED] = Counted(5)
    assert state.clone()[COUNTED].count == 5


def test_repr_lists_the_keys() -> None:
    state = CycleState()
    assert repr(state) == "<CycleState empty>"
    state[NUMBERS] = []
    state[NUMBER] = 1
    assert repr(state) == "<CycleState number, numbers>"


def test_with_parent_keeps_the_writes() -> None:
    key, other = StateKey[int]("key"), StateKey[int]("other")
    first, second = CycleState(), CycleState()
    first[other] = 1
    top = CycleState(first)
    top[key] = 2
    moved = top.with_parent(second)
    assert moved[key] == 2
    assert other in top and other not in moved
