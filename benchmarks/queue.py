"""What events cost a scheduler with 10,000 unschedulable pods: the share of a core at 1,000 events a second.

Run with `python -m benchmarks.queue`. The pods ask for more cpu than any node has; the events come to a running engine.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import msgspec

from benchmarks.cycle import NODES, _node, make_engine
from kframework.core.pod_engine import PodEngine
from kframework.objects import Container, Node, NodeCondition, ObjectMeta, Pod, PodSpec, Resources
from kframework.state.inbox import Message, Upserted

PODS = 10_000
EVENTS = 2_000
RATE = 1_000


def _greedy_pod(index: int) -> Pod:
    requests: dict[str, str | int | float] = {"cpu": f"{200 + index % 10}"}
    return Pod(
        metadata=ObjectMeta(name=f"greedy-{index}", namespace="default", uid=f"greedy-{index}"),
        spec=PodSpec(containers=(Container(name="main", resources=Resources(requests=requests)),)),
    )


def _full_engine() -> PodEngine:
    engine, _ = make_engine()
    for index in range(PODS):
        engine.offer(Upserted(_greedy_pod(index)))
    while engine.step():
        pass
    assert engine.queue.count_by_queue()["unschedulable"] == PODS, engine.queue
    return engine


def _with_heartbeat(index: int) -> Message:
    node = _node(index % NODES)
    beat = NodeCondition(type="Ready", status="True", last_heartbeat_time=f"2026-01-01T00:00:{index % 60:02}Z")
    return Upserted(msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=(beat,))))


def _with_annotation(index: int) -> Message:
    node = _node(index % NODES)
    return Upserted(_replace_node(node, annotations={"seen": str(index)}))


def _with_label(index: int) -> Message:
    node = _node(index % NODES)
    return Upserted(_replace_node(node, labels={**node.metadata.labels, "round": str(index)}))


def _replace_node(node: Node, **metadata: dict[str, str]) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, **metadata))


def measure(title: str, event: Callable[[int], Message]) -> None:
    """Print what one event costs, and what share of a core 1,000 of them a second take."""
    engine = _full_engine()
    for index in range(NODES):
        engine.offer(_with_heartbeat(index))
    engine.step()
    messages = [event(index) for index in range(EVENTS)]
    tried = engine.attempts
    began = perf_counter()
    for message in messages:
        engine.offer(message)
        engine.step()
    seconds = (perf_counter() - began) / EVENTS
    attempts = engine.attempts - tried
    print(f"{title:<52}{seconds * 1e6:>9.1f}{seconds * RATE:>9.1%}{attempts:>10}")


def main() -> None:
    """Run every case."""
    header = f"{PODS:,} unschedulable pods, {NODES:,} nodes"
    print(f"{header:<52}{'us/event':>9}{'of a core':>9}{'attempts':>10}")
    measure("node heartbeat", _with_heartbeat)
    measure("node annotation: no plugin is interested", _with_annotation)
    measure("node label: interested plugins hold no pod", _with_label)


if __name__ == "__main__":
    main()
