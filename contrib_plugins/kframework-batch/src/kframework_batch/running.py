"""The process of `kframework batch run`: a scheduler with sessions, and its companions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kframework.engine import EngineFactory, History, Journal, Observer, Observers, Scheduler, Series, SideTask
from kframework_batch.account import SessionHistory
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explainer import explain_routes
from kframework_batch.program import ConfigurationFile, Program
from kframework_batch.session_metrics import JobMetrics, LatencyMetrics, SessionMetrics
from kframework_batch.settings import ControllerFactory
from kframework_batch.view import BatchView

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

    from kframework.engine import Tracing

_log = logging.getLogger(__name__)


class BatchObservers(Observers[BatchEngine]):
    """The observers of a scheduler with sessions, which it shows on its page and counts."""

    def __init__(self, *others: Observer, engine: EngineFactory[BatchEngine], timed_share: float = 0.0) -> None:
        self.sessions: SessionHistory = SessionHistory()
        self.session_metrics: SessionMetrics = SessionMetrics()
        self.latency_metrics: LatencyMetrics = LatencyMetrics()
        own = (self.sessions, self.session_metrics, self.latency_metrics)
        super().__init__(*others, *own, engine=engine, shown=self._create_view, timed_share=timed_share)

    @classmethod
    def with_tracing(
        cls, tracing: Tracing | None, *others: Observer, engine: EngineFactory[BatchEngine]
    ) -> BatchObservers:
        """Observe as the log does too, and trace sessions and the attempts at their tasks if there is a Tracing."""
        if tracing is None:
            return cls(Journal(), *others, engine=engine)
        from kframework_batch.session_spans import SessionSpans  # which loads OpenTelemetry

        journal = Journal(tracing.trace_id)
        return cls(tracing, SessionSpans(tracing), journal, *others, engine=engine, timed_share=tracing.share)

    def routes(self, scheduler: Scheduler[BatchEngine]) -> list[RouteDef]:
        return [*super().routes(scheduler), *explain_routes(scheduler, lambda: list(self.sessions))]

    def series(self, engine: BatchEngine) -> tuple[Series, ...]:
        jobs = JobMetrics(engine, lambda: self.session_metrics.capacity)
        self.latency_metrics.attach(engine)
        return (*super().series(engine), *self.session_metrics.series, *self.latency_metrics.series, *jobs.series)

    def _create_view(self, engine: BatchEngine, history: History) -> BatchView:
        return BatchView(engine, history, self.sessions)


def controller_task(make: ControllerFactory) -> SideTask[BatchEngine]:
    async def companion(scheduler: Scheduler[BatchEngine]) -> None:
        await make(scheduler.cluster, scheduler.clock).run()

    return companion


def reload_task(file: ConfigurationFile, log: Callable[[str], None]) -> SideTask[BatchEngine]:
    """Return a companion that reloads the configuration file when it changes; `tell` gets a line each time."""

    async def companion(scheduler: Scheduler[BatchEngine]) -> None:
        def use(program: Program) -> None:
            scheduler.engine.reload(program)
            for notice in program.notices:
                _log.warning(notice)
            log("using the changed configuration")

        await file.watch(use, _log.error)

    return companion
