"""The log of decisions and bindings, in kube-scheduler's words: a line for each pod, and more at higher verbosity."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns

from kframework.client.missing_rights import is_denial
from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer, Result
from kframework.values.status import Code
from kframework.verbosity import NOTICE, V2

_log = logging.getLogger(__name__)

#: An attempt that takes this long, in seconds, is logged with its steps at any verbosity, as in kube-scheduler.
SLOW = 0.1

_SLOW = SLOW * 1e9

#: The number of plugins that are named if they were timed one by one.
_SLOWEST = 3

#: Looking up an enum member costs as much as all other work for a pod without log lines.
_ERROR, _SUCCESS = Result.ERROR, Code.SUCCESS

_Fields = dict[str, object]


class Journal(Observer, GroupObserver):
    """Logs decisions and bindings; `trace_id(attempt, sample_value)` names a trace, `now` is the clock of `started`."""

    def __init__(
        self,
        trace_id: Callable[[int, float], str] = lambda attempt, sample_value: "",
        now: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._trace_id = trace_id
        self._now = now
        #: By attempt, the numbers of nodes that the pods being bound could choose from.
        self._binding: dict[int, _Fields] = {}

    def on_decision(self, decision: Decision) -> None:
        took = self._now() - decision.started
        if took >= _SLOW:
            self._write(NOTICE, "Slow scheduling attempt", decision, _timing_fields(took, decision))
        if _log.isEnabledFor(V2):
            if _log.isEnabledFor(logging.DEBUG):
                fields = _answer_fields(decision) | _timing_fields(took, decision)
                self._write(logging.DEBUG, "Plugin answers", decision, fields)
            if decision.result is Result.SCHEDULED:  # logged when it is bound
                counts: _Fields = {"evaluatedNodes": decision.evaluated, "feasibleNodes": decision.feasible}
                self._binding[decision.attempt] = counts
            elif decision.result is Result.UNSCHEDULABLE:
                self._log_unschedulable(decision)
            if decision.victims:
                preemption: _Fields = {"node": decision.nominated, "victims": decision.victims}
                self._write(V2, "The target node for the preemption is determined", decision, preemption)
        if decision.result is _ERROR:
            self._write(logging.ERROR, "Error scheduling pod; retrying", decision, {"err": decision.message})

    def on_group_decision(self, decision: GroupDecision) -> None:
        fields: _Fields = {"podGroup": decision.group, "pods": decision.pods}
        trace_id = self._trace_id(decision.attempt, decision.sample_value)
        optional: _Fields = {"placement": decision.placement, "trace_id": trace_id}
        fields |= {name: value for name, value in optional.items() if value}
        if decision.result is Result.SCHEDULED:
            _log.log(V2, "Successfully scheduled a pod group", extra=fields)
        elif decision.preempts:
            _log.log(V2, "Pod group is waiting for preemption", extra=fields | {"err": decision.message})
        else:  # errors are those of its pods, and logged with them
            _log.log(V2, "Unable to schedule a pod group", extra=fields | {"err": decision.message})

    def on_binding(self, binding: Binding) -> None:
        counts = self._binding.pop(binding.attempt, {})
        if binding.code is _SUCCESS:
            if _log.isEnabledFor(V2):
                self._write(V2, "Successfully bound pod to node", binding, counts)
        elif binding.code.is_rejected:
            self._log_unschedulable(binding)
        elif binding.code is not Code.SKIP:
            # A missing permission was logged when it was noticed, and need not be logged for every pod.
            level = V2 if is_denial(binding.message) else logging.ERROR
            self._write(level, "Error scheduling pod; retrying", binding, {"err": binding.message})

    def _log_unschedulable(self, record: Decision | Binding) -> None:
        self._write(V2, "Unable to schedule pod; no fit; waiting", record, {"err": record.message})

    def _write(self, level: int, message: str, record: Decision | Binding, fields: _Fields) -> None:
        trace_id = self._trace_id(record.group_attempt or record.attempt, record.sample_value)
        common = {"pod": record.pod, "node": record.node, "attempt": record.attempt, "trace_id": trace_id}
        extra = {name: value for name, value in common.items() if value} | fields
        _log.log(level, message, extra=extra, stacklevel=2)


def _answer_fields(decision: Decision) -> _Fields:
    answers: _Fields = {
        "reasons": decision.reasons,
        "rejectors": decision.rejectors,
        "pending": decision.pending,
        "best_nodes": dict(decision.best_nodes),
    }
    if decision.best_nodes:  # otherwise there was nothing to choose from, and nothing was scored
        answers |= {"score": decision.score, "ties": decision.ties}
    return {name: value for name, value in answers.items() if value or value == 0}


def _timing_fields(took: int, decision: Decision) -> _Fields:
    """Return how long the whole and each extension point took, and the slowest plugins if they were timed, in ms."""
    slowest = sorted(decision.plugins, key=lambda timing: -timing[2])[:_SLOWEST]
    times: _Fields = {
        "milliseconds": _milliseconds(took),
        "steps": {point: _milliseconds(spent) for point, spent, _ in decision.timings},
    }
    if slowest:
        times["slowest"] = {f"{plugin}.{hook}": _milliseconds(spent) for hook, plugin, spent, _ in slowest}
    return times


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
