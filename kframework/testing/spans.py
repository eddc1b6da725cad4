"""The spans of a test's scenarios, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from kframework.core.cycle.records import Observer
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing


class Spans(list[ReadableSpan], SpanExporter):
    """The ended spans, in order; `observer` creates them from a scheduler's decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.observer: Observer = Tracing(SimpleSpanProcessor(self), rate_per_million=SAMPLE_ALL, seed=0)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.extend(spans)
        return SpanExportResult.SUCCESS

    def with_name(self, name: str) -> list[ReadableSpan]:
        """List the spans of this name."""
        return [span for span in self if span.name == name]
