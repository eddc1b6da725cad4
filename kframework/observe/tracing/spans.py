"""Traces: OpenTelemetry spans of scheduling attempts and binding cycles, built afterwards from their records.

One trace per attempt, or per attempt of a group with those of its pods; `docs/reference/traces.md` is its contract.
Spans start at the Clock's time, virtual or not, and last as long as this machine took. A binding cycle, concurrent with
the next attempts, or a log line finds its trace by the number of the attempt. Engines that do more than single attempts
add their own traces (`record_span`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Final, TextIO
from zlib import crc32

from opentelemetry.semconv.attributes.k8s_attributes import (
    K8S_NAMESPACE_NAME,
    K8S_NODE_NAME,
    K8S_POD_NAME,
    K8S_POD_UID,
)
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    format_trace_id,
    use_span,
)

from kframework.config.configuration import TracingOptions
from kframework.core.cycle.records import (
    Binding,
    Decision,
    GroupDecision,
    GroupObserver,
    Observer,
    PlacementTrial,
    Result,
)
from kframework.core.runtime.timing import HookContext, PluginTiming, PointTiming
from kframework.observe.tracing.traces import UNSET, SpanAttributes, Traces, otlp_exporter, otlp_line, span_context
from kframework.values.status import Code

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor


#: The sampling rate, per million, at which every attempt is traced.
SAMPLE_ALL: Final = 1_000_000

#: The indexes of the spans in their trace, from which their ids are derived: repeated points count from `_POINTS` or
#: `_STEPS`, others hash their name above `_NAMED`.
_ATTEMPT, _QUEUE_WAIT, _CYCLE, _BINDING, _POINTS, _STEPS, _NAMED = 0, 1, 2, 3, 16, 1 << 16, 1 << 32

#: The number of indexes of each pod in the trace of its group, whose own spans come first.
_PER_POD = 1 << 34

#: The points of the hooks that are none themselves.
_POINT_OF = {"normalize_score": "score"}

#: The points without a span if no plugin was called: as every span costs something, empty ones are omitted.
_OFTEN_EMPTY = frozenset({"permit", "post_bind"})

_SUCCESS, _ERROR = Code.SUCCESS, Code.ERROR

_Attributes = dict[str, str | int | float | tuple[str, ...]]


class Tracing(Observer, GroupObserver):
    """Creates spans for `rate_per_million` of a million attempts, and for their binding cycles.

    Trace ids are unique to this run, unless a `seed` is given: then every run with it has the same.
    """

    def __init__(self, processor: SpanProcessor, *, rate_per_million: int, seed: int | None = None) -> None:
        #: The share of the attempts that are traced.
        self.share: float = rate_per_million / SAMPLE_ALL
        self._traces = Traces(processor, seed)

    @classmethod
    def from_options(cls, options: TracingOptions, *, seed: int | None = None) -> Tracing | None:
        """Create the configured tracing, None if it is off; ConfigError if its exporter is not installed."""
        rate = options.sampling_rate_per_million
        if options.exporter == "none" or not rate:
            return None
        if options.exporter == "console":
            return cls.to_stream(sys.stderr, rate_per_million=rate, seed=seed)
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        return cls(BatchSpanProcessor(otlp_exporter(options.endpoint)), rate_per_million=rate, seed=seed)

    @classmethod
    def to_stream(cls, stream: TextIO, *, rate_per_million: int = SAMPLE_ALL, seed: int | None = None) -> Tracing:
        """Write every span to a stream when it ends, one a line: OTLP in JSON, as in OpenTelemetry's files."""
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

        exporter = ConsoleSpanExporter(out=stream, formatter=otlp_line)
        return cls(SimpleSpanProcessor(exporter), rate_per_million=rate_per_million, seed=seed)

    def close(self) -> None:
        """Export the remaining spans; waits for the exporter."""
        self._traces.close()

    def trace_id(self, attempt: int, sample_value: float) -> str:
        """Return the id of an attempt's trace in hexadecimal; empty if it is not in the sample.

        The trace of a group is that of the attempt of its first pod.
        """
        return format_trace_id(self._traces.trace(attempt)) if sample_value < self.share else ""

    def record_span(self, name: str, sample_value: float, make_span: Callable[[], Span]) -> None:
        """Trace an operation of an engine, if its sample value is in the sample; `name` is unique in this run."""
        if sample_value < self.share:
            make_span().export(self._traces, self._traces.trace(name))

    def on_decision(self, decision: Decision) -> None:
        if decision.sample_value >= self.share:
            return
        trace, first = self._locate(decision.attempt, decision.group_attempt)
        root, cycle = span_context(trace, first + _ATTEMPT), span_context(trace, first + _CYCLE)
        group = span_context(trace, _ATTEMPT) if decision.group_attempt else None
        pod = _attributes_of_pod(decision)
        queued, popped = _nanoseconds(decision.queued_at), _nanoseconds(decision.popped_at)
        ended = popped + sum(nanoseconds for _, nanoseconds, _ in decision.timings)
        failed = Status(StatusCode.ERROR, decision.message) if decision.result is Result.ERROR else UNSET
        self._traces.export("queue_wait", span_context(trace, first + _QUEUE_WAIT), root, (queued, popped))
        remaining = self._points(cycle, first, _POINTS, popped, decision.timings, decision.plugins)
        attributes = pod | _attributes_of_decision(decision) | remaining
        self._traces.export("scheduling_cycle", cycle, root, (popped, ended), attributes, failed)
        tries: _Attributes = {"kframework.pod_attempts": decision.pod_attempts}
        self._traces.export("scheduling_attempt", root, group, (queued, ended), pod | tries, failed)

    def on_group_decision(self, decision: GroupDecision) -> None:
        if decision.sample_value >= self.share:
            return
        trace = self._traces.trace(decision.attempt)
        root, cycle = span_context(trace, _ATTEMPT), span_context(trace, _CYCLE)
        group, trials = _attributes_of_group(decision), iter(decision.trials)
        queued, popped = _nanoseconds(decision.queued_at), _nanoseconds(decision.popped_at)
        ended = popped + decision.took
        failed = Status(StatusCode.ERROR, decision.message) if decision.result is Result.ERROR else UNSET
        self._traces.export("queue_wait", span_context(trace, _QUEUE_WAIT), root, (queued, popped))
        start = popped
        for index, (point, nanoseconds, code) in enumerate(decision.timings, _POINTS):
            began, start = start, start + nanoseconds
            attributes = _attributes_of_trial(next(trials)) if point == "placement" else {}
            if code is not _SUCCESS:
                attributes["kframework.status"] = code.title
            status = Status(StatusCode.ERROR) if code is _ERROR else UNSET
            self._traces.export(point, span_context(trace, index), cycle, (began, start), attributes, status)
        outcome = group | _attributes_of_group_outcome(decision)
        self._traces.export("group_cycle", cycle, root, (popped, ended), outcome, failed)
        self._traces.export("group_attempt", root, None, (queued, ended), group, failed)

    def on_binding(self, binding: Binding) -> None:
        if binding.sample_value >= self.share:
            return
        trace, first = self._locate(binding.attempt, binding.group_attempt)
        own, links = span_context(trace, first + _BINDING), (Link(span_context(trace, first + _CYCLE)),)
        started, steps = _nanoseconds(binding.started_at), _steps_in_clock_time(binding)
        ended = started + sum(nanoseconds for _, nanoseconds, _ in steps)
        moments = started, max(ended, _nanoseconds(binding.ended_at))
        faulty = binding.code is not Code.SUCCESS and not binding.code.is_rejected
        failed = Status(StatusCode.ERROR, binding.message) if faulty else UNSET
        remaining = self._points(own, first, _STEPS, started, steps, binding.plugins)
        attributes = _attributes_of_pod(binding) | {
            K8S_NODE_NAME: binding.node,
            "kframework.result": binding.code.title,
        }
        if binding.message:
            attributes["kframework.message"] = binding.message
        self._traces.export(
            "binding_cycle", own, span_context(trace, first + _ATTEMPT), moments, attributes | remaining, failed, links
        )

    def hook_context(self, attempt: int, sample_value: float, group_attempt: int = 0) -> HookContext | None:
        """Return the context of an attempt's hooks, in which their span is current; None if it is not traced."""
        if sample_value >= self.share:
            return None
        trace, first = self._locate(attempt, group_attempt)

        def hook_span(hook: str) -> AbstractContextManager[object]:
            context = _point_context(trace, first, _POINT_OF.get(hook, hook))
            return use_span(NonRecordingSpan(context), record_exception=False)

        return hook_span

    def _locate(self, attempt: int, group_attempt: int) -> tuple[int, int]:
        """Return the number of an attempt's trace, and its first index there."""
        if not group_attempt:
            return self._traces.trace(attempt), 0
        return self._traces.trace(group_attempt), (attempt - group_attempt + 1) * _PER_POD

    def _points(
        self,
        parent: SpanContext,
        base: int,
        first: int,
        start: int,
        timings: Sequence[PointTiming],
        plugins: Sequence[PluginTiming],
    ) -> _Attributes:
        """Create a span for each point in turn; return the attributes of plugins whose point has none."""
        timings_by_point: dict[str, list[PluginTiming]] = {}
        for timing in plugins:
            timings_by_point.setdefault(_POINT_OF.get(timing[0], timing[0]), []).append(timing)
        created = set()
        for index, (point, nanoseconds, code) in enumerate(timings, base + first):
            began, start = start, start + nanoseconds
            if point in _OFTEN_EMPTY and point not in timings_by_point and code is _SUCCESS:
                continue
            # Success, the most frequent code, is omitted, as every attribute costs something.
            attributes: _Attributes = {} if code is _SUCCESS else {"kframework.status": code.title}
            attributes |= _attributes_of_plugins(timings_by_point.pop(point, ()))
            status = Status(StatusCode.ERROR) if code is _ERROR else UNSET
            # Spans that a plugin began inside refer to the first span of its point; a second one uses its index.
            trace = parent.trace_id
            own = span_context(trace, index) if point in created else _point_context(trace, base, point)
            created.add(point)
            self._traces.export(point, own, parent, (began, start), attributes, status)
        return _attributes_of_plugins(chain.from_iterable(timings_by_point.values()))


