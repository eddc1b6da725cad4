"""How much random tests try: what `make test` has time for, and what only `make check` runs.

`KFRAMEWORK_EXAMPLES` is the number of examples that Hypothesis draws, 25 by default; worlds grow with it.
"""

from __future__ import annotations

import os

import pytest
from _pytest.mark.structures import ParameterSet

#: The examples of one property.
EXAMPLES = int(os.environ.get("KFRAMEWORK_EXAMPLES", "25"))

#: The worlds of one test that are not marked slow: each is a whole run of a scheduler.
QUICK_WORLDS = 2


def seeds(worlds: int = 25, *, start: int = 0, step: int = 1) -> list[ParameterSet]:
    """Return the seeds of so many worlds (at 25 examples), all but the first two marked slow."""
    count = max(worlds * EXAMPLES // 25, QUICK_WORLDS)
    return [
        pytest.param(start + step * index, marks=() if index < QUICK_WORLDS else pytest.mark.slow)
        for index in range(count)
    ]
