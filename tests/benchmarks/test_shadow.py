"""The benchmark of shadows measures the cycles and the shadow, each for itself."""

from __future__ import annotations

from cProfile import Profile

from benchmarks.counts import count_calls
from benchmarks.shadow import measure_shadow
from benchmarks.timing import Stopwatch


def test_shadow_and_cycles_are_measured_apart() -> None:
    shadow, cycles = (count_calls(each) for each in measure_shadow(Profile, nodes=5, warm=5, pods=10))
    assert 0 < shadow < 10 * cycles
    shadow_time, cycle_time = measure_shadow(Stopwatch, nodes=5, warm=5, pods=10)
    assert shadow_time.seconds > 0 < cycle_time.seconds
