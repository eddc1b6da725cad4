"""The study of services: what is lost with the fullest zone."""

from __future__ import annotations

import pytest

from benchmarks.selector_spread import run_profile


@pytest.mark.slow
def test_spreading_keeps_more_of_a_service_than_none() -> None:
    unspread, spread = (run_profile(profile, seed=0) for profile in ("No spreading", "SelectorSpread"))
    assert spread.zone < 0.7 * unspread.zone
    assert spread.node < unspread.node