def _point_context(trace: int, base: int, point: str) -> SpanContext:
    """Return the context of a point's span, even before it is created."""
    return span_context(trace, base + _NAMED + crc32(point.encode()))


def _attributes_of_group(decision: GroupDecision) -> _Attributes:
    namespace, _, name = decision.group.partition("/")
    return {
        K8S_NAMESPACE_NAME: namespace,
        "kframework.group": name,
        "kframework.profile": decision.profile,
        "kframework.attempt": decision.attempt,
        "kframework.pods": decision.pods,
    }


def _attributes_of_group_outcome(decision: GroupDecision) -> _Attributes:
    optional: _Attributes = {
        "kframework.message": decision.message,
        "kframework.placement": decision.placement,
    }
    return {"kframework.result": decision.outcome} | {name: value for name, value in optional.items() if value}


def _attributes_of_trial(trial: PlacementTrial) -> _Attributes:
    optional: _Attributes = {
        "kframework.group": trial.group,
        "kframework.placement": trial.name,
        "kframework.message": trial.message,
        "kframework.failed_first": trial.failed_first,
        "kframework.reason": trial.reason,
    }
    return {"kframework.placed": trial.placed} | {name: value for name, value in optional.items() if value}


def _attributes_of_decision(decision: Decision) -> _Attributes:
    attributes: _Attributes = {
        "kframework.result": decision.result.value,
        "kframework.nodes.total": decision.nodes,
        "kframework.nodes.evaluated": decision.evaluated,
        "kframework.nodes.feasible": decision.feasible,
    }
    if decision.best_nodes:  # otherwise there was nothing to choose from, and nothing was scored
        attributes |= {"kframework.score": decision.score, "kframework.ties": decision.ties}
    optional: _Attributes = {
        K8S_NODE_NAME: decision.node,
        "kframework.nominated_node": decision.nominated or "",
        "kframework.message": decision.message,
        "kframework.rejectors": decision.rejectors,
        "kframework.victims": decision.victims,
    }
    return attributes | {name: value for name, value in optional.items() if value}


