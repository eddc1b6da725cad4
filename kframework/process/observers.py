"""The observers of a scheduler, and what they show of it over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from kframework.core.cycle.decision import Observer
from kframework.core.pod_engine import PodEngine
from kframework.observe.explain.routes import explain_routes
from kframework.observe.history import History
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.metrics.series import Readings, Series
from kframework.observe.web.routes import web_routes
from kframework.process.endpoints import Checked
from kframework.scheduler.scheduler import E, MakeEngine, Scheduler
from kframework.scheduler.watchdog import Told

if TYPE_CHECKING:
    from aiohttp.web import RouteDef


class Observers(Generic[E]):
    """The observers of a scheduler: its metrics, which everybody may see, and others.

    `engine` makes the scheduler's engine; in `timed_share` of the attempts plugins are timed, at least in as many as
    the metrics want.
    """

    def __init__(self, *others: Observer, engine: MakeEngine[E], timed_share: float = TIMED_SHARE) -> None:
        self.metrics: Metrics = Metrics()
        self.all: tuple[Observer, ...] = (*others, self.metrics.attempts)
        self.engine: MakeEngine[E] = engine
        self.timed_share: float = max(timed_share, TIMED_SHARE)

    @property
    def checked(self) -> Checked:
        """Count health checks."""
        return self.metrics.health.checked

    @property
    def slow(self) -> Told:
        """Count hooks that hold the loop."""
        return self.metrics.slow

    def routes(self, scheduler: Scheduler[E]) -> list[RouteDef]:
        """Return the routes of what was seen; call it before the scheduler begins."""
        self.metrics.devices.attach(scheduler.profiles)
        return metrics_routes(scheduler, (*self.metrics.series, dropped_events(scheduler)), self.metrics.health)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(type(observer).__name__ for observer in self.all)}>"


class PodObservers(Observers[PodEngine]):
    """The observers of a scheduler that decides on one pod at a time: its history too, for a page and explanations.

    `engine` may be one that is recorded.
    """

    def __init__(
        self, *others: Observer, engine: MakeEngine[PodEngine] = PodEngine.of, timed_share: float = TIMED_SHARE
    ) -> None:
        self.history: History = History()
        super().__init__(*others, self.history, engine=engine, timed_share=timed_share)

    def routes(self, scheduler: Scheduler) -> list[RouteDef]:
        return [
            *web_routes(scheduler, self.history),
            *explain_routes(scheduler, self.history),
            *metrics_routes(
                scheduler, (*self.metrics.attach(scheduler.engine), dropped_events(scheduler)), self.metrics.health
            ),
        ]


def dropped_events(scheduler: Scheduler[E]) -> Series:
    """Return the series of the events that a scheduler has dropped."""
    dropped = scheduler.outbox.dropped
    return Readings(families.DROPPED_EVENTS, lambda: {(reason,): count for reason, count in dropped.items()})
