"""Spans reach a collector, over HTTP or as lines that it reads, with all that is in them."""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from google.protobuf.json_format import Parse  # type: ignore[import-untyped]  # it has no stubs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from kframework.config.configuration import TracingOptions
from kframework.core.cycle.records import Binding, Decision, Result
from kframework.errors import ConfigError
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing
from kframework.observe.tracing.traces import otlp_exporter
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from kframework.values.status import Code
from tests.observe.tracing.test_spans.test_spans import binding, decision

RECORDS = (
    decision(
        rejectors=("NodeName", "NodePorts"),
        result=Result.ERROR,
        message="oh",
        timings=(("filter", 50_000, Code.ERROR),),
        plugins=(("filter", "NodeName", 4_000, Code.ERROR), ("score", "Fit", 1, Code.SUCCESS)),
    ),
    binding(waited=2.5, plugins=(("bind", "DefaultBinder", 1_000, Code.SUCCESS),)),
)


class Collector:
    """A receiver of OTLP over HTTP, and what it received."""

    def __init__(self) -> None:
        self.received: list[ResourceSpans] = []
        collector = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.received.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def spans(self) -> list[SpanMessage]:
        return [span for resource in self.received for scope in resource.scope_spans for span in scope.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = Thread(target=collector.server.serve_forever, args=(0.01,))
    thread.start()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()
    thread.join()


def tell(tracing: Tracing) -> None:
    for record in RECORDS:
        if isinstance(record, Decision):
            tracing.on_decision(record)
        else:
            assert isinstance(record, Binding)
            tracing.on_binding(record)
    tracing.close()


def to(collector: Collector) -> Tracing:
    options = TracingOptions(exporter="otlp", endpoint=collector.endpoint, sampling_rate_per_million=SAMPLE_ALL)
    tracing = Tracing.from_options(options, seed=0)
    assert tracing is not None
    return tracing


def test_collector_receives_the_traces_of_a_run(collector: Collector) -> None:
    tracing, decisions = to(collector), list[Decision]()
    pods = [make_pod(f"p{number}") for number in range(3)]
    Simulation([make_node("a"), *pods], observers=[tracing, _Keeping(decisions)], timed_share=1.0).run()
    tracing.close()
    assert len(decisions) == len(pods)
    for told in decisions:
        trace = bytes.fromhex(tracing.trace_id(told.attempt, told.sample_value))
        assert [span.name for span in collector.spans if span.trace_id == trace] == [
            "queue_wait",
            *(point for point, _, _ in told.timings if point != "permit"),  # as nobody was asked
            "scheduling_cycle",
            "scheduling_attempt",
            *("pre_bind_pre_flight", "bind", "binding_cycle"),
        ]
    bind = next(span for span in collector.spans if span.name == "bind")
    assert [attribute.key for attribute in bind.attributes] == ["kframework.plugin.DefaultBinder"]


class _Keeping:
    """An observer that keeps the decisions."""

    def __init__(self, decisions: list[Decision]) -> None:
        self.on_decision = decisions.append

    def on_binding(self, binding: Binding) -> None:
        pass


def test_otlp_exporter_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'kframework-sdk\[otlp\]'"):
        otlp_exporter(None)


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
def test_otlp_exporter_uses_the_endpoint(endpoint: str | None, url: str) -> None:
    exporter = otlp_exporter(endpoint)
    assert exporter._endpoint == url  # type: ignore[attr-defined]  # the exporter tells nobody else


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"])
def test_otlp_headers_are_not_sent_over_plain_http(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "api-key=s3cret")
    for kept in (None, "https://collector", "127.0.0.1:4318"):
        otlp_exporter(kept)
    why = r"tracing.endpoint: refusing to send credentials over plain HTTP; .* or remove OTEL_EXPORTER_OTLP_HEADERS"
    with pytest.raises(ConfigError, match=why):
        otlp_exporter("collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    with pytest.raises(ConfigError, match=why):
        otlp_exporter(None)


def lines() -> list[str]:
    stream = io.StringIO()
    tell(Tracing.to_stream(stream, seed=0))
    return stream.getvalue().splitlines()


def test_otlp_line_equals_the_http_payload(collector: Collector) -> None:
    tell(to(collector))
    (sent,) = collector.received
    read = [
        Parse(json.dumps(_with_ids_in_base64(json.loads(line))), TracesData()).resource_spans[0] for line in lines()
    ]
    assert all(each.resource == sent.resource for each in read)
    assert all(each.scope_spans[0].scope == sent.scope_spans[0].scope for each in read)
    spans = [each.scope_spans[0].spans[0] for each in read]
    for span in sent.scope_spans[0].spans:
        span.flags = 0  # says in binary only whether the parent is remote
        for link in span.links:
            link.flags = 0
    assert spans == list(sent.scope_spans[0].spans)


def _read(line: str) -> ResourceSpans:
    text = json.dumps(_with_ids_in_base64(json.loads(line)))
    resource: ResourceSpans = Parse(text, TracesData()).resource_spans[0]
    return resource


def _with_ids_in_base64(value: object) -> object:
    """Write ids as protobuf does; OTLP has them in hexadecimal."""
    if isinstance(value, list):
        return [_with_ids_in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(item)).decode()
        if name in ("traceId", "spanId", "parentSpanId")
        else _with_ids_in_base64(item)
        for name, item in value.items()
    }


def test_otlp_line_escapes_control_characters() -> None:
    line = json.loads(lines()[-1])["resourceSpans"][0]["scopeSpans"][0]
    (span,) = line["spans"]
    assert line["scope"]["name"] == "kframework"
    assert (span["name"], span["kind"], len(span["traceId"]), len(span["spanId"])) == ("binding_cycle", 1, 32, 16)
    assert {"key": "kframework.attempt", "value": {"intValue": "7"}} in span["attributes"]
    assert span["status"] == {"code": 0, "message": ""}
