"""Traces of one run have numbers of their own, whatever they are of."""

from __future__ import annotations

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kframework.observe.tracing.traces import Traces, span_context


def traces(seed: int | None) -> Traces:
    return Traces(SimpleSpanProcessor(InMemorySpanExporter()), seed)


def test_a_trace_is_known_by_what_it_is_of() -> None:
    numbers = {traces(seed).trace(of) for seed in (0, 1) for of in (1, 2, "session 1", "session 2")}
    assert len(numbers) == 8
    assert traces(0).trace("session 1") == traces(0).trace("session 1")
    assert traces(None).trace(1) != traces(None).trace(1)


def test_spans_of_a_trace_are_known_by_their_place() -> None:
    last = (1 << 64) - 1
    ids = [span_context(last, place).span_id for place in (0, 1, 2)]
    assert ids == [last, 0, 1]
    assert span_context(last, 1).trace_id == last
