"""Simulation: sessions on a cluster in memory, on virtual time, with the controllers that make pods of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kframework.engine import MakeController, Observer, Progress, Scheduler, Simulation, simulate
from kframework.objects import ApiObject
from kframework_batch.engine import BatchEngine, SessionObserver
from kframework_batch.settings import Settings


def simulate_batch(
    objects: Iterable[ApiObject],
    settings: Settings,
    *,
    duration: float | None = None,
    observers: Iterable[Observer] = (),
    session_observers: Iterable[SessionObserver] = (),
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_end: Callable[[Scheduler[BatchEngine]], None] = lambda scheduler: None,
    timed_share: float = 0.0,
    controllers: Iterable[MakeController] = (),
) -> Simulation:
    """Schedule the jobs and pods among these objects until nothing moves any more, or for `duration` virtual seconds.

    `controllers` work beside those of jobs, pod groups and queues. Deterministic, as `simulate` of the core is.
    """
    return simulate(
        objects,
        settings.configuration,
        duration=duration,
        registry=settings.registry,
        observers=observers,
        on_progress=on_progress,
        on_end=on_end,
        engine=settings.engine(*session_observers),
        timed_share=timed_share,
        controllers=(*settings.controllers, *controllers),
    )
