"""Garbage is collected seldom while something is scheduled, and as before when it is over."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from contextlib import ExitStack

import pytest

from kframework.clock import LoopClock, run_virtual
from kframework.scheduler import gc_policy
from kframework.scheduler.gc_policy import (
    COLLECT_INTERVAL,
    FULL_COLLECT_INTERVAL,
    THRESHOLDS,
    IdleCollector,
    reduced_gc,
)
from kframework.simulation.records import Progress
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod


def test_collector_runs_rarely_inside_and_then_as_before() -> None:
    before = gc.get_threshold()
    with reduced_gc(), ExitStack() as inner:
        inner.enter_context(reduced_gc())
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count()
        inner.close()
        assert gc.get_threshold() == THRESHOLDS
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


def test_simulation_spares_what_was_loaded_until_its_result_is_there() -> None:
    counts: list[tuple[tuple[int, int, int], bool]] = []

    def count(progress: Progress) -> None:
        counts.append((gc.get_threshold(), gc.get_freeze_count() > 0))

    assert Simulation([make_node("a"), make_pod()], on_progress=count).run().outcomes
    assert counts == [(THRESHOLDS, True)]
    assert not gc.get_freeze_count()


def test_collector_collects_when_it_is_time_to_and_then_spares_what_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    monkeypatch.setattr(gc_policy, "_trim", lambda pad: done.append("give back"))

    async def main() -> None:
        collector = IdleCollector(LoopClock(asyncio.get_running_loop()))
        collector.collect()
        assert not done
        await asyncio.sleep(COLLECT_INTERVAL)
        for _ in range(3):
            collector.collect()
        assert done == ["collect", "freeze", "give back"]
        await asyncio.sleep(COLLECT_INTERVAL)
        collector.collect()
        assert done == ["collect", "freeze", "give back"] * 2
        done.clear()
        await asyncio.sleep(FULL_COLLECT_INTERVAL)
        collector.collect()
        assert done == ["unfreeze", "collect", "freeze", "give back"]

    run_virtual(main)


def test_memory_is_given_back_where_the_c_library_can() -> None:
    """As glibc can; others are not asked."""
    assert (gc_policy._trim is not None) == hasattr(ctypes.CDLL(None), "malloc_trim")
    assert gc_policy._trim is None or gc_policy._trim(0) in (0, 1)


def test_loaded_objects_are_frozen_only_if_the_collector_runs_rarely() -> None:
    with gc_policy.gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    with reduced_gc():
        assert gc.get_freeze_count()
        gc.unfreeze()
        with gc_policy.gc_paused():
            pass
        assert gc.get_freeze_count()
        assert gc.isenabled()
    assert not gc.get_freeze_count()
