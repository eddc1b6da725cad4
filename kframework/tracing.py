"""Traces: OpenTelemetry spans of scheduling attempts and binding cycles, built afterwards from their records.

A sampled attempt is a `scheduling_cycle` span with one child per extension point. Its binding runs beside the next
attempts and may outlive them, so it is a trace of its own: a `binding_cycle` span, linked to the attempt. Spans start
at the Clock's time, virtual or not, and last as long as this machine took; the SDK is imported when a Tracing is made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TextIO
from urllib.parse import urlsplit

import msgspec
from opentelemetry.context import Context
from opentelemetry.semconv.attributes.k8s_attributes import (
    K8S_NAMESPACE_NAME,
    K8S_NODE_NAME,
    K8S_POD_NAME,
    K8S_POD_UID,
)
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    Status,
    StatusCode,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)

from kframework import __version__
from kframework.config import Tracing as TracingOptions
from kframework.decision import Binding, Decision, PointTiming, Result
from kframework.errors import ConfigError
from kframework.seeds import Seeds
from kframework.status import Code

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["EVERY_ATTEMPT", "Tracing"]

#: The sampling rate, per million, at which every attempt is traced.
EVERY_ATTEMPT: Final = 1_000_000

#: So many sampled attempts wait for the end of their binding at most; beyond, the oldest one's binding goes untraced.
_MOST_BINDING = 10_000

_Attributes = dict[str, str | int | tuple[str, ...]]


class Tracing:
    """An observer that makes spans of a sample of the attempts, and of the bindings of those it sampled.

    `rate_per_million` of a million attempts are traced; `seed` starts the draws, which move no other chance.
    """

    def __init__(self, processor: SpanProcessor, *, rate_per_million: int, seed: int = 0) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        resource = Resource.create({"service.name": "kframework", "service.version": __version__})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("kframework", __version__)
        self._share = rate_per_million / EVERY_ATTEMPT
        self._toss = Seeds(seed).generator("sampling").random
        self._binding: dict[int, SpanContext] = {}

    @classmethod
    def from_options(cls, options: TracingOptions, *, seed: int = 0) -> Tracing | None:
        """Trace as the configuration says, or not at all; ConfigError if its exporter is not installed."""
        rate = options.sampling_rate_per_million
        if options.exporter == "none" or not rate:
            return None
        if options.exporter == "console":
            return cls.to_stream(sys.stderr, rate_per_million=rate, seed=seed)
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        return cls(BatchSpanProcessor(_otlp_exporter(options.endpoint)), rate_per_million=rate, seed=seed)

    @classmethod
    def to_stream(cls, stream: TextIO, *, rate_per_million: int = EVERY_ATTEMPT, seed: int = 0) -> Tracing:
        """Write every span to a stream when it ends, one a line: OTLP in JSON, as in OpenTelemetry's files."""
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

        exporter = ConsoleSpanExporter(out=stream, formatter=_line)
        return cls(SimpleSpanProcessor(exporter), rate_per_million=rate_per_million, seed=seed)

    def close(self) -> None:
        """Export what is left; waits for the exporter."""
        self._provider.shutdown()

    # -- the observer ----------------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """Trace the attempt if the toss says so."""
        if self._toss() >= self._share:
            return
        start = _nanoseconds(decision.popped_at)
        span = self._tracer.start_span(
            "scheduling_cycle", Context(), attributes=_attributes_of_decision(decision), start_time=start
        )
        end = self._children(span, start, decision.timings)
        if decision.result is Result.ERROR:
            span.set_status(Status(StatusCode.ERROR, decision.message))
        span.end(end)
        if decision.result is Result.SCHEDULED:
            self._expect_binding(decision.attempt, span.get_span_context())

    def bound(self, binding: Binding) -> None:
        """Trace the binding cycle of an attempt that was traced."""
        attempt = self._binding.pop(binding.attempt, None)
        if attempt is None:
            return
        start = _nanoseconds(binding.started_at)
        span = self._tracer.start_span(
            "binding_cycle",
            Context(),
            attributes=_attributes_of_binding(binding),
            links=(Link(attempt),),
            start_time=start,
        )
        end = self._children(span, start, _with_permit_on_the_clock(binding))
        if binding.code is not Code.SUCCESS and not binding.code.rejected:
            span.set_status(Status(StatusCode.ERROR, binding.message))
        span.end(max(end, _nanoseconds(binding.ended_at)))

    # -- spans -----------------------------------------------------------------------------------------------------

    def _expect_binding(self, attempt: int, context: SpanContext) -> None:
        if len(self._binding) >= _MOST_BINDING:
            del self._binding[next(iter(self._binding))]
        self._binding[attempt] = context

    def _children(self, parent: Span, start: int, timings: Iterable[PointTiming]) -> int:
        """Make a span of each point, one after the other, and return when the last one ends."""
        context = set_span_in_context(parent, Context())
        for point, nanoseconds, _ in timings:
            child = self._tracer.start_span(point, context, start_time=start)
            start += nanoseconds
            child.end(start)
        return start

    def __repr__(self) -> str:
        return f"<Tracing {self._share:.2%} of the attempts, {len(self._binding)} binding>"


