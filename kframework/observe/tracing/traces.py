"""The traces of one run: their ids, derived from the subject of a trace, and the export of their spans.

The SDK's tracer is not used, as it draws ids and calls a sampler for each span, at five times the cost.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, format_span_id, format_trace_id

from kframework._version import __version__
from kframework.client.loopback import PLAIN_HTTP, has_credentials, is_confidential
from kframework.clock import Seeds
from kframework.errors import ConfigError, escape_json

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter


#: The attributes of a span by name.
SpanAttributes = Mapping[str, str | int | float | tuple[str, ...]]

UNSET = Status(StatusCode.UNSET)

_SPAN_ID = (1 << 64) - 1
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Traces:
    """The traces of one run, with a processor for their spans; with a `seed`, ids are the same in every run."""

    def __init__(self, processor: SpanProcessor, seed: int | None) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._run = secrets.randbits(64) if seed is None else Seeds(seed).generator("traces").getrandbits(64)
        self._processor = processor
        self._resource = trace_resource()
        self._scope = InstrumentationScope("kframework", __version__)
        self._span = ReadableSpan

    def trace(self, subject: int | str) -> int:
        """Return the number of a trace, by attempt or name; its digits are random, so one can sample by them."""
        return int.from_bytes(blake2b(f"{self._run}/{subject}".encode(), digest_size=16).digest(), "big")

    def export(
        self,
        name: str,
        span_context: SpanContext,
        parent: SpanContext | None,
        moments: tuple[int, int],
        attributes: SpanAttributes | None = None,
        status: Status = UNSET,
        links: Sequence[Link] = (),
    ) -> None:
        span = self._span(
            name,
            span_context,
            parent,
            self._resource,
            attributes or {},
            links=links,
            status=status,
            start_time=moments[0],
            end_time=moments[1],
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(span)

    def close(self) -> None:
        """Export the remaining spans; waits for the exporter."""
        self._processor.shutdown()


def span_context(trace: int, index: int) -> SpanContext:
    return SpanContext(trace, (trace + index) & _SPAN_ID, is_remote=False, trace_flags=_SAMPLED)


#: OpenTelemetry's default endpoint.
_LOCAL = "http://localhost:4318"


def trace_resource() -> Resource:
    """Return the source of the spans; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    class HashedResource(Resource):
        """A resource that is hashed once: exporters hash that of every span, which takes a fifth of their time."""

        def __init__(self, resource: Resource) -> None:
            super().__init__(resource.attributes, resource.schema_url)
            self._hash = hash(resource)

        def __hash__(self) -> int:
            return self._hash

    own = Resource.create({"service.name": "kframework", "service.version": __version__})
    return HashedResource(own.merge(OTELResourceDetector().detect()))


def otlp_line(span: ReadableSpan) -> str:
    """Write a span as a line of an OTLP file: protobuf's JSON, with hexadecimal ids and 64-bit integers as text."""
    span_context, scope = span.get_span_context(), span.instrumentation_scope
    assert span_context is not None  # only a span that was never started has none
    fields = {
        **_otlp_ids(span_context),
        "parentSpanId": format_span_id(span.parent.span_id) if span.parent else "",
        "name": span.name,
        "kind": span.kind.value + 1,  # the protocol counts from "unspecified"
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": _otlp_attributes(span.attributes or {}),
        "links": [_otlp_ids(link.context) for link in span.links],
        "status": {"code": span.status.status_code.value, "message": span.status.description or ""},
    }
    scope_spans = [{"scope": {"name": scope.name, "version": scope.version} if scope else {}, "spans": [fields]}]
    trace_resource = {"attributes": _otlp_attributes(span.resource.attributes)}
    line = {"resourceSpans": [{"resource": trace_resource, "scopeSpans": scope_spans}]}
    return escape_json(msgspec.json.encode(line).decode()) + "\n"


def _otlp_ids(span_context: SpanContext) -> dict[str, object]:
    return {"traceId": format_trace_id(span_context.trace_id), "spanId": format_span_id(span_context.span_id)}


def _otlp_attributes(attributes: Mapping[str, object]) -> list[object]:
    return [{"key": key, "value": _otlp_value(value)} for key, value in attributes.items()]


def _otlp_value(value: object) -> dict[str, object]:
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_otlp_value(item) for item in value]}}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}


def otlp_exporter(endpoint: str | None) -> SpanExporter:
    """Send spans to a collector over HTTP, by default to the one at localhost; ConfigError if that is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        message = "exporter otlp is not installed: pip install 'kframework-sdk[otlp]'"
        raise ConfigError(message, path="tracing.exporter") from error
    url = _traces_url(endpoint) if endpoint else _environment("ENDPOINT")
    if (_environment("HEADERS") or has_credentials(url)) and not is_confidential(url or _LOCAL):
        message = f"{PLAIN_HTTP}, or remove OTEL_EXPORTER_OTLP_HEADERS"
        raise ConfigError(message, path="tracing.endpoint")
    return OTLPSpanExporter(endpoint=_traces_url(endpoint) if endpoint else None)


def _environment(name: str) -> str:
    """Return the value of OpenTelemetry's variable for traces, else of that for everything."""
    return os.environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}", "")


def _traces_url(endpoint: str) -> str:
    """Complete an endpoint as collectors are commonly named: `collector:4318` means http and the path of traces."""
    url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    return url._replace(path=url.path.rstrip("/") or "/v1/traces").geturl()
