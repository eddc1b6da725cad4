"""Spans are made of records."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import kframework.tracing
from kframework.clock import VIRTUAL_EPOCH
from kframework.config import Tracing as TracingOptions
from kframework.decision import Binding, Decision, Result
from kframework.errors import ConfigError
from kframework.status import Code
from kframework.tracing import EVERY_ATTEMPT, Tracing

SECOND = 10**9
EPOCH = int(VIRTUAL_EPOCH) * SECOND


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "attempt": 7,
        "tries": 2,
        "pod": "shop/web",
        "uid": "u-1",
        "profile": "default-scheduler",
        "queued_at": VIRTUAL_EPOCH,
        "popped_at": VIRTUAL_EPOCH + 1,
        "result": Result.SCHEDULED,
        "node": "n1",
        "score": 300,
        "ties": 1,
        "nodes": 5,
        "evaluated": 4,
        "feasible": 3,
        "top": (("n1", 300), ("n2", 20)),
        "timings": (
            ("pre_filter", 2_000, Code.SUCCESS),
            ("filter", 50_000, Code.SUCCESS),
            ("score", 30_000, Code.SUCCESS),
        ),
    }
    return Decision(**fields | changes)


def binding(**changes: Any) -> Binding:
    fields: dict[str, Any] = {
        "attempt": 7,
        "pod": "shop/web",
        "uid": "u-1",
        "profile": "default-scheduler",
        "node": "n1",
        "started_at": VIRTUAL_EPOCH + 1,
        "ended_at": VIRTUAL_EPOCH + 1,
        "code": Code.SUCCESS,
        "steps": (("wait_on_permit", 500, Code.SUCCESS), ("bind", 4_000, Code.SUCCESS)),
    }
    return Binding(**fields | changes)


class Traced:
    """A Tracing, and the spans it has made."""

    def __init__(self, rate_per_million: int = EVERY_ATTEMPT, seed: int = 0) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(SimpleSpanProcessor(self._exporter), rate_per_million=rate_per_million, seed=seed)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    @property
    def attempts(self) -> list[object]:
        return [attribute(span, "kframework.attempt") for span in self.spans if span.name == "scheduling_cycle"]


def attribute(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def times(span: ReadableSpan) -> tuple[int, int]:
    """Return when a span starts and ends, in nanoseconds since the epoch of virtual time."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time - EPOCH, span.end_time - EPOCH


# -- scheduling cycles ---------------------------------------------------------------------------------------------


def test_an_attempt_is_a_span_with_one_for_each_extension_point() -> None:
    traced = Traced()
    traced.tracing.decided(decision())
    *points, cycle = traced.spans
    assert [(span.name, *times(span)) for span in traced.spans] == [
        ("pre_filter", SECOND, SECOND + 2_000),
        ("filter", SECOND + 2_000, SECOND + 52_000),
        ("score", SECOND + 52_000, SECOND + 82_000),
        ("scheduling_cycle", SECOND, SECOND + 82_000),
    ]
    assert cycle.parent is None
    assert [span.parent for span in points] == [cycle.get_span_context()] * 3


def test_the_attributes_of_an_attempt() -> None:
    traced = Traced()
    traced.tracing.decided(decision())
    assert dict(traced.spans[-1].attributes or {}) == {
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "web",
        "k8s.pod.uid": "u-1",
        "k8s.node.name": "n1",
        "kframework.profile": "default-scheduler",
        "kframework.attempt": 7,
        "kframework.tries": 2,
        "kframework.result": "scheduled",
        "kframework.nodes.total": 5,
        "kframework.nodes.evaluated": 4,
        "kframework.nodes.feasible": 3,
        "kframework.score": 300,
        "kframework.ties": 1,
    }


def test_a_node_that_was_the_only_one_has_no_score() -> None:
    traced = Traced()
    traced.tracing.decided(decision(top=(), score=0))
    assert attribute(traced.spans[-1], "kframework.score") is None


