"""The short form of the exploration; the long one is `python -m tests.interleavings`."""

from __future__ import annotations

import pytest

from tests.interleavings.explorer import explore
from tests.interleavings.worlds.every import WORLDS
from tests.support.scale import EXAMPLES

#: So many schedules of each world; all together take 8 s of a core, and four times as many 31 s.
SCHEDULES = [EXAMPLES, pytest.param(EXAMPLES * 4, marks=pytest.mark.long)]


@pytest.mark.slow
@pytest.mark.parametrize("schedules", SCHEDULES)
@pytest.mark.parametrize("world", WORLDS)
def test_invariants_hold_in_every_explored_order(world: str, schedules: int) -> None:
    found = explore(world, WORLDS[world], schedules)
    assert found.failure is None, str(found.failure)
    assert found.distinct > 0.7 * found.schedules
