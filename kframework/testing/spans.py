"""The spans of a test's scenarios, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kframework.core.cycle.records import Observer
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing


class Spans(Sequence[ReadableSpan]):
    """The ended spans, in order; `observer` creates them from a scheduler's decisions."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self._exporter)
        self.observer: Observer = Tracing(processor, rate_per_million=SAMPLE_ALL, seed=0)

    @overload
    def __getitem__(self, index: int) -> ReadableSpan: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ReadableSpan]: ...
    def __getitem__(self, index: int | slice) -> ReadableSpan | Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()[index]

    def __len__(self) -> int:
        return len(self._exporter.get_finished_spans())

    def with_name(self, name: str) -> list[ReadableSpan]:
        """List the spans of this name."""
        return [span for span in self if span.name == name]
