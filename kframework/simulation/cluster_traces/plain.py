"""Traces in a format of our own: a CSV table of nodes and one of pods, with Kubernetes' quantities and seconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from kframework.objects.quantity import Quantity
from kframework.objects.syntax import dns_subdomain
from kframework.simulation.cluster_traces.cluster import TraceNode, TracePod
from kframework.simulation.cluster_traces.tables import Columns, check_columns, parse_count, parse_number, read_rows

_NODES = Columns(("name", "cpu", "memory"), ("gpu", "gpu_model", "pods", "labels", "arrival", "down"))
_PODS = Columns(
    ("name",),
    ("cpu", "memory", "arrival", "duration", "gpu", "gpu_model", "priority", "namespace", "labels", "node_selector"),
)
#: The highest priority that a PriorityClass of a user may have.
_HIGHEST_PRIORITY = 1_000_000_000


def read_plain(nodes: str, pods: str) -> Iterator[TraceNode | TracePod]:
    """Read a table of nodes and one of pods; InputError for an unknown column."""
    check_columns(nodes, _NODES)
    check_columns(pods, _PODS)
    yield from read_rows(nodes, _NODES, _convert_node)
    yield from read_rows(pods, _PODS, _convert_pod)


def _convert_node(
    name: str, cpu: str, memory: str, gpu: str, gpu_model: str, pods: str, labels: str, arrival: str, down: str
) -> TraceNode:
    return TraceNode(
        _parse_name(name),
        _parse_quantity("cpu", cpu),
        _parse_quantity("memory", memory),
        parse_count("gpu", gpu or "0"),
        gpu_model,
        _parse_quantity("pods", pods or "110"),
        _parse_labels("labels", labels),
        parse_number("arrival", arrival or "0"),
        [_parse_period(each) for each in down.split()],
    )


def _convert_pod(
    name: str,
    cpu: str,
    memory: str,
    arrival: str,
    duration: str,
    gpu: str,
    gpu_model: str,
    priority: str,
    namespace: str,
    labels: str,
    node_selector: str,
) -> TracePod:
    arrives = parse_number("arrival", arrival or "0")
    return TracePod(
        _parse_name(name),
        cpu and _parse_quantity("cpu", cpu),
        memory and _parse_quantity("memory", memory),
        arrives,
        arrives,
        arrives + parse_number("duration", duration) if duration else math.inf,
        round(parse_number("gpu", gpu or "0") * 1000),
        gpu_model.split("|") if gpu_model else (),
        _parse_priority(priority or "0"),
        namespace or "default",
        _parse_labels("labels", labels),
        _parse_labels("node_selector", node_selector),
    )


def _parse_period(text: str) -> tuple[float, float]:
    start, _, end = text.partition("-")
    return parse_number("down", start), parse_number("down", end) if end else math.inf


def _parse_name(text: str) -> str:
    for problem in dns_subdomain(text):
        raise ValueError(f"name is {text!r}: {problem}")
    return text


def _parse_quantity(column: str, text: str) -> str:
    try:
        amount = Quantity.parse(text)
    except ValueError:
        amount = None
    if amount is None or amount.nano < 0:
        raise ValueError(f"{column} is {text!r}, not a quantity such as 4, 500m or 16Gi")
    return text


def _parse_priority(text: str) -> int:
    try:
        priority = int(text)
    except ValueError:
        priority = _HIGHEST_PRIORITY + 1
    if abs(priority) > _HIGHEST_PRIORITY:
        raise ValueError(f"priority is {text!r}, not a whole number up to {_HIGHEST_PRIORITY}")
    return priority


def _parse_labels(column: str, text: str) -> Mapping[str, str]:
    """Read `key=value` pairs between semicolons."""
    pairs = [pair.strip().partition("=") for pair in text.split(";") if pair.strip()]
    if not all(key and equals for key, equals, _ in pairs):
        raise ValueError(f"{column} is {text!r}: write key=value;key=value")
    return {key.strip(): value.strip() for key, _, value in pairs}
