"""Prometheus metrics: kube-scheduler's, by its names, of what the records tell and of what stands in the engine."""

from __future__ import annotations

from kframework.core.pod_engine import PodEngine
from kframework.observe.metrics.attempts import Attempts
from kframework.observe.metrics.events import EventTimes
from kframework.observe.metrics.health import HealthResults
from kframework.observe.metrics.readings import build_info, engine_readings
from kframework.observe.metrics.requests import RequestCounts
from kframework.observe.metrics.series import Series


class Metrics:
    """All that one process counts: `attempts` is an observer of its scheduler, the others are told what they count."""

    def __init__(self) -> None:
        self.attempts: Attempts = Attempts()
        self.events: EventTimes = EventTimes()
        self.requests: RequestCounts = RequestCounts()
        self.health: HealthResults = HealthResults()

    @property
    def series(self) -> tuple[Series, ...]:
        """What is counted whichever engine it is."""
        return (*self.attempts.series, *self.requests.series, build_info())

    def attach(self, engine: PodEngine) -> tuple[Series, ...]:
        """Begin to count what happens in an engine that has not begun; return all series of `/metrics`."""
        self.events.attach(engine, self.attempts.gated)
        return (*self.series, *self.events.series, *engine_readings(engine))
