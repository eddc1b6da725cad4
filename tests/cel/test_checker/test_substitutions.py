from __future__ import annotations

import pytest

from kframework.cel.checker import Substitutions, instantiate, more_general
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
def test_types_unify(wanted: Type, given: Type, fits: bool) -> None:
    assert Substitutions().unify([given], [wanted]) is fits


def test_parameter_keeps_its_first_binding() -> None:
    actual = Substitutions()
    assert actual.unify([INT, list_of(STRING)], [A, list_of(B)])
    assert [actual.resolve(A), actual.resolve(B)] == [INT, STRING]
    assert not actual.unify([STRING], [A])
    assert actual.unify([DYN], [A])
    assert actual.resolve(A) == DYN


def test_failed_unification_changes_nothing() -> None:
    actual = Substitutions()
    assert not actual.unify([INT, STRING], [A, INT])
    assert actual.resolve(A) == A
    assert actual.resolve(list_of(A), DYN) == list_of(DYN)


def test_parameter_does_not_occur_in_its_binding() -> None:
    actual = Substitutions()
    assert not actual.unify([list_of(A)], [A])
    assert actual.unify([list_of(B)], [A])
    assert not actual.unify([A], [B])


def test_more_general_type_is_kept() -> None:
    assert more_general(INT, DYN) == DYN
    assert more_general(DYN, INT) == DYN
    assert more_general(list_of(INT), list_of(DYN)) == list_of(DYN)
    assert more_general(Type("type", (INT,)), Type("type", (STRING,))) == Type("type", (INT,))


def test_new_parameters_are_distinct() -> None:
    actual = Substitutions()
    assert actual.new_parameter() != actual.new_parameter()
    assert instantiate([list_of(A), INT], {A: STRING}) == [list_of(STRING), INT]
