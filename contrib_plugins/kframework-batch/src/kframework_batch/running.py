"""What `kframework batch run` runs: a scheduler's process with sessions, and what works beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kframework import Clock
from kframework.engine import (
    TIMED_SHARE,
    Checked,
    Companion,
    Configuration,
    Listener,
    MakeEngine,
    Metrics,
    Observer,
    Process,
    Scheduler,
    Server,
    metrics_routes,
    process,
)
from kframework.objects import Event
from kframework_batch.engine import BatchEngine
from kframework_batch.program import Program
from kframework_batch.reload import ConfigurationFile
from kframework_batch.settings import MakeController, Settings

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

_log = logging.getLogger(__name__)


class BatchOnlookers:
    """The audience of a batch scheduler: its metrics, which everybody may see, and whoever else looks on.

    In `timed_share` of the attempts plugins of the core are timed, at least in as many as the metrics want.
    """

    def __init__(self, engine: MakeEngine[BatchEngine], *others: Observer, timed_share: float = TIMED_SHARE) -> None:
        self.engine: MakeEngine[BatchEngine] = engine
        self.metrics: Metrics = Metrics()
        self.observers: tuple[Observer, ...] = (*others, self.metrics.attempts)
        self.timed_share: float = max(timed_share, TIMED_SHARE)

    @property
    def checked(self) -> Checked:
        """Count health checks."""
        return self.metrics.health.checked

    def routes(self, scheduler: Scheduler[BatchEngine]) -> list[RouteDef]:
        """Return the routes of metrics."""
        return metrics_routes(scheduler, self.metrics.series, self.metrics.health)

    def __repr__(self) -> str:
        return f"<BatchOnlookers {', '.join(type(observer).__name__ for observer in self.observers)}>"


def batch_process(
    settings: Settings,
    configuration: Configuration,
    server: Server,
    clock: Clock,
    onlookers: BatchOnlookers,
    *,
    companions: Iterable[Companion[BatchEngine]] = (),
    listener: Listener | None = None,
    report: Callable[[Event], None] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Process[BatchEngine]:
    """Make the process that schedules on a server; with `report` it writes nothing, and reports the Events instead.

    `configuration` is that of the settings, with what a command line says beside it.
    """
    return process(
        configuration,
        server,
        clock,
        listener=listener,
        registry=settings.registry,
        report=report,
        onlookers=onlookers,
        companions=companions,
        tell=tell,
    )


def beside(make: MakeController) -> Companion[BatchEngine]:
    """Have a controller work beside the scheduler, through its client."""

    async def companion(scheduler: Scheduler[BatchEngine]) -> None:
        await make(scheduler.cluster, scheduler.clock).run()

    return companion


def following(file: ConfigurationFile, tell: Callable[[str], None]) -> Companion[BatchEngine]:
    """Have the scheduler run what its configuration file says when that changes; `tell` gets a line each time."""

    async def companion(scheduler: Scheduler[BatchEngine]) -> None:
        def use(program: Program) -> None:
            scheduler.engine.reload(program)
            for notice in program.notices:
                _log.warning(notice)
            tell("the changed configuration is in force")

        await file.follow(use, _log.error)

    return companion
