"""Counts and durations of attempts and binding cycles, from their records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer, Result
from kframework.core.runtime.hooks import POINTS
from kframework.core.runtime.timing import PointTiming
from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, CounterSeries, HistogramSeries, Series, as_labels
from kframework.values.status import Code

#: The share of attempts in which plugins are timed one by one; once a second at least. kube-scheduler times a tenth,
#: which at 55 us for an attempt would cost more than all other metrics of a pod.
TIMED_SHARE: Final = 0.01

#: The hooks whose calls kube-scheduler counts.
_EVALUATING = frozenset({"pre_filter", "filter", "pre_score", "score"})

#: The label of each timed hook; other timings, such as the wait for Permit plugins, are not work of plugins.
EXTENSION_POINTS: dict[str, str] = {
    **{
        hook: "".join(word.capitalize() for word in hook.split("_"))
        for hook in (*POINTS, "sign", "unreserve", "pre_bind_pre_flight")
        if hook != "queue_sort"
    },
    "normalize_score": "ScoreExtensionNormalize",
}

#: The points after the choice of a node, and after the binding.
_AFTER_SEARCH = frozenset({"assume", "reserve", "permit", "unreserve"})
_AFTER_BINDING = frozenset({"post_bind"})

#: Points that kube-scheduler runs, and counts, before another, though no plugin has work there; here they are left out.
_IMPLIED = {"score": "pre_score", "bind": "pre_bind"}

#: The number of attempts after which pending values are sorted into buckets, which takes about a millisecond.
_FLUSH_ATTEMPTS = 1000

#: Pods that took this number of attempts, or more, share a label.
_MAX_TRIES_LABEL = 15

#: To look up an enum member costs as much as counting it.
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP
_SCHEDULED, _UNSCHEDULABLE, _ERROR = Result.SCHEDULED, Result.UNSCHEDULABLE, Result.ERROR

#: Observes nanoseconds, or ignores them.
_Observe = Callable[[int], None]
_ignore: _Observe = deque[int](maxlen=0).append


class AttemptMetrics(Observer, GroupObserver):
    """Keeps the values of kube-scheduler's metrics up to date; a successful attempt counts when its pod is bound."""

    def __init__(self) -> None:
        self._results = CounterSeries(families.SCHEDULE_ATTEMPTS, _attempt_labels)
        self._durations = HistogramSeries(families.SCHEDULING_ATTEMPT_DURATION, _attempt_labels, scale=NANOSECONDS)
        self._searches = HistogramSeries(
            families.SCHEDULING_ALGORITHM_DURATION, as_labels, scale=NANOSECONDS, always=[()]
        )
        self._tries = HistogramSeries(families.POD_SCHEDULING_ATTEMPTS, as_labels, always=[()])
        self._sli_durations: HistogramSeries[int] = HistogramSeries(
            families.POD_SCHEDULING_SLI_DURATION,
            lambda tries: (str(tries) if tries < _MAX_TRIES_LABEL else f"{_MAX_TRIES_LABEL}+",),
            scale=NANOSECONDS,
        )
        self._scheduled_after_flush = CounterSeries(families.POD_SCHEDULED_AFTER_FLUSH, as_labels, always=[()])
        self._points = HistogramSeries(families.FRAMEWORK_EXTENSION_POINT_DURATION, _point_labels, scale=NANOSECONDS)
        self._plugins = HistogramSeries(families.PLUGIN_EXECUTION_DURATION, _plugin_labels, scale=NANOSECONDS)
        self._evaluations = CounterSeries(families.PLUGIN_EVALUATION, _evaluation_labels)
        self._waits: HistogramSeries[Code] = HistogramSeries(
            families.PERMIT_WAIT_DURATION, lambda code: (code.title,), scale=NANOSECONDS
        )
        self._preemptions = CounterSeries(families.PREEMPTION_ATTEMPTS, as_labels, always=[()])
        self._victims = HistogramSeries(families.PREEMPTION_VICTIMS, as_labels, always=[()])
        self._group_results: CounterSeries[tuple[str, str]] = CounterSeries(
            families.PODGROUP_SCHEDULE_ATTEMPTS, as_labels
        )
        self._group_durations: HistogramSeries[tuple[str, str]] = HistogramSeries(
            families.PODGROUP_SCHEDULING_ATTEMPT_DURATION, as_labels, scale=NANOSECONDS
        )
        self._group_searches: HistogramSeries[tuple[()]] = HistogramSeries(
            families.PODGROUP_SCHEDULING_ALGORITHM_DURATION, as_labels, scale=NANOSECONDS
        )
        self._placements: CounterSeries[tuple[str]] = CounterSeries(families.GENERATED_PLACEMENTS, as_labels)
        self._evaluated: CounterSeries[tuple[str, str]] = CounterSeries(families.PLACEMENT_EVALUATIONS, as_labels)
        self._evaluation_durations: HistogramSeries[tuple[str, str]] = HistogramSeries(
            families.PLACEMENT_EVALUATION_DURATION, as_labels, scale=NANOSECONDS
        )
        #: All that is counted here: the attributes above.
        self.series: tuple[Series, ...] = tuple(vars(self).values())
        self._success_observers = _SuccessObservers(self._points)
        self._search, self._try = self._searches[()].pending, self._tries[()].pending
        #: The last attempt whose plugins were timed.
        self._timed = 0
        #: The attempts whose pods are being bound.
        self._binding: dict[int, Decision] = {}

    def on_decision(self, decision: Decision) -> None:
        spent, later = self._observe_points(decision.profile, decision.timings, _AFTER_SEARCH)
        self._search.append(spent - later)
        if len(self._search) >= _FLUSH_ATTEMPTS:
            for series in self.series:
                if isinstance(series, HistogramSeries):
                    series.flush()
        if decision.plugins:
            self._observe_plugins(decision)
            # A timed attempt represents all since the previous timed one.
            represented, self._timed = decision.attempt - self._timed, decision.attempt
            for hook, plugin, _, code in decision.plugins:
                if hook in _EVALUATING and code is not _SKIP:
                    self._evaluations[plugin, hook, decision.profile] += represented
        if decision.result is _SCHEDULED:
            self._binding[decision.attempt] = decision
            return
        self._count_result(decision.result, decision.profile, spent)
        # The pods of a group have victims together, without PostFilter.
        if any(point == "post_filter" for point, _, _ in decision.timings):
            self._preemptions[()] += 1
            if decision.victims:
                self._victims[()].observe(len(decision.victims))

    def on_group_decision(self, decision: GroupDecision) -> None:
        self._group_results[decision.outcome, decision.profile] += 1
        self._group_durations[decision.outcome, decision.profile].observe(decision.took)
        self._group_searches[()].observe(decision.searched)
        if decision.timings and decision.timings[0][0] == "placement_generate":
            self._observe_placements(decision)
        self._observe_points(decision.profile, decision.timings, _AFTER_SEARCH)

    def _observe_placements(self, decision: GroupDecision) -> None:
        if decision.trials:
            self._placements[decision.profile,] += len(decision.trials)
        for point, spent, code in decision.timings:
            if point == "placement":
                key = "feasible" if code is _SUCCESS else "infeasible", decision.profile
                self._evaluated[key] += 1
                self._evaluation_durations[key].observe(spent)

    def on_binding(self, binding: Binding) -> None:
        decision = self._binding.pop(binding.attempt, None)
        if decision is None:  # it began before this observer did
            return
        spent, later = self._observe_points(binding.profile, binding.steps, _AFTER_BINDING)
        if binding.plugins:
            self._observe_plugins(binding)
        if binding.waited:
            measured, code = next((spent, code) for point, spent, code in binding.steps if point == "wait_on_permit")
            waited = round(binding.waited * NANOSECONDS)
            self._waits[code].observe(waited)
            spent += max(waited - measured, 0)  # in virtual time this machine does not notice the wait
        spent += binding.started - decision.started - later
        if binding.code is _SUCCESS:
            tries = decision.pod_attempts
            self._count_result(_SCHEDULED, binding.profile, spent)
            self._try.append(tries)
            life = int((binding.ended_at - decision.initial_attempt_at) * NANOSECONDS) - later
            self._sli_durations[tries if tries < _MAX_TRIES_LABEL else _MAX_TRIES_LABEL].pending.append(life)
            if decision.requeued_by == "UnschedulableTimeout":
                self._scheduled_after_flush[()] += 1
        else:
            self._count_result(_UNSCHEDULABLE if binding.code.is_rejected else _ERROR, binding.profile, spent)

    def observe_pre_enqueue(self, spent: int, code: Code, profile: str) -> None:
        """Observe a run of PreEnqueue, which has no record."""
        self._points["pre_enqueue", code, profile].observe(spent)

    def _observe_points(
        self, profile: str, timings: tuple[PointTiming, ...], later_points: frozenset[str]
    ) -> tuple[int, int]:
        usual, total, later_total, previous = self._success_observers[profile], 0, 0, ""
        for point, spent, code in timings:
            implied = _IMPLIED.get(point, previous)
            if implied != previous:
                usual[implied](0)
            previous = point
            observe = usual[point] if code is _SUCCESS else usual.observer_for(point, code)
            observe(spent)
            total += spent
            if point in later_points:
                later_total += spent
        return total, later_total

    def _observe_plugins(self, record: Decision | Binding) -> None:
        for hook, plugin, spent, code in record.plugins:
            self._plugins[hook, plugin, code].pending.append(spent)

    def _count_result(self, result: Result, profile: str, spent: int) -> None:
        self._results[result, profile] += 1
        self._durations[result, profile].pending.append(spent)


