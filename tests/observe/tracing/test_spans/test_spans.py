"""Spans are made of records; what they are called and carry is checked against the document in `docs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode, format_trace_id

import kframework
from kframework.clock import VIRTUAL_EPOCH
from kframework.config.configuration import TracingOptions
from kframework.core.cycle.records import Binding, Decision, Result
from kframework.core.runtime.timing import PluginTiming
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing
from kframework.values.status import Code

SECOND = 10**9
EPOCH = int(VIRTUAL_EPOCH) * SECOND


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "attempt": 7,
        "pod_attempts": 2,
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
        "best_nodes": (("n1", 300), ("n2", 20)),
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
        "steps": (("pre_bind", 500, Code.SUCCESS), ("bind", 4_000, Code.SUCCESS)),
    }
    return Binding(**fields | changes)


class Traced:
    """A Tracing, and the spans it has made."""

    def __init__(self, rate_per_million: int = SAMPLE_ALL, seed: int | None = 0) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(SimpleSpanProcessor(self._exporter), rate_per_million=rate_per_million, seed=seed)

    @classmethod
    def of(cls, *records: Decision | Binding) -> Traced:
        """Trace these."""
        traced = cls()
        for record in records:
            if isinstance(record, Decision):
                traced.tracing.on_decision(record)
            else:
                traced.tracing.on_binding(record)
        return traced

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """Return the only span of this name."""
        (span,) = (span for span in self.spans if span.name == name)
        return span

    def attempts(self, name: str) -> list[object]:
        """Return the numbers of the attempts that have a span of this name."""
        return [attribute(span, "kframework.attempt") for span in self.spans if span.name == name]


def attribute(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def context(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def times(span: ReadableSpan) -> tuple[int, int]:
    """Return when a span starts and ends, in nanoseconds since the epoch of virtual time."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time - EPOCH, span.end_time - EPOCH


def tree(spans: Iterable[ReadableSpan]) -> dict[str, str | None]:
    """Return each span's parent, by name."""
    spans = list(spans)
    names = {context(span).span_id: span.name for span in spans}
    return {span.name: names[span.parent.span_id] if span.parent is not None else None for span in spans}


def test_trace_has_queue_wait_cycle_and_binding_with_their_points() -> None:
    traced = Traced.of(decision(), binding())
    assert tree(traced.spans) == {
        "scheduling_attempt": None,
        "queue_wait": "scheduling_attempt",
        "scheduling_cycle": "scheduling_attempt",
        "pre_filter": "scheduling_cycle",
        "filter": "scheduling_cycle",
        "score": "scheduling_cycle",
        "binding_cycle": "scheduling_attempt",
        "pre_bind": "binding_cycle",
        "bind": "binding_cycle",
    }
    contexts = [context(span) for span in traced.spans]
    assert len({each.trace_id for each in contexts}) == 1
    assert len({each.span_id for each in contexts}) == len(contexts)
    assert all(each.is_valid and each.trace_flags.sampled for each in contexts)


def test_spans_follow_each_other() -> None:
    traced = Traced.of(decision())
    assert {span.name: times(span) for span in traced.spans} == {
        "scheduling_attempt": (0, SECOND + 82_000),
        "queue_wait": (0, SECOND),
        "scheduling_cycle": (SECOND, SECOND + 82_000),
        "pre_filter": (SECOND, SECOND + 2_000),
        "filter": (SECOND + 2_000, SECOND + 52_000),
        "score": (SECOND + 52_000, SECOND + 82_000),
    }


def test_attempts_have_different_traces_and_runs_too() -> None:
    def ids(seed: int | None) -> list[int]:
        traced = Traced(seed=seed)
        for attempt in (1, 2):
            traced.tracing.on_decision(decision(attempt=attempt, timings=()))
        return [context(span).trace_id for span in traced.spans if span.parent is None]

    assert ids(0) == ids(0) != ids(1)
    assert len({*ids(0), *ids(1), *ids(None), *ids(None)}) == 8


def test_trace_id_is_known_from_the_attempt_number() -> None:
    traced = Traced(rate_per_million=500_000)
    traced.tracing.on_decision(decision(sample_value=0.4))
    assert traced.tracing.trace_id(7, 0.4) == format_trace_id(context(traced.spans[0]).trace_id)
    assert traced.tracing.trace_id(7, 0.5) == ""


POD = {
    "k8s.namespace.name": "shop",
    "k8s.pod.name": "web",
    "k8s.pod.uid": "u-1",
    "kframework.profile": "default-scheduler",
    "kframework.attempt": 7,
}


