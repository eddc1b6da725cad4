"""Where the load comes from: what each provider answers, and the configurations that scheduler-plugins publishes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kframework_load_aware import LoadVariationRiskBalancing, LowRiskOverCommitment, TargetLoadPacking
from kframework_load_aware.providers import MeasuredUsage, NodeLoad, NodeMetrics, read_report

from kframework import ConfigError
from kframework.clock import rfc3339
from kframework.objects import ApiObject, ObjectMeta
from kframework.testing import Scenario, make_node, make_pod

REPORT: Mapping[str, Any] = {
    "timestamp": 1556987522,
    "window": {"duration": "15m", "start": 4e9 - 900, "end": 4e9},
    "source": "InfluxDB",
    "data": {
        "NodeMetricsMap": {
            "idle": {
                "metrics": [
                    {"name": "host.cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 10},
                    {"name": "host.cpu", "type": "CPU", "operator": "Latest", "value": 99},
                    {"name": "host.cpu", "type": "CPU", "operator": "STD", "value": 5},
                    {"name": "host.memory", "type": "Memory", "operator": "AVG", "value": 20},
                    {"name": "host.disk", "type": "Storage", "operator": "AVG", "value": 77},
                ],
                "tags": {},
            },
            "busy": {"metrics": [{"name": "host.cpu", "type": "CPU", "value": 90}]},
        }
    },
}
NODES = [make_node("busy", cpu=16), make_node("idle", cpu=16)]

#: The Args in scheduler-plugins' documents.
PUBLISHED = {
    "TargetLoadPacking": """
      defaultRequests:
        cpu: "2000m"
      defaultRequestsMultiplier: "2"
      targetUtilization: 70
      watcherAddress: http://127.0.0.1:2020
""",
    "LoadVariationRiskBalancing": """
      metricProvider:
        type: Prometheus
        address: http://prometheus-k8s.monitoring.svc.cluster.local:9090
      safeVarianceMargin: 1
      safeVarianceSensitivity: 2
""",
    "LowRiskOverCommitment": """
      smoothingWindowSize: 5
      riskLimitWeights:
        cpu: 0.5
        memory: 0.5
      metricProvider:
        type: Prometheus
        address: http://prometheus-k8s.monitoring.svc.cluster.local:9090
""",
}
FAMILY = {plugin.name: plugin for plugin in (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)}


def scenario(args: str, plugin: str, objects: Sequence[ApiObject] = ()) -> Scenario:
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
  plugins:
    score:
      disabled:
      - name: "*"
      enabled:
      - name: {plugin}
  pluginConfig:
  - name: {plugin}
    args: {args}
"""
    return Scenario(nodes=NODES, pods=[make_pod("web")], objects=objects, plugins=[FAMILY[plugin]], config=config)


def node_for(args: str, plugin: str = "LoadVariationRiskBalancing", objects: Sequence[ApiObject] = ()) -> str | None:
    return scenario(args, plugin, objects).run(until=1).node_of("web")


class MetricsEndpoint(ThreadingHTTPServer):
    """As much of load-watcher and Prometheus as the plugins ask."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MetricsEndpoint

    def do_GET(self) -> None:
        self.server.tokens.add(self.headers.get("Authorization", ""))
        url = urlsplit(self.path)
        answer = REPORT if url.path == "/watcher" else self._vector(parse_qs(url.query)["query"][0])
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _vector(self, query: str) -> Mapping[str, Any]:
        ratio = 0.1 if query.startswith("stddev") else 0.3
        samples = {"idle:9100": ratio / 2, "busy": ratio * 2, "other": "NaN"}
        result = [{"metric": {"instance": name}, "value": [0, str(value)]} for name, value in samples.items()]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("plugin", PUBLISHED)
def test_published_configuration_loads_unchanged(plugin: str) -> None:
    prepared = scenario(PUBLISHED[plugin], plugin)
    prepared.source(plugin, "load", {"busy": NodeLoad(4e9, 95, 20), "idle": NodeLoad(4e9, 5, 1)})
    result = prepared.run()
    # By LowRiskOverCommitment a node without pods is no risk, whatever its load.
    assert result.node_of("web") == "idle" or plugin == "LowRiskOverCommitment"


def test_report_of_load_watcher_is_read() -> None:
    assert read_report(json.dumps(REPORT).encode()) == {
        "idle": NodeLoad(4e9, 10, 5, 20, window=900),
        "busy": NodeLoad(4e9, 90, window=900),
    }


def test_load_watcher_is_asked_before_the_metric_provider(endpoint: MetricsEndpoint) -> None:
    provider = "{type: Prometheus, address: 'http://127.0.0.1:1'}"
    assert node_for(f"{{watcherAddress: '{endpoint.url}', metricProvider: {provider}}}") == "idle"


def test_prometheus_is_asked_with_the_token(endpoint: MetricsEndpoint) -> None:
    args = f"{{metricProvider: {{type: Prometheus, address: '{endpoint.url}', token: secret}}}}"
    assert node_for(args) == "idle"
    assert endpoint.tokens == {"Bearer secret"}


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    path.write_text(json.dumps(REPORT))
    assert node_for(f"{{metricProvider: {{type: File, address: '{path}'}}}}") == "idle"


def test_metrics_server_is_asked_by_default() -> None:
    usages = {"busy": MeasuredUsage("12", "1Gi"), "idle": MeasuredUsage("900m", "1Gi")}
    metrics = [
        NodeMetrics(metadata=ObjectMeta(name=name), timestamp=rfc3339(4e9), usage=usages[name]) for name in usages
    ]
    assert node_for("{}", objects=metrics) == "idle"


@pytest.mark.parametrize("plugin", FAMILY)
def test_unreachable_server_blocks_no_pods(plugin: str) -> None:
    assert node_for("{watcherAddress: 'http://127.0.0.1:1'}", plugin)


@pytest.mark.parametrize(
    ("plugin", "args", "problem"),
    [
        ("TargetLoadPacking", "{targetUtilization: 101}", "targetUtilization"),
        ("TargetLoadPacking", "{defaultRequestsMultiplier: many}", "defaultRequestsMultiplier"),
        ("LoadVariationRiskBalancing", "{metricProvider: {type: SignalFx}}", "set watcherAddress"),
        ("LoadVariationRiskBalancing", "{metricProvider: {type: File}}", "needs the path of the file"),
        ("LoadVariationRiskBalancing", "{safeVarianceMargin: -1}", "safeVarianceMargin"),
        ("LowRiskOverCommitment", "{riskLimitWeights: {cpu: 2}}", "riskLimitWeights"),
    ],
)
def test_args_that_mean_nothing_are_refused(plugin: str, args: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        node_for(args, plugin)
