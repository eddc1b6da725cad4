"""Where the load of nodes is measured: the metrics server, Prometheus, a load-watcher service, or a file of its form.

What a provider fetches becomes a source: the scheduler polls it, records it, and plays it in a replay.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import httpx
import msgspec

from kframework import ApiObject, ApiStruct, Handle, kind
from kframework.clock import seconds_of
from kframework.objects import RawQuantity, milli, value
from kframework_load_aware.args import MetricProvider, TrimaranArgs

#: The address of Prometheus if none is configured, as in load-watcher.
_PROMETHEUS = "http://prometheus-k8s:9090"

#: The length of the time that Prometheus is asked about, in seconds, as by load-watcher.
_WINDOW = 900.0

#: What is asked of Prometheus: recording rules of node_exporter's mixin.
_QUERIES = {
    "cpu": "avg_over_time(instance:node_cpu:ratio[15m])",
    "cpu_deviation": "stddev_over_time(instance:node_cpu:ratio[15m])",
    "memory": "avg_over_time(instance:node_memory_utilisation:ratio[15m])",
    "memory_deviation": "stddev_over_time(instance:node_memory_utilisation:ratio[15m])",
}


class NodeLoad(msgspec.Struct, frozen=True):
    """The measured load of a node: mean and standard deviation of its cpu and memory; None is not measured.

    `at` is the end of the time that was measured, in seconds since 1970, and `window` its length in seconds. The values
    are percent of the node, or amounts: milli-CPU and bytes.
    """

    at: float
    cpu: float | None = None
    cpu_deviation: float = 0.0
    memory: float | None = None
    memory_deviation: float = 0.0
    unit: Literal["percent", "amount"] = "percent"
    window: float = 60.0


class MeasuredUsage(ApiStruct, frozen=True):
    """The cpu and memory in use."""

    cpu: RawQuantity = 0
    memory: RawQuantity = 0


@kind("metrics.k8s.io/v1beta1", "nodes", namespaced=False)
class NodeMetrics(ApiObject, frozen=True):
    """A node's usage as the metrics server reports it."""

    timestamp: str = ""
    window: str = ""
    usage: MeasuredUsage = MeasuredUsage()


class MetricsServer:
    """The metrics server behind the API server: the mean of about the last minute, and no deviation."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def fetch(self) -> dict[str, NodeLoad]:
        """List the usage of all nodes."""
        listed = await self._handle.api.list(NodeMetrics, labels={})
        return {each.metadata.name: _load_of(each) for each in listed}

    async def close(self) -> None:
        """Do nothing: the connection is the scheduler's."""


def _load_of(metrics: NodeMetrics) -> NodeLoad:
    usage = metrics.usage
    return NodeLoad(seconds_of(metrics.timestamp), milli(usage.cpu), 0.0, value(usage.memory), 0.0, "amount")


class Prometheus:
    """A server with Prometheus's HTTP API and the recording rules of node_exporter."""

    def __init__(self, settings: MetricProvider, handle: Handle) -> None:
        self._clock = handle.clock
        token = settings.token.get_secret_value()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address = settings.address or _PROMETHEUS
        self._client = httpx.AsyncClient(base_url=address, headers=headers, verify=not settings.insecure_skip_verify)

    async def fetch(self) -> dict[str, NodeLoad]:
        """Ask for all quantities at once; nodes are known by the label `instance`, whose port is cut off."""
        now = self._clock.now()
        answers = await asyncio.gather(*map(self._ask, _QUERIES.values()))
        measured: dict[str, dict[str, float]] = {}
        for quantity, samples in zip(_QUERIES, answers, strict=True):
            for name, ratio in samples.items():
                measured.setdefault(name, {"at": now, "window": _WINDOW})[quantity] = 100 * ratio
        return msgspec.convert(measured, dict[str, NodeLoad])

    async def _ask(self, query: str) -> dict[str, float]:
        answer = await self._client.get("/api/v1/query", params={"query": query})
        found = msgspec.json.decode(answer.raise_for_status().content, type=_PrometheusAnswer).data.result
        samples = {re.sub(r":\d+$", "", each.metric.get("instance", "")): float(each.value[1]) for each in found}
        # Prometheus says NaN where it divided by nothing: that is not measured.
        return {name: ratio for name, ratio in samples.items() if not math.isnan(ratio)}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class _PrometheusSample(msgspec.Struct):
    metric: Mapping[str, str]
    value: tuple[float, str]


class _PrometheusVector(msgspec.Struct):
    result: list[_PrometheusSample]


class _PrometheusAnswer(msgspec.Struct):
    data: _PrometheusVector


class LoadWatcher:
    """A load-watcher service."""

    def __init__(self, address: str) -> None:
        self._client = httpx.AsyncClient(base_url=address)

    async def fetch(self) -> dict[str, NodeLoad]:
        """Ask for the latest window of all nodes."""
        answer = await self._client.get("/watcher")
        return read_report(answer.raise_for_status().content)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class ReportFile:
    """A file with a report in the form of load-watcher, which is read at each fetch."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def fetch(self) -> dict[str, NodeLoad]:
        """Read the file."""
        content = await asyncio.to_thread(self._path.read_bytes)
        try:
            return read_report(content)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{self._path}: {error}; write it in the form of load-watcher") from error

    async def close(self) -> None:
        """Do nothing: the file is closed."""


class _Metric(msgspec.Struct):
    type: str
    value: float
    operator: str = ""


class _NodeReport(msgspec.Struct):
    metrics: list[_Metric] = []


class _Nodes(msgspec.Struct, rename={"by_name": "NodeMetricsMap"}):
    by_name: dict[str, _NodeReport]


class _Window(msgspec.Struct):
    start: float
    end: float


class _Report(msgspec.Struct):
    window: _Window
    data: _Nodes


def read_report(content: bytes) -> dict[str, NodeLoad]:
    """Read a report of load-watcher, in percent; an average goes before a latest value, or one without an operator."""
    report = msgspec.json.decode(content, type=_Report)
    return {name: _read_node(node, report.window) for name, node in report.data.by_name.items()}


def _read_node(node: _NodeReport, window: _Window) -> NodeLoad:
    values = {(metric.type.lower(), metric.operator.lower()): metric.value for metric in node.metrics}

    def first(type: str, *operators: str) -> float | None:
        return next((values[type, operator] for operator in operators if (type, operator) in values), None)

    return NodeLoad(
        window.end,
        first("cpu", "avg", "latest", ""),
        first("cpu", "std") or 0.0,
        first("memory", "avg", "latest", ""),
        first("memory", "std") or 0.0,
        window=max(window.end - window.start, 1.0),
    )


Provider = MetricsServer | Prometheus | LoadWatcher | ReportFile


def open_provider(args: TrimaranArgs, handle: Handle) -> Provider:
    """Return what the Args name."""
    settings = args.metric_provider
    if args.watcher_address:
        return LoadWatcher(args.watcher_address)
    if settings.type == "Prometheus":
        return Prometheus(settings, handle)
    if settings.type == "File":
        return ReportFile(settings.address)
    return MetricsServer(handle)
