"""Metrics of sessions under Volcano's names, with its labels: all of it is read off the accounts of sessions.

Gauges of queues and jobs are those of the last session, so what is gone has none. Jobs go by namespace/name, where
Volcano has the name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kframework.engine import Counts, Family, Histograms, Readings, Series, as_labels
from kframework_batch.account import JobState, Outcome, QueueState, SessionAccount, SessionObserver

#: Histograms of milliseconds observe nanoseconds.
_MILLISECONDS = 10**6

#: Statuses of tasks that count for the minimum of their job.
_READY = ("Bound", "Binding", "Running", "Allocated", "Succeeded")

#: What Volcano calls the two moments at which plugins are timed.
_MOMENTS = {"open": "OnSessionOpen", "close": "OnSessionClose"}

_Amounts = Callable[[QueueState], Mapping[str, int]]


def bucket_range(least: float, most: float, count: int) -> tuple[float, ...]:
    """Return so many bounds from the least to the most, each as many times as large as the one before."""
    factor = (most / least) ** (1 / (count - 1))
    return tuple(least * factor**step for step in range(count))


_SESSIONS = Family(
    "histogram",
    "volcano_e2e_scheduling_latency_milliseconds",
    "[ALPHA] How long the actions and plugins of a session took together.",
    buckets=bucket_range(1, 5000, 20),
)
_OPENED = Family(
    "histogram",
    "volcano_open_session_duration_milliseconds",
    "[ALPHA] How long plugins took to open a session together.",
    buckets=bucket_range(1, 5000, 20),
)
_PLUGINS = Family(
    "histogram",
    "volcano_plugin_scheduling_latency_milliseconds",
    "[ALPHA] How long a plugin took where a session opens or closes.",
    ("plugin", "OnSession"),
    bucket_range(0.1, 100, 15),
)
_ACTIONS = Family(
    "histogram",
    "volcano_action_scheduling_latency_milliseconds",
    "[ALPHA] How long an action took.",
    ("action",),
    bucket_range(1, 2000, 20),
)
_ATTEMPTS = Family(
    "counter",
    "volcano_schedule_attempts_total",
    "[ALPHA] Tasks that were bound, and tasks that sessions left without a node; sessions that ended early.",
    ("result",),
)
_ATTEMPTED = Family("counter", "volcano_total_preemption_attempts", "[ALPHA] Turns of jobs in preempt.")
_EVICTIONS = Family(
    "counter",
    "volcano_eviction_transactions_total",
    "[ALPHA] Turns of jobs for which others were sent away.",
    ("action",),
)
_VICTIMS = Family(
    "gauge", "volcano_pod_preemption_victims", "[ALPHA] How many tasks preempt sent away in the last session."
)
_LACKING = Family(
    "gauge", "volcano_unschedule_task_count", "[ALPHA] How many tasks a job lacks of its minimum.", ("job_id",)
)
_UNREADY = Family("gauge", "volcano_unschedule_job_count", "[ALPHA] How many jobs lack tasks of their minimum.")
_RETRIES = Family(
    "counter",
    "volcano_job_retry_counts",
    "[ALPHA] In how many sessions a job has lacked tasks of its minimum; until it has them.",
    ("job_id",),
)


class SessionMetrics(SessionObserver):
    """An observer that knows after each session what Volcano's metrics would say."""

    def __init__(self) -> None:
        self._last: SessionAccount = SessionAccount(uid="", at=0.0)
        self._retries: dict[tuple[str, ...], int] = {}
        self._sessions = Histograms[tuple[str, ...]](_SESSIONS, as_labels, scale=_MILLISECONDS, always=[()])
        self._opened = Histograms[tuple[str, ...]](_OPENED, as_labels, scale=_MILLISECONDS, always=[()])
        self._plugins = Histograms[tuple[str, ...]](_PLUGINS, as_labels, scale=_MILLISECONDS)
        self._actions = Histograms[tuple[str, ...]](_ACTIONS, as_labels, scale=_MILLISECONDS)
        self._attempts = Counts[tuple[str, ...]](_ATTEMPTS, as_labels)
        self._attempted = Counts[tuple[str, ...]](_ATTEMPTED, as_labels, always=[()])
        self._evictions = Counts[tuple[str, ...]](_EVICTIONS, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (
            self._sessions,
            self._opened,
            self._plugins,
            self._actions,
            self._attempts,
            self._attempted,
            self._evictions,
            Readings(_VICTIMS, lambda: {(): self._victims()}),
            Readings(_LACKING, self._lacking),
            Readings(_UNREADY, lambda: {(): len(self._lacking())}),
            Readings(_RETRIES, lambda: self._retries),
            *self._of_queues(),
        )

    @property
    def capacity(self) -> Mapping[str, int]:
        """What the cluster had in the last session."""
        return self._last.capacity

    # -- the observer ------------------------------------------------------------------------------------------------

    def session_ended(self, account: SessionAccount) -> None:
        self._last = account
        self._sessions[()].observe(sum(part.took for part in account.parts))
        self._opened[()].observe(sum(part.took for part in account.parts if part.kind == "open"))
        for part in account.parts:
            if part.kind == "action":
                self._actions[part.name,].observe(part.took)
            else:
                self._plugins[part.name, _MOMENTS[part.kind]].observe(part.took)
        self._count_attempts(account)
        for turn in account.turns:
            self._attempted[()] += turn.action == "preempt"
            if turn.outcome is Outcome.COMMITTED and turn.victims:
                self._evictions[turn.action,] += 1
        self._retries = {labels: self._retries.get(labels, 0) + 1 for labels in self._lacking()}

    def _count_attempts(self, account: SessionAccount) -> None:
        bound = {pod for pod, _ in account.bound}
        rejected = {one.pod for turn in account.turns for one in turn.verdicts if not one.node} - bound
        for result, count in (("scheduled", len(bound)), ("unschedulable", len(rejected))):
            if count:
                self._attempts[result,] += count
        if account.failure:
            self._attempts["error",] += 1

    # -- what the last session says ------------------------------------------------------------------------------------

    def _victims(self) -> int:
        committed = (turn for turn in self._last.turns if turn.outcome is Outcome.COMMITTED)
        return sum(len(turn.victims) for turn in committed if turn.action == "preempt")

    def _lacking(self) -> dict[tuple[str, ...], int]:
        lacking = {(state.job,): _lacks(state) for state in self._last.jobs if state.tasks}
        return {labels: count for labels, count in lacking.items() if count > 0}

    def _of_queues(self) -> list[Series]:
        kinds: dict[str, _Amounts] = {
            "allocated": lambda state: state.allocated,
            "request": lambda state: state.requested,
            "deserved": lambda state: state.deserved,
        }
        series = [each for kind, amounts in kinds.items() for each in self._of_amounts(kind, amounts)]
        values: dict[str, tuple[str, Callable[[QueueState], float]]] = {
            "share": ("The largest part of its due that a queue had", lambda state: state.share),
            "weight": ("The weight of a queue", lambda state: state.weight),
            "overused": ("Whether jobs were passed over since their queue had its due", self._overused),
        }
        for name, (text, value) in values.items():
            family = Family("gauge", f"volcano_queue_{name}", f"[ALPHA] {text}.", ("queue_name",))
            series.append(Readings(family, partial(self._values, value)))
        return series

    def _of_amounts(self, kind: str, amounts: _Amounts) -> list[Series]:
        named = partial(Family, "gauge")
        text, name = f"[ALPHA] What queues had as {kind} when the session began", f"volcano_queue_{kind}"
        one, each = ("queue_name",), ("queue_name", "resource")
        return [
            Readings(
                named(f"{name}_milli_cpu", f"{text}: milli-CPU.", one),
                partial(self._values, lambda state: amounts(state).get("cpu", 0)),
            ),
            Readings(
                named(f"{name}_memory_bytes", f"{text}: bytes of memory.", one),
                partial(self._values, lambda state: amounts(state).get("memory", 0)),
            ),
            Readings(
                named(f"{name}_scalar_resources", f"{text}: other resources.", each),
                partial(self._scalars, amounts),
            ),
        ]

    def _values(self, value: Callable[[QueueState], float]) -> dict[tuple[str, ...], float]:
        return {(state.queue,): value(state) for state in self._last.queues}

    def _scalars(self, amounts: _Amounts) -> dict[tuple[str, ...], float]:
        return {
            (state.queue, resource): amount
            for state in self._last.queues
            for resource, amount in amounts(state).items()
            if resource not in ("cpu", "memory")
        }

    def _overused(self, state: QueueState) -> float:
        outcomes = (turn.outcome for turn in self._last.turns if turn.queue == state.queue)
        return float(Outcome.OVERUSED in outcomes)


def _lacks(state: JobState) -> int:
    return state.minimum - sum(state.tasks.get(status, 0) for status in _READY)
