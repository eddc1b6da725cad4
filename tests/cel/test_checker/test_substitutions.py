from __future__ import annotations

import pytest

from kframework.cel.checker import Substitutions, instance, more_general
from kframework.cel.types import ANY, DYN, INT, NULL, STRING, Type, list_of, optional_of

A, B = Type("$A"), Type("$B")


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        (INT, INT, True),
        (INT, STRING, False),
        (INT, DYN, True),
        (ANY, STRING, True),
        (list_of(INT), list_of(INT), True),
        (list_of(INT), list_of(STRING), False),
        (list_of(INT), optional_of(INT), False),
        (Type("kubernetes.Quantity"), NULL, True),
        (NULL, INT, False),
        (NULL, NULL, True),
        (optional_of(INT), NULL, True),
    ],
)
def test_one_type_stands_for_another(wanted: Type, given: Type, fits: bool) -> None:
    assert Substitutions().assign([given], [wanted]) is fits


def test_a_parameter_stands_for_what_it_was_first_given() -> None:
    found = Substitutions()
    assert found.assign([INT, list_of(STRING)], [A, list_of(B)])
    assert [found.resolve(A), found.resolve(B)] == [INT, STRING]
    assert not found.assign([STRING], [A])
    assert found.assign([DYN], [A])
    assert found.resolve(A) == DYN


def test_a_failed_attempt_leaves_no_trace() -> None:
    found = Substitutions()
    assert not found.assign([INT, STRING], [A, INT])
    assert found.resolve(A) == A
    assert found.final(list_of(A)) == list_of(DYN)


def test_a_parameter_does_not_occur_in_what_it_stands_for() -> None:
    found = Substitutions()
    assert not found.assign([list_of(A)], [A])
    assert found.assign([list_of(B)], [A])
    assert not found.assign([A], [B])


def test_of_two_types_the_one_that_says_less_is_kept() -> None:
    assert more_general(INT, DYN) == DYN
    assert more_general(DYN, INT) == DYN
    assert more_general(list_of(INT), list_of(DYN)) == list_of(DYN)
    assert more_general(Type("type", (INT,)), Type("type", (STRING,))) == Type("type", (INT,))


def test_fresh_parameters_are_all_different() -> None:
    found = Substitutions()
    assert found.fresh() != found.fresh()
    assert instance([list_of(A), INT], {A: STRING}) == [list_of(STRING), INT]
