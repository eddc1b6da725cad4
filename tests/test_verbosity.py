"""kube-scheduler's scale of verbosity."""

from __future__ import annotations

import logging

import pytest

from kframework.verbosity import NOTICE, V2, V3, V5, V10, level_of, verbosity_of

LEVELS = {0: NOTICE, 1: logging.INFO, 2: V2, 3: V3, 4: logging.DEBUG, 5: V5, 10: V10}


@pytest.mark.parametrize(("verbosity", "level"), LEVELS.items())
def test_line_of_a_verbosity_is_there_from_it_on(verbosity: int, level: int) -> None:
    assert level_of(verbosity) == level
    assert verbosity_of(level) == verbosity


def test_higher_the_verbosity_the_more_is_written() -> None:
    levels = [level_of(verbosity) for verbosity in range(14)]
    assert levels == sorted(set(levels), reverse=True)
    assert level_of(99) == 1  # 0 would mean: as the logger above says


def test_warnings_are_written_always() -> None:
    assert verbosity_of(logging.WARNING) == verbosity_of(logging.ERROR) == 0


def test_levels_in_between_belong_to_the_next_verbosity() -> None:
    assert (verbosity_of(NOTICE - 1), verbosity_of(logging.INFO - 1), verbosity_of(1)) == (1, 2, 13)


def test_levels_have_names() -> None:
    assert [logging.getLevelName(level) for level in (NOTICE, V2, V10)] == ["NOTICE", "V2", "V10"]