def test_attempt_span_has_its_attributes() -> None:
    traced = Traced.of(decision())
    assert dict(traced.named("scheduling_attempt").attributes or {}) == POD | {"kframework.pod_attempts": 2}
    assert dict(traced.named("scheduling_cycle").attributes or {}) == POD | {
        "k8s.node.name": "n1",
        "kframework.result": "scheduled",
        "kframework.nodes.total": 5,
        "kframework.nodes.evaluated": 4,
        "kframework.nodes.feasible": 3,
        "kframework.score": 300,
        "kframework.ties": 1,
    }


def test_single_feasible_node_has_no_score_attribute() -> None:
    traced = Traced.of(decision(best_nodes=(), score=0))
    assert attribute(traced.named("scheduling_cycle"), "kframework.score") is None


def test_unschedulable_attempt_has_a_message_and_no_error() -> None:
    traced = Traced.of(
        decision(
            result=Result.UNSCHEDULABLE,
            node="",
            best_nodes=(),
            timings=(("pre_filter", 5, Code.UNSCHEDULABLE),),
            message="0/5 nodes are available",
            rejectors=("NodeName", "NodePorts"),
            nominated="n2",
            victims=("shop/cheap",),
        )
    )
    assert {span.status.status_code for span in traced.spans} == {StatusCode.UNSET}
    assert attribute(traced.named("pre_filter"), "kframework.status") == "Unschedulable"
    span = traced.named("scheduling_cycle")
    assert attribute(span, "k8s.node.name") is None
    assert attribute(span, "kframework.result") == "unschedulable"
    assert attribute(span, "kframework.message") == "0/5 nodes are available"
    assert attribute(span, "kframework.rejectors") == ("NodeName", "NodePorts")
    assert attribute(span, "kframework.nominated_node") == "n2"
    assert attribute(span, "kframework.victims") == ("shop/cheap",)


def test_fault_marks_its_point_and_parents_as_error() -> None:
    timings = (("pre_filter", 5, Code.SUCCESS), ("filter", 5, Code.ERROR))
    faulty = decision(result=Result.ERROR, code=Code.ERROR, message="plugin 'Odd' failed", timings=timings)
    traced = Traced.of(faulty)
    failed = {
        span.name: span.status.description for span in traced.spans if span.status.status_code is StatusCode.ERROR
    }
    message = "plugin 'Odd' failed"
    assert failed == {"scheduling_attempt": message, "scheduling_cycle": message, "filter": None}


def plugins(span: ReadableSpan) -> dict[str, object]:
    prefix = "kframework.plugin."
    return {name.removeprefix(prefix): value for name, value in (span.attributes or {}).items() if prefix in name}


def test_point_spans_have_plugin_seconds() -> None:
    traced = Traced.of(
        decision(
            plugins=(
                ("filter", "Fit", 4_000, Code.SUCCESS),
                ("score", "Fit", 3_000, Code.SUCCESS),
                ("normalize_score", "Fit", 1_000, Code.SUCCESS),
            )
        ),
        binding(plugins=(("bind", "Extended", 1_500, Code.SKIP), ("bind", "DefaultBinder", 2_000, Code.SUCCESS))),
    )
    assert {span.name: plugins(span) for span in traced.spans if plugins(span)} == {
        "filter": {"Fit": 4e-6},
        "score": {"Fit": pytest.approx(4e-6)},
        "bind": {"Extended": 1.5e-6, "Extended.status": "Skip", "DefaultBinder": 2e-6},
    }


def test_plugins_without_a_point_span_are_attributes_of_the_cycle() -> None:
    """What is remembered of scores is brought up to date while filtering, whether nodes are scored then or not."""
    timings = (("filter", 50_000, Code.SUCCESS),)
    traced = Traced.of(decision(timings=timings, plugins=(("score", "Fit", 3_000, Code.SUCCESS),)))
    assert {span.name: plugins(span) for span in traced.spans if plugins(span)} == {"scheduling_cycle": {"Fit": 3e-6}}


def test_repeated_point_has_plugin_attributes_once() -> None:
    timings = tuple((point, 10, Code.SUCCESS) for point in ("post_filter", "extender_preempt", "post_filter"))
    traced = Traced.of(decision(timings=timings, plugins=(("post_filter", "A", 15, Code.SUCCESS),)))
    assert [plugins(span) for span in traced.spans if span.name == "post_filter"] == [{"A": 15e-9}, {}]


