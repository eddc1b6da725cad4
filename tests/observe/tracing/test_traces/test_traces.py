"""Traces of one run have numbers of their own, whatever they are of."""

from __future__ import annotations

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kframework.observe.tracing.traces import Traces, span_context


def traces(seed: int | None) -> Traces:
    return Traces(SimpleSpanProcessor(InMemorySpanExporter()), seed)


def test_trace_id_is_derived_from_its_subject() -> None:
    numbers = {traces(seed).trace(of) for seed in (0, 1) for of in (1, 2, "session 1", "session 2")}
    assert len(numbers) == 8
    assert traces(0).trace("session 1") == traces(0).trace("session 1")
    assert traces(None).trace(1) != traces(None).trace(1)


def test_span_id_is_derived_from_its_index() -> None:
    last = (1 << 64) - 1
    ids = [span_context(last, place).span_id for place in (0, 1, 2)]
    assert ids == [last, 0, 1]
    assert span_context(last, 1).trace_id == last
