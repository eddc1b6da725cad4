"""What engines tell is traced as attempts are: a span for each part, in one trace, if it is of the sample."""

from __future__ import annotations

from opentelemetry.trace import StatusCode

from kframework.observe.tracing.spans import Span
from tests.observe.tracing.test_spans.test_spans import EPOCH, Traced, attribute, context, times, tree


def walk() -> Span:
    """Return what took a second, in two parts."""
    rest = Span("rest", EPOCH + 300, 500, {"where": "bench"}, failure="it rained")
    return Span("walk", EPOCH, 1_000, {"steps": 7}, (Span("go", EPOCH, 300), rest))


def test_span_is_exported_with_its_parts() -> None:
    traced = Traced()
    traced.tracing.record_span("walk 1", 0.0, walk)
    assert tree(traced.spans) == {"walk": None, "go": "walk", "rest": "walk"}
    assert {span.name: times(span) for span in traced.spans} == {
        "walk": (0, 1_000),
        "go": (0, 300),
        "rest": (300, 800),
    }
    assert attribute(traced.named("walk"), "steps") == 7
    assert attribute(traced.named("rest"), "where") == "bench"
    assert len({context(span).span_id for span in traced.spans}) == 3
    assert len({context(span).trace_id for span in traced.spans}) == 1


def test_span_with_a_failure_is_an_error() -> None:
    traced = Traced()
    traced.tracing.record_span("walk 1", 0.0, walk)
    statuses = {span.name: (span.status.status_code, span.status.description) for span in traced.spans}
    assert statuses == {
        "walk": (StatusCode.UNSET, None),
        "go": (StatusCode.UNSET, None),
        "rest": (StatusCode.ERROR, "it rained"),
    }


def test_span_outside_the_sample_is_not_created() -> None:
    traced = Traced(rate_per_million=500_000)

    def make() -> Span:
        raise AssertionError

    traced.tracing.record_span("walk 1", 0.5, make)
    traced.tracing.record_span("walk 2", 0.4, walk)
    assert [span.name for span in traced.spans] == ["go", "rest", "walk"]