# -- from records to attributes ------------------------------------------------------------------------------------


def _attributes_of_decision(decision: Decision) -> _Attributes:
    attributes = _attributes_of_pod(decision)
    attributes |= {
        "kframework.tries": decision.tries,
        "kframework.result": decision.result.value,
        "kframework.nodes.total": decision.nodes,
        "kframework.nodes.evaluated": decision.evaluated,
        "kframework.nodes.feasible": decision.feasible,
    }
    if decision.top:  # otherwise there was nothing to choose from, and nothing was scored
        attributes |= {"kframework.score": decision.score, "kframework.ties": decision.ties}
    said: _Attributes = {
        K8S_NODE_NAME: decision.node,
        "kframework.nominated_node": decision.nominated or "",
        "kframework.message": decision.message,
        "kframework.rejectors": decision.rejectors,
        "kframework.victims": decision.victims,
    }
    return attributes | {name: value for name, value in said.items() if value}


def _attributes_of_binding(binding: Binding) -> _Attributes:
    attributes = _attributes_of_pod(binding)
    attributes |= {K8S_NODE_NAME: binding.node, "kframework.result": binding.code.title}
    return attributes | ({"kframework.message": binding.message} if binding.message else {})


def _attributes_of_pod(record: Decision | Binding) -> _Attributes:
    namespace, _, name = record.pod.partition("/")
    return {
        K8S_NAMESPACE_NAME: namespace,
        K8S_POD_NAME: name,
        K8S_POD_UID: record.uid,
        "kframework.profile": record.profile,
        "kframework.attempt": record.attempt,
    }


def _with_permit_on_the_clock(binding: Binding) -> list[PointTiming]:
    """Let the wait in Permit last as long as it did on the Clock: in virtual time this machine did not wait at all."""
    waited = _nanoseconds(binding.waited)
    return [
        (point, max(spent, waited) if point == "wait_on_permit" else spent, code)
        for point, spent, code in binding.steps
    ]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


# -- exporters -----------------------------------------------------------------------------------------------------


def _line(span: ReadableSpan) -> str:
    """Write a span as a line of an OTLP file, which collectors read; one span a line."""
    scope = span.instrumentation_scope
    spans = [_otlp_span(span)]
    scope_spans = [{"scope": {"name": scope.name, "version": scope.version} if scope else {}, "spans": spans}]
    resource = {"attributes": _otlp_attributes(span.resource.attributes)}
    line = {"resourceSpans": [{"resource": resource, "scopeSpans": scope_spans}]}
    return msgspec.json.encode(line).decode() + "\n"


def _otlp_span(span: ReadableSpan) -> dict[str, object]:
    """Return a span in protobuf's JSON form: ids in hexadecimal, 64-bit integers as text."""
    context = span.get_span_context()
    assert context is not None  # only a span that was never started has none
    return {
        **_otlp_ids(context),
        "parentSpanId": format_span_id(span.parent.span_id) if span.parent else "",
        "name": span.name,
        "kind": span.kind.value + 1,  # the protocol counts from "unspecified"
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _otlp_attributes(span.attributes or {}),
        "links": [_otlp_ids(link.context) for link in span.links],
        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
    }


def _otlp_ids(context: SpanContext) -> dict[str, object]:
    return {"traceId": format_trace_id(context.trace_id), "spanId": format_span_id(context.span_id)}


def _otlp_attributes(attributes: Mapping[str, object]) -> list[object]:
    return [{"key": key, "value": _otlp_value(value)} for key, value in attributes.items()]


def _otlp_value(value: object) -> dict[str, object]:
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_otlp_value(item) for item in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}


def _otlp_exporter(endpoint: str | None) -> SpanExporter:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        message = "exporter otlp is not installed: pip install 'kframework-sdk[otlp]'"
        raise ConfigError(message, path="tracing.exporter") from error
    return OTLPSpanExporter(endpoint=_traces_url(endpoint) if endpoint else None)


def _traces_url(endpoint: str) -> str:
    """Complete an endpoint as collectors are commonly named: `collector:4318` means http and the path of traces."""
    url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    return url._replace(path=url.path.rstrip("/") or "/v1/traces").geturl()
