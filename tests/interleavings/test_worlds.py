"""The short form of the exploration; the long one is `python -m tests.interleavings`."""

from __future__ import annotations

import pytest

from tests.interleavings.explorer import explore
from tests.interleavings.worlds.every import WORLDS
from tests.support.scale import EXAMPLES

#: Few, as every push pays for them: all together take 10 s of a core.
SCHEDULES = EXAMPLES * 4


@pytest.mark.parametrize("world", WORLDS)
def test_all_holds_in_whatever_order_things_come(world: str) -> None:
    found = explore(world, WORLDS[world], SCHEDULES)
    assert found.failure is None, str(found.failure)
    assert found.distinct > 0.7 * found.schedules
