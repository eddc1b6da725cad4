"""The search that remembers finds what kube-scheduler's finds, whatever the plugins, whatever happens in between."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.properties.search_comparison import SearchComparison, Seen
from tests.support.scale import EXAMPLES


@pytest.mark.slow
def test_cached_search_equals_the_reference_search() -> None:
    seen = Seen()

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(seed=st.integers(0, 2**32))
    def race(seed: int) -> None:
        SearchComparison(seed, seen).run()

    race()
    assert len(seen) == 17 and min(seen.values()) >= EXAMPLES // 4, seen
