"""Times what the cluster's events cost: taking them in, asking whom they may help, and letting pods into the queue.

No record tells of this. An engine whose events are to be timed is given parts that measure in place of its own; all
others pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from time import perf_counter_ns

from kframework.core.event_handlers import EventHandlers
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.pool import Holder
from kframework.core.queue.scheduling_queue import QueueRules
from kframework.framework.events import ActionType, EventResource, Occurrence
from kframework.objects import ApiObject, Pod
from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, Histograms, Series
from kframework.state.pods import PendingPod
from kframework.state.queued_pod import QueuedPod
from kframework.values.status import Code, Status

#: Told of a run of PreEnqueue: its nanoseconds, how it ended, and the profile.
Gated = Callable[[int, Code, str], None]


class EventTimes:
    """How long events took to be taken in, and hints to be asked."""

    def __init__(self) -> None:
        self.handling: Histograms[str] = Histograms(families.EVENT_HANDLING_DURATION, _of_an_event, scale=NANOSECONDS)
        self.hints: Histograms[tuple[str, str, bool]] = Histograms(
            families.QUEUEING_HINT_EXECUTION_DURATION, _of_a_hint, scale=NANOSECONDS
        )
        #: All that is observed here.
        self.series: tuple[Series, ...] = (self.handling, self.hints)

    def attach(self, engine: PodEngine, gated: Gated) -> None:
        """Time the events of an engine that has not begun; `gated` is told what PreEnqueue took."""
        engine.queue.rules = _TimedRules(engine.queue.rules, self.hints, gated)
        engine.handlers = _TimedHandlers(engine, self.handling)


class _TimedHandlers(EventHandlers):
    """Event handlers that observe how long each took, under the labels of the events that came of it."""

    def __init__(self, engine: PodEngine, times: Histograms[str]) -> None:
        super().__init__(engine.cluster, engine.queue, engine.profiles)
        self._times = times
        self._labels: list[str] = []

    def upserted(self, obj: ApiObject) -> None:
        began = self._begin()
        known = obj.metadata.uid in self.pending
        super().upserted(obj)
        if isinstance(obj, Pod) and not obj.spec.node_name:
            self._labels.append(_UPDATED if known else _ADDED)
        self._observe(began)

    def deleted(self, obj: ApiObject) -> None:
        began = self._begin()
        if isinstance(obj, Pod) and not obj.spec.node_name:
            self._labels.append(_DELETED)
        super().deleted(obj)
        self._observe(began)

    def on_event(self, event: Occurrence, only: Callable[[PendingPod], bool] | None = None) -> None:
        self._labels.append(event.label)
        super().on_event(event, only)

    def _begin(self) -> int:
        """Forget events that came of no object, such as those of a binding that failed; return the moment."""
        self._labels.clear()
        return perf_counter_ns()

    def _observe(self, began: int) -> None:
        took = perf_counter_ns() - began
        for label in self._labels:
            self._times[label].observe(took)


class _TimedRules(QueueRules):
    """The queue's rules, of which those that ask plugins are timed."""

    def __init__(self, rules: QueueRules, hints: Histograms[tuple[str, str, bool]], gated: Gated) -> None:
        self._rules = rules
        self._hints = hints
        self._gated = gated

    def gate(self, pod: PendingPod) -> Status | None:
        began = perf_counter_ns()
        status = self._rules.gate(pod)
        self._gated(perf_counter_ns() - began, Code.SUCCESS if status is None else status.code, pod.scheduler_name)
        return status

    def wakes(self, event: Occurrence, pod: PendingPod, plugin: str) -> bool:
        began = perf_counter_ns()
        wakes = self._rules.wakes(event, pod, plugin)
        self._hints[plugin, event.label, wakes].observe(perf_counter_ns() - began)
        return wakes

    # -- what is not timed -----------------------------------------------------------------------------------------

    def sort_key(self, queued: QueuedPod) -> Hashable:
        return self._rules.sort_key(queued)

    def unsortable(self, error: Exception) -> None:
        self._rules.unsortable(error)

    def interested(self, event: Occurrence) -> Mapping[Holder, Collection[str] | None]:
        return self._rules.interested(event)


_ADDED, _UPDATED, _DELETED = (
    Occurrence(EventResource.UNSCHEDULABLE_POD, action).label
    for action in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
)


def _of_an_event(label: str) -> tuple[str, ...]:
    return (label,)


def _of_a_hint(key: tuple[str, str, bool]) -> tuple[str, ...]:
    plugin, event, wakes = key
    return plugin, event, "Queue" if wakes else "QueueSkip"
