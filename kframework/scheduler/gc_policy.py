"""Python's garbage collection: one policy for all that schedules, on a cluster, in a simulation or a benchmark.

The objects of a cluster live long and have no reference cycles: with Python's own thresholds the collector scans them
again and again, a fifth of a simulation's time, and finds nothing. So it runs rarely, and never scans loaded objects.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kframework.clock import Clock

#: The thresholds of `gc.set_threshold`: new objects, collections of the young, and of the middle generation. 50,000
#: objects, some 1,000 pods bound, take 2 ms to scan.
THRESHOLDS = (50_000, 10, 1_000)

#: How often an idle scheduler collects garbage, and how often garbage among frozen objects too, in seconds.
COLLECT_INTERVAL, FULL_COLLECT_INTERVAL = 60.0, 3600.0


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Make collections rare inside, and never scan what is loaded; at the end restore the thresholds and unfreeze it.

    If collections are rare already, in a simulation inside another or on another thread, nothing changes.
    """
    before = gc.get_threshold()
    if before == THRESHOLDS:
        yield
        return
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect no garbage inside, where many long-lived objects are created: it takes 5 of 18 s for 25,000 YAML objects.

    Where collections are rare, these objects are not scanned later either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_threshold() == THRESHOLDS:
            gc.freeze()
        if was_enabled:
            gc.enable()


def collect() -> None:
    gc.collect()
    gc.freeze()


def disable_until_exit() -> None:
    """Skip the collection at the end of the process, which frees its memory anyway.

    Python would scan all objects once more and take apart what it finds: 37 µs for each pod of a simulation.
    """
    atexit.register(gc.freeze)


class IdleCollector:
    """A collector of garbage that runs now and then, when the scheduler is idle.

    It first runs after an interval: at the start there is little garbage, and the first bindings would wait 20 ms.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.now() + COLLECT_INTERVAL
        self._all_due = clock.now() + FULL_COLLECT_INTERVAL

    def collect(self) -> None:
        now = self._clock.now()
        if now < self._due:
            return
        self._due = now + COLLECT_INTERVAL
        if now >= self._all_due:
            self._all_due = now + FULL_COLLECT_INTERVAL
            gc.unfreeze()
        collect()
        if _trim is not None:
            _trim(0)


#: Returns freed memory between live objects to the system: of the 25 MiB that glibc keeps, 1.7 in ten minutes of churn.
#: It takes 1 ms, 20 ms with 400 MiB of fragmented memory.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
