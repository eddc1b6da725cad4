"""The observers of a scheduler, and their HTTP routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

from kframework.core.cycle.records import Observer
from kframework.core.pod_engine import PodEngine
from kframework.explain.explainer import PodEngineView
from kframework.explain.routes import explain_routes
from kframework.observe.history import History
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.metrics.series import ScrapedSeries, Series
from kframework.observe.web.routes import web_routes
from kframework.observe.web.view import EngineView
from kframework.scheduler.scheduler import E, EngineFactory, Scheduler

if TYPE_CHECKING:
    from aiohttp.web import RouteDef


#: Creates the page's view of an engine from the history of its decisions.
EngineViewFactory = Callable[[E, History], EngineView[E]]


class Observers(Generic[E]):
    """The observers of a scheduler: its public metrics, its history for a page, and others.

    `engine` creates the scheduler's engine, and `shown` the page's view of it; in `timed_share` of the attempts plugins
    are timed, at least in as many as the metrics need.
    """

    def __init__(
        self,
        *others: Observer,
        engine: EngineFactory[E],
        shown: EngineViewFactory[E] = EngineView,
        timed_share: float = TIMED_SHARE,
    ) -> None:
        self.metrics: Metrics = Metrics()
        self.history: History = History()
        self.all: tuple[Observer, ...] = (*others, self.history, self.metrics.attempts)
        self.engine: EngineFactory[E] = engine
        self.shown: EngineViewFactory[E] = shown
        self.timed_share: float = max(timed_share, TIMED_SHARE)

    def routes(self, scheduler: Scheduler[E]) -> list[RouteDef]:
        """Return the routes of the observers; call it before the scheduler starts."""
        return [
            *web_routes(self.shown(scheduler.engine, self.history)),
            *metrics_routes(
                scheduler, (*self.series(scheduler.engine), dropped_events(scheduler)), self.metrics.health
            ),
        ]

    def series(self, engine: E) -> tuple[Series, ...]:
        """Return the series of the metrics, including those read from the engine."""
        self.metrics.devices.attach(engine.profiles)
        return self.metrics.series


class PodObservers(Observers[PodEngine]):
    """The observers of a scheduler of single pods, with explanations and optional recording."""

    def __init__(
        self, *others: Observer, engine: EngineFactory[PodEngine] = PodEngine.of, timed_share: float = TIMED_SHARE
    ) -> None:
        super().__init__(*others, engine=engine, shown=PodEngineView, timed_share=timed_share)

    def routes(self, scheduler: Scheduler) -> list[RouteDef]:
        return [*super().routes(scheduler), *explain_routes(scheduler, self.history)]

    def series(self, engine: PodEngine) -> tuple[Series, ...]:
        return self.metrics.attach(engine)


def dropped_events(scheduler: Scheduler[E]) -> Series:
    dropped = scheduler.outbox.dropped
    return ScrapedSeries(families.DROPPED_EVENTS, lambda: {(reason,): count for reason, count in dropped.items()})
