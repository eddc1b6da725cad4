"""Who looks on while a scheduler works, and what they show of it over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kframework.core.cycle.decision import Observer
from kframework.core.pod_engine import PodEngine
from kframework.observe.explain.routes import explain_routes
from kframework.observe.history import History
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.web.routes import web_routes
from kframework.process.endpoints import Checked
from kframework.scheduler.scheduler import MakeEngine, Scheduler

if TYPE_CHECKING:
    from aiohttp.web import RouteDef


class Onlookers:
    """The audience of a scheduler: its history and its metrics, which everybody may see, and whoever else looks on.

    `engine` makes the scheduler's engine, one that is recorded for instance; in `timed_share` of the attempts plugins
    are timed, at least in as many as the metrics want.
    """

    def __init__(self, *others: Observer, engine: MakeEngine = PodEngine.of, timed_share: float = TIMED_SHARE) -> None:
        self.history: History = History()
        self.metrics: Metrics = Metrics()
        self.observers: tuple[Observer, ...] = (*others, self.history, self.metrics.attempts)
        self.engine: MakeEngine = engine
        self.timed_share: float = max(timed_share, TIMED_SHARE)

    @property
    def checked(self) -> Checked:
        """Count health checks."""
        return self.metrics.health.checked

    def routes(self, scheduler: Scheduler) -> list[RouteDef]:
        """Return the routes of the web page, of explanations and of metrics; call it before the scheduler begins."""
        return [
            *web_routes(scheduler, self.history),
            *explain_routes(scheduler, self.history),
            *metrics_routes(scheduler, self.metrics.attach(scheduler.engine), self.metrics.health),
        ]

    def __repr__(self) -> str:
        return f"<Onlookers {', '.join(type(observer).__name__ for observer in self.observers)}>"