def test_binding_cycle_links_to_its_scheduling_cycle() -> None:
    traced = Traced.of(decision(), binding(ended_at=VIRTUAL_EPOCH + 1.5))
    bound = traced.named("binding_cycle")
    assert [link.context for link in bound.links] == [context(traced.named("scheduling_cycle"))]
    assert {span.name: times(span) for span in (traced.named("pre_bind"), traced.named("bind"), bound)} == {
        "pre_bind": (SECOND, SECOND + 500),
        "bind": (SECOND + 500, SECOND + 4_500),
        "binding_cycle": (SECOND, SECOND + SECOND // 2),
    }
    assert dict(bound.attributes or {}) == POD | {"k8s.node.name": "n1", "kframework.result": "Success"}


def test_permit_wait_span_has_the_duration_on_the_clock() -> None:
    steps = (("wait_on_permit", 500, Code.SUCCESS), ("bind", 4_000, Code.SUCCESS))
    traced = Traced.of(binding(waited=30.0, ended_at=VIRTUAL_EPOCH + 31, steps=steps))
    assert times(traced.named("wait_on_permit")) == (SECOND, 31 * SECOND)
    assert times(traced.named("bind")) == (31 * SECOND, 31 * SECOND + 4_000)
    assert times(traced.named("binding_cycle")) == (SECOND, 31 * SECOND + 4_000)


@pytest.mark.parametrize(
    ("point", "code", "plugins", "shown"),
    [
        ("permit", Code.SUCCESS, (), False),
        ("permit", Code.SUCCESS, (("permit", "A", 5, Code.SUCCESS),), True),
        ("permit", Code.WAIT, (), True),
        ("filter", Code.SUCCESS, (), True),
    ],
)
def test_point_without_plugin_calls_has_no_span(
    point: str, code: Code, plugins: tuple[PluginTiming, ...], shown: bool
) -> None:
    traced = Traced.of(decision(timings=((point, 10, code), ("reserve", 20, Code.SUCCESS)), plugins=plugins))
    assert (point in {span.name for span in traced.spans}) is shown
    assert times(traced.named("reserve")) == (SECOND + 10, SECOND + 30)


@pytest.mark.parametrize(("code", "shown"), [(Code.SUCCESS, False), (Code.UNSCHEDULABLE, True)])
def test_absent_permit_wait_has_no_span(code: Code, shown: bool) -> None:
    traced = Traced.of(binding(steps=(("wait_on_permit", 500, code),)))
    assert ("wait_on_permit" in {span.name for span in traced.spans}) is shown


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.SUCCESS, StatusCode.UNSET),
        (Code.UNSCHEDULABLE, StatusCode.UNSET),
        (Code.ERROR, StatusCode.ERROR),
        (Code.SKIP, StatusCode.ERROR),
    ],
)
def test_only_binding_faults_are_error_spans(code: Code, status: StatusCode) -> None:
    span = Traced.of(binding(code=code, message="so it is")).named("binding_cycle")
    assert span.status.status_code is status
    assert attribute(span, "kframework.message") == "so it is"


@pytest.mark.parametrize(("rate", "traced_below"), [(0, 0.0), (10_000, 0.01), (250_000, 0.25), (SAMPLE_ALL, 1.0)])
def test_attempts_are_traced_if_their_sample_value_is_below_the_rate(rate: int, traced_below: float) -> None:
    traced = Traced(rate_per_million=rate)
    draws = {attempt: attempt / 200 for attempt in range(200)}
    for attempt, sample_value in draws.items():
        traced.tracing.on_decision(decision(attempt=attempt, sample_value=sample_value))
        traced.tracing.on_binding(binding(attempt=attempt, sample_value=sample_value))
    sample = [attempt for attempt, sample_value in draws.items() if sample_value < traced_below]
    assert traced.attempts("scheduling_cycle") == traced.attempts("binding_cycle") == sample


def test_resource_is_kframework_unless_the_environment_overrides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def resource() -> dict[str, object]:
        return dict(Traced.of(decision(timings=())).spans[0].resource.attributes)

    ours = resource()
    assert (ours["service.name"], ours["service.version"]) == ("kframework", kframework.__version__)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ours")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=east")
    assert resource() == ours | {"service.name": "ours", "k8s.cluster.name": "east"}


@pytest.mark.parametrize(
    "options", [TracingOptions(), TracingOptions(exporter="console"), TracingOptions(sampling_rate_per_million=5)]
)
def test_tracing_is_off_without_exporter_or_rate(options: TracingOptions) -> None:
    assert Tracing.from_options(options) is None


def test_console_exporter_writes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    tracing = Tracing.from_options(TracingOptions(exporter="console", sampling_rate_per_million=SAMPLE_ALL))
    assert tracing is not None
    tracing.on_decision(decision())
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 6)
