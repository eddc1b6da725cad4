"""The observers of a scheduler, and their HTTP routes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic

from kframework.capacity.routes import fit_route
from kframework.clock import rfc3339
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.host import PodEvent
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles
from kframework.explain.routes import explain_routes
from kframework.explain.view import PodEngineView
from kframework.objects import PodCondition
from kframework.observe.history import History, Reload
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.metrics.series import ScrapedSeries, Series
from kframework.observe.web.routes import web_routes
from kframework.observe.web.view import EngineView
from kframework.scheduler.scheduler import E, EngineFactory, Scheduler
from kframework.state.pods import PendingPod

if TYPE_CHECKING:
    from aiohttp.web import RouteDef


#: Creates the page's view of an engine from the history of its decisions.
EngineViewFactory = Callable[[E, History], EngineView[E]]


#: What becomes of the group that a pod names in `spec.schedulingGroup`.
_IGNORED_GROUP = (
    "spec.schedulingGroup is ignored without the feature gate GenericWorkload of Kubernetes 1.37: "
    "the pods of groups are scheduled one by one"
)


class IgnoredGroups:
    """An observer that reports pods that name a group: the first one to people, each by an event and a condition."""

    def __init__(self) -> None:
        self._has_told = False

    def attach(self, scheduler: Scheduler, log: Callable[[str], None]) -> None:
        self._scheduler, self._log_line = scheduler, log

    def on_decision(self, decision: Decision) -> None:
        """Report the pod of a first attempt."""
        if (
            decision.group
            and decision.pod_attempts == 1
            and (pod := self._scheduler.engine.pending.get(decision.uid)) is not None
        ):
            self._report(pod)

    def on_run(self, run: Run) -> None:
        for attempt in run.attempts:
            if attempt.pod.group and attempt.queued.attempts == 1:
                self._report(attempt.pod)

    def on_binding(self, binding: Binding) -> None:
        pass

    def on_run_binding(self, bound: RunBinding) -> None:
        pass

    def _report(self, pod: PendingPod) -> None:
        scheduler = self._scheduler
        if scheduler.engine.cluster.feature_gates.has_pod_groups:
            return
        if not self._has_told:
            self._has_told = True
            self._log_line(f"{_IGNORED_GROUP} (first {pod.key})")
        scheduler.record(PodEvent(pod.scheduler_name, pod, "GroupIgnored", "Scheduling", _IGNORED_GROUP, warning=True))
        condition = PodCondition(
            type="kframework.dev/GroupIgnored",
            status="True",
            reason="FeatureGateDisabled",
            message=_IGNORED_GROUP,
            last_transition_time=rfc3339(scheduler.clock.now()),
        )
        write = partial(scheduler.cluster.patch_pod_status, pod.namespace, pod.name, pod.uid, condition=condition)
        scheduler.write(f"group of {pod.uid}", write, lambda error: None)  # the event has the same text


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

    def attach(self, scheduler: Scheduler[E], log: Callable[[str], None]) -> None:
        """Attach observers that write to the cluster or to people."""

    def on_reload(self, reload: Reload, profiles: Profiles) -> None:
        """Observe an attempt to take another configuration, and the plugins that run from then on."""
        self.history.reload = reload
        self.metrics.reloads.count_reload(reload)
        self.metrics.devices.attach(profiles)

    def series(self, engine: E) -> tuple[Series, ...]:
        """Return the series of the metrics, including those read from the engine."""
        self.metrics.devices.attach(engine.profiles)
        return self.metrics.series


class PodObservers(Observers[PodEngine]):
    """The observers of a scheduler of single pods, with explanations and optional recording."""

    def __init__(
        self,
        *others: Observer,
        engine: EngineFactory[PodEngine] = PodEngine.from_configuration,
        timed_share: float = TIMED_SHARE,
    ) -> None:
        self._groups = IgnoredGroups()
        super().__init__(*others, engine=engine, shown=PodEngineView, timed_share=timed_share)
        self.all: tuple[Observer, ...] = (*self.all, self._groups)

    def attach(self, scheduler: Scheduler, log: Callable[[str], None]) -> None:
        self._groups.attach(scheduler, log)

    def routes(self, scheduler: Scheduler) -> list[RouteDef]:
        return [*super().routes(scheduler), *explain_routes(scheduler, self.history), fit_route(scheduler)]

    def series(self, engine: PodEngine) -> tuple[Series, ...]:
        return self.metrics.attach(engine)


def dropped_events(scheduler: Scheduler[E]) -> Series:
    dropped = scheduler.outbox.dropped
    return ScrapedSeries(families.DROPPED_EVENTS, lambda: {(reason,): count for reason, count in dropped.items()})
