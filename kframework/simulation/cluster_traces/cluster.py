"""Nodes and pods of cluster traces, and the objects that they become in a period of the trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.simulation.timetable import ARRIVES_SECONDS, DOWN_SECONDS

#: The resource of whole GPUs, and that of all GPUs in thousandths, from which whole ones and shares are taken.
GPU, GPU_MILLI = "nvidia.com/gpu", "kframework.dev/gpu-milli"
#: The label with the model of a node's GPUs, as NVIDIA's GPU feature discovery names it.
GPU_MODEL = "nvidia.com/gpu.product"

#: An object as in a cluster file.
Document = dict[str, object]


class Period(NamedTuple):
    """The part of a trace to simulate, in seconds of the trace."""

    start: float = 0.0
    end: float = math.inf

    def overlaps(self, start: float, end: float) -> bool:
        """Return whether something is there in the period that arrives at `start` and is over at `end`."""
        return start < self.end and (start >= self.start or end > self.start)

    def since_start(self, seconds: float) -> float:
        """Return the seconds between the start of the period and a time of the trace, 0 for one before it."""
        return max(0.0, seconds - self.start)


class TraceNode(NamedTuple):
    """A node of a trace; `cpu`, `memory` and `pods` are quantities, `down` the times at which it fails and is back."""

    name: str
    cpu: str
    memory: str
    gpus: int = 0
    gpu_model: str = ""
    pods: str = "1000"
    labels: Mapping[str, str] = {}
    arrival: float = 0.0
    down: Sequence[tuple[float, float]] = ()


class TracePod(NamedTuple):
    """A pod of a trace, which arrived, began to run and ended at these seconds; `gpu_milli` is thousandths of GPUs."""

    name: str
    cpu: str
    memory: str
    arrival: float = 0.0
    start: float = 0.0
    end: float = math.inf
    gpu_milli: int = 0
    gpu_models: Sequence[str] = ()
    priority: int = 0
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}


def create_objects(records: Iterable[TraceNode | TracePod], period: Period) -> Iterator[Document]:
    """Yield the objects of the records that are there in the period; their times count from its start.

    Pods that arrived before it are there at second 0 with the rest of their run time.
    """
    priorities = set[int]()
    for record in records:
        if isinstance(record, TraceNode):
            if record.arrival < period.end:
                yield _create_node(record, period)
        elif period.overlaps(record.arrival, record.end):
            if record.priority and record.priority not in priorities:
                priorities.add(record.priority)
                yield _create_priority_class(record.priority)
            yield _create_pod(record, period)


def _create_node(node: TraceNode, period: Period) -> Document:
    room = {"cpu": node.cpu, "memory": node.memory, "pods": node.pods}
    labels = {"kubernetes.io/hostname": node.name, **node.labels}
    if node.gpus:
        room |= {GPU: str(node.gpus), GPU_MILLI: str(node.gpus * 1000)}
    if node.gpu_model:
        labels[GPU_MODEL] = node.gpu_model
    annotations = {}
    if node.arrival > period.start:
        annotations[ARRIVES_SECONDS] = _format_number(period.since_start(node.arrival))
    if down := [_format_period(*each, period) for each in node.down if period.overlaps(*each)]:
        annotations[DOWN_SECONDS] = ",".join(down)
    metadata = {"name": node.name, "labels": labels} | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def _create_pod(pod: TracePod, period: Period) -> Document:
    annotations = {ARRIVES_SECONDS: _format_number(period.since_start(pod.arrival))}
    if pod.end < math.inf:
        # A negative time would be ignored, and a pod that ends before it begins would never end.
        annotations[RUN_SECONDS] = _format_number(max(0.0, pod.end - max(pod.start, period.start)))
    requests = {name: amount for name, amount in (("cpu", pod.cpu), ("memory", pod.memory)) if amount}
    resources: Document = {"requests": requests}
    if pod.gpu_milli:
        gpus, share = divmod(pod.gpu_milli, 1000)
        limits = {GPU_MILLI: str(pod.gpu_milli)} | ({} if share else {GPU: str(gpus)})
        resources["limits"] = limits
        requests |= limits
    spec: Document = {"containers": [{"name": "main", "image": "pause", "resources": resources}]}
    if pod.priority:
        spec["priorityClassName"] = _priority_name(pod.priority)
    if pod.node_selector:
        spec["nodeSelector"] = pod.node_selector
    if pod.gpu_models:
        term = {"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": list(pod.gpu_models)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    metadata: Document = {"name": pod.name, "namespace": pod.namespace, "annotations": annotations}
    if pod.labels:
        metadata["labels"] = pod.labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _create_priority_class(priority: int) -> Document:
    metadata = {"name": _priority_name(priority)}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": priority}


def _priority_name(priority: int) -> str:
    return f"priority-{priority}"


def _format_period(start: float, end: float, period: Period) -> str:
    until = _format_number(period.since_start(end)) if end < math.inf else ""
    return f"{_format_number(period.since_start(start))}-{until}"


def _format_number(number: float) -> str:
    """Format seconds without an exponent, to the microsecond."""
    return f"{number:.6f}".rstrip("0").rstrip(".")