class _SuccessObservers(dict[str, "_ProfileSuccessObservers"]):
    """The extension points of each profile that ended well, as nearly all do: looked up without creating a key."""

    def __init__(self, points: HistogramSeries[tuple[str, Code, str]]) -> None:
        self._points = points

    def __missing__(self, profile: str) -> _ProfileSuccessObservers:
        created = self[profile] = _ProfileSuccessObservers(self._points, profile)
        return created


class _ProfileSuccessObservers(dict[str, _Observe]):
    def __init__(self, points: HistogramSeries[tuple[str, Code, str]], profile: str) -> None:
        self._points = points
        self._profile = profile

    def __missing__(self, point: str) -> _Observe:
        created = self[point] = self.observer_for(point, _SUCCESS)
        return created

    def observer_for(self, point: str, code: Code) -> _Observe:
        if point not in EXTENSION_POINTS:
            return _ignore
        return self._points[point, code, self._profile].pending.append


def _attempt_labels(key: tuple[Result, str]) -> tuple[str, ...]:
    result, profile = key
    return result.value, profile


def _point_labels(key: tuple[str, Code, str]) -> tuple[str, ...]:
    point, code, profile = key
    return EXTENSION_POINTS[point], code.title, profile


def _plugin_labels(key: tuple[str, str, Code]) -> tuple[str, ...]:
    hook, plugin, code = key
    return plugin, EXTENSION_POINTS[hook], code.title


def _evaluation_labels(key: tuple[str, str, str]) -> tuple[str, ...]:
    plugin, hook, profile = key
    return plugin, EXTENSION_POINTS[hook], profile