def _attributes_of_plugins(timings: Iterable[PluginTiming]) -> _Attributes:
    """Return the seconds of each plugin, normalising together with scoring, and how it ended."""
    seconds: dict[str, float] = {}
    ends: _Attributes = {}
    for _, plugin, nanoseconds, code in timings:
        name = f"kframework.plugin.{plugin}"
        seconds[name] = seconds.get(name, 0.0) + nanoseconds / 1e9
        if code is not _SUCCESS:
            ends[f"{name}.status"] = code.title
    return seconds | ends


def _attributes_of_pod(record: Decision | Binding) -> _Attributes:
    namespace, _, name = record.pod.partition("/")
    return {
        K8S_NAMESPACE_NAME: namespace,
        K8S_POD_NAME: name,
        K8S_POD_UID: record.uid,
        "kframework.profile": record.profile,
        "kframework.attempt": record.attempt,
    }


def _steps_in_clock_time(binding: Binding) -> list[PointTiming]:
    """Set the wait in Permit to its duration on the Clock, which may be virtual; omit it if there was none."""
    waited = _nanoseconds(binding.waited)
    return [
        (point, max(spent, waited) if point == "wait_on_permit" else spent, code)
        for point, spent, code in binding.steps
        if waited or point != "wait_on_permit" or code is not _SUCCESS
    ]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


@dataclass(frozen=True)
class Span:
    """An operation from `start`, in nanoseconds since 1970, that `took` nanoseconds; `failure` is its error or ""."""

    name: str
    start: int
    took: int
    attributes: SpanAttributes = field(default_factory=dict)
    parts: tuple[Span, ...] = ()
    failure: str = ""

    def export(self, traces: Traces, trace: int) -> None:
        """Export a whole trace with this span as its root."""
        self._export_part(traces, trace, count(), None)

    def _export_part(self, traces: Traces, trace: int, indexes: Iterator[int], parent: SpanContext | None) -> None:
        own = span_context(trace, next(indexes))
        for part in self.parts:
            part._export_part(traces, trace, indexes, own)
        status = Status(StatusCode.ERROR, self.failure) if self.failure else UNSET
        traces.export(self.name, own, parent, (self.start, self.start + self.took), self.attributes, status)