def test_an_attempt_in_vain_says_why_and_is_no_error() -> None:
    traced = Traced()
    traced.tracing.decided(
        decision(
            result=Result.UNSCHEDULABLE,
            node="",
            top=(),
            message="0/5 nodes are available",
            rejectors=("NodeName", "NodePorts"),
            nominated="n2",
            victims=("shop/cheap",),
        )
    )
    span = traced.spans[-1]
    assert span.status.status_code is StatusCode.UNSET
    assert attribute(span, "k8s.node.name") is None
    assert attribute(span, "kframework.result") == "unschedulable"
    assert attribute(span, "kframework.message") == "0/5 nodes are available"
    assert attribute(span, "kframework.rejectors") == ("NodeName", "NodePorts")
    assert attribute(span, "kframework.nominated_node") == "n2"
    assert attribute(span, "kframework.victims") == ("shop/cheap",)


def test_a_fault_is_an_error() -> None:
    traced = Traced()
    traced.tracing.decided(decision(result=Result.ERROR, code=Code.ERROR, message="plugin 'Odd' failed"))
    status = traced.spans[-1].status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "plugin 'Odd' failed")


# -- binding cycles ------------------------------------------------------------------------------------------------


def test_a_binding_is_a_trace_of_its_own_linked_to_its_attempt() -> None:
    traced = Traced()
    traced.tracing.decided(decision())
    cycle = traced.spans[-1].get_span_context()
    traced.tracing.bound(binding(ended_at=VIRTUAL_EPOCH + 1.5))
    permit, bind, bound = traced.spans[-3:]
    assert cycle is not None
    assert [(span.name, *times(span)) for span in (permit, bind, bound)] == [
        ("wait_on_permit", SECOND, SECOND + 500),
        ("bind", SECOND + 500, SECOND + 4_500),
        ("binding_cycle", SECOND, SECOND + SECOND // 2),
    ]
    context = bound.get_span_context()
    assert context is not None
    assert context.trace_id != cycle.trace_id
    assert [link.context for link in bound.links] == [cycle]
    assert permit.parent == bind.parent == context
    assert attribute(bound, "k8s.node.name") == "n1"
    assert attribute(bound, "kframework.result") == "Success"


def test_a_wait_in_permit_is_as_long_as_on_the_clock() -> None:
    traced = Traced()
    traced.tracing.decided(decision())
    traced.tracing.bound(binding(waited=30.0, ended_at=VIRTUAL_EPOCH + 31))
    permit, bind, bound = traced.spans[-3:]
    assert times(permit) == (SECOND, 31 * SECOND)
    assert times(bind) == (31 * SECOND, 31 * SECOND + 4_000)
    assert times(bound) == (SECOND, 31 * SECOND + 4_000)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.SUCCESS, StatusCode.UNSET),
        (Code.UNSCHEDULABLE, StatusCode.UNSET),
        (Code.ERROR, StatusCode.ERROR),
        (Code.SKIP, StatusCode.ERROR),
    ],
)
def test_only_faults_of_a_binding_are_errors(code: Code, status: StatusCode) -> None:
    traced = Traced()
    traced.tracing.decided(decision())
    traced.tracing.bound(binding(code=code, message="so it is"))
    span = traced.spans[-1]
    assert span.status.status_code is status
    assert attribute(span, "kframework.message") == "so it is"


# -- sampling ------------------------------------------------------------------------------------------------------


def test_nothing_is_traced_at_rate_zero() -> None:
    traced = Traced(rate_per_million=0)
    for attempt in range(100):
        traced.tracing.decided(decision(attempt=attempt))
        traced.tracing.bound(binding(attempt=attempt))
    assert traced.spans == ()


def test_the_sample_is_as_large_as_asked_and_the_same_for_a_seed() -> None:
    samples = []
    for seed in (1, 1, 2):
        traced = Traced(rate_per_million=250_000, seed=seed)
        for attempt in range(2_000):
            traced.tracing.decided(decision(attempt=attempt, timings=()))
        samples.append(traced.attempts)
    first, again, other = samples
    assert 400 < len(first) < 600
    assert first == again != other


