"""When Python collects garbage: one policy for whatever schedules, on a real cluster, in a simulation or a benchmark.

What a cluster is made of lives long and stands in no circles: with Python's own thresholds the collector walks it again
and again, a fifth of a simulation's time, and finds nothing. So it walks seldom, and what was loaded not at all.
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

#: How many more objects than before there must be until the new ones are walked, how many such walks until those are
#: that outlived one, and how many of these until all are. 50,000 objects, some 1,000 pods bound, take 2 ms to walk.
THRESHOLDS = (50_000, 10, 1_000)

#: How long the garbage of an idle scheduler may lie about, and how long garbage among what was alive once, in seconds.
COLLECTING, COLLECTING_ALL = 60.0, 3600.0


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Have the collector walk seldom inside; at the end it walks as before, what was spared meanwhile too.

    Where the collector walks seldom already, in a simulation inside another or on another thread, it stays so.
    """
    before = gc.get_threshold()
    if before == THRESHOLDS:
        yield
        return
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@contextmanager
def loading() -> Iterator[None]:
    """Have the collector not walk inside, where much is made that lives on: 5 s of the 18 for 25,000 objects of YAML.

    Where it walks seldom, what was made is not walked later either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_threshold() == THRESHOLDS:
            spare()
        if was_enabled:
            gc.enable()


def spare() -> None:
    """Take what is alive by now to live on: it is not walked any more."""
    gc.freeze()


def collect() -> None:
    """Collect what garbage there is, and spare what is left."""
    gc.collect()
    gc.freeze()


def leave_to_the_end() -> None:
    """Let the end of the process take the objects away that are left then.

    Python walks them once more first and takes apart what it finds: 37 µs for each pod of a simulation.
    """
    atexit.register(gc.freeze)


class Collector:
    """Collects garbage now and then, when it is asked to as nothing else is to be done.

    What a cluster is listed into lives for long, and to walk it takes a hundred times as long as a scheduling cycle.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = 0.0
        self._all_due = clock.now() + COLLECTING_ALL

    def collect(self) -> None:
        """Collect if it is time to."""
        now = self._clock.now()
        if now < self._due:
            return
        self._due = now + COLLECTING
        if now >= self._all_due:
            self._all_due = now + COLLECTING_ALL
            gc.unfreeze()
        collect()
        if _trim is not None:
            _trim(0)


#: Gives back what was freed between what is alive: of the 25 MiB that glibc holds, 1.7 in ten minutes of churn.
#: It takes 1 ms, 20 ms where 400 MiB lie in pieces.
_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
