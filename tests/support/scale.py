"""How much random tests try: what `make test` has time for, what `make check` adds, and what only `make long` runs.

`KFRAMEWORK_EXAMPLES` is the number of examples that Hypothesis draws, 25 by default; worlds grow with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet

#: The examples of one property.
EXAMPLES = int(os.environ.get("KFRAMEWORK_EXAMPLES", "25"))

#: The worlds of one test that are not marked slow: each is a whole run of a scheduler.
QUICK_WORLDS = 2

#: Of the worlds and cases that are much of a muchness `make check` runs one in so many.
ONE_IN = 3


def seeds(worlds: int = 25, *, start: int = 0, step: int = 1) -> list[ParameterSet]:
    """Return the seeds of some worlds (at 25 examples): two that are quick, a third slow, and the others long."""
    count = max(worlds * EXAMPLES // 25, QUICK_WORLDS)

    def mark(index: int) -> tuple[pytest.MarkDecorator, ...]:
        if index < QUICK_WORLDS:
            return ()
        return (pytest.mark.slow,) if index < worlds / ONE_IN else (pytest.mark.long,)

    return [pytest.param(start + step * index, marks=mark(index)) for index in range(count)]


def sampled(cases: Iterable[object], one_in: int = ONE_IN) -> list[ParameterSet]:
    """Return the cases of a slow test, most of them marked long: they try the same in other places."""
    marked = list[ParameterSet]()
    for index, case in enumerate(cases):
        values = case if type(case) is tuple else (case,)  # a record is one value
        marked.append(pytest.param(*values, marks=pytest.mark.long if index % one_in else ()))
    return marked