def test_bindings_of_attempts_that_were_sampled_are_traced_and_no_others() -> None:
    traced = Traced(rate_per_million=250_000)
    for attempt in range(200):
        traced.tracing.decided(decision(attempt=attempt))
    for attempt in range(200):
        traced.tracing.bound(binding(attempt=attempt))
    bound = [attribute(span, "kframework.attempt") for span in traced.spans if span.name == "binding_cycle"]
    assert bound == traced.attempts != []


def test_bindings_that_never_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kframework.tracing, "_MOST_BINDING", 2)
    traced = Traced()
    for attempt in (1, 2, 3):
        traced.tracing.decided(decision(attempt=attempt))
    for attempt in (1, 2, 3):
        traced.tracing.bound(binding(attempt=attempt))
    bound = [attribute(span, "kframework.attempt") for span in traced.spans if span.name == "binding_cycle"]
    assert bound == [2, 3]


def test_an_attempt_in_vain_expects_no_binding() -> None:
    traced = Traced()
    traced.tracing.decided(decision(result=Result.UNSCHEDULABLE))
    traced.tracing.bound(binding())
    assert "binding_cycle" not in [span.name for span in traced.spans]


# -- exporters -----------------------------------------------------------------------------------------------------


def test_a_stream_gets_a_line_of_otlp_json_for_each_span() -> None:
    stream = io.StringIO()
    tracing = Tracing.to_stream(stream)
    tracing.decided(
        decision(timings=(("filter", 1, Code.ERROR),), rejectors=("NodeName",), result=Result.ERROR, message="oh")
    )
    tracing.close()
    child, parent = (json.loads(line)["resourceSpans"][0] for line in stream.getvalue().splitlines())
    assert {"key": "service.name", "value": {"stringValue": "kframework"}} in parent["resource"]["attributes"]
    assert parent["scopeSpans"][0]["scope"]["name"] == "kframework"
    (inner,), (outer,) = child["scopeSpans"][0]["spans"], parent["scopeSpans"][0]["spans"]
    assert (outer["name"], outer["parentSpanId"], outer["kind"]) == ("scheduling_cycle", "", 1)
    assert (inner["name"], inner["parentSpanId"], inner["traceId"]) == ("filter", outer["spanId"], outer["traceId"])
    assert (outer["startTimeUnixNano"], outer["endTimeUnixNano"]) == (str(EPOCH + SECOND), str(EPOCH + SECOND + 1))
    assert outer["status"] == {"code": 2, "message": "oh"}
    assert {"key": "kframework.attempt", "value": {"intValue": "7"}} in outer["attributes"]
    assert {
        "key": "kframework.rejectors",
        "value": {"arrayValue": {"values": [{"stringValue": "NodeName"}]}},
    } in outer["attributes"]


def test_a_stream_gets_the_links_of_bindings() -> None:
    stream = io.StringIO()
    tracing = Tracing.to_stream(stream)
    tracing.decided(decision(timings=()))
    tracing.bound(binding(steps=()))
    cycle, bound = (
        json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in stream.getvalue().splitlines()
    )
    assert bound["links"] == [{"traceId": cycle["traceId"], "spanId": cycle["spanId"]}]


@pytest.mark.parametrize(
    "options", [TracingOptions(), TracingOptions(exporter="console"), TracingOptions(sampling_rate_per_million=5)]
)
def test_without_exporter_or_rate_there_is_no_tracing(options: TracingOptions) -> None:
    assert Tracing.from_options(options) is None


def test_the_console_is_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    tracing = Tracing.from_options(TracingOptions(exporter="console", sampling_rate_per_million=EVERY_ATTEMPT))
    assert tracing is not None
    tracing.decided(decision())
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 4)


def test_otlp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'kframework-sdk\[otlp\]'"):
        Tracing.from_options(TracingOptions(exporter="otlp", sampling_rate_per_million=1))


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (None, "http://localhost:4318/v1/traces"),
        ("collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector", "https://collector/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
    ],
)
def test_otlp_goes_to_the_endpoint(endpoint: str | None, url: str) -> None:
    exporter = kframework.tracing._otlp_exporter(endpoint)
    assert exporter._endpoint == url  # type: ignore[attr-defined]  # the exporter tells nobody else
