"""Preemption at 5,000 nodes with 10 possible victims on each, beside the budgets of the design (milliseconds).

Run with `python -m benchmarks.preemption`. Timed is the whole failing cycle: search, dry runs, the choice of the node;
no eviction. The first preemptor dry-runs 500 nodes (a tenth of them), the later ones of its template and priority find
the answers of the nodes that did not change.
"""

from __future__ import annotations

import statistics
from time import perf_counter_ns

import msgspec

from benchmarks.cycle import NODES, engine, pod
from kframework.core.pod_engine import PodEngine
from kframework.objects import Pod
from kframework.scheduler.garbage import spare
from kframework.state.inbox import Changed, Gone

#: How many pods of low priority are on each node; together they fill it.
VICTIMS = 10
PREEMPTORS = 30


def crowded() -> list[float]:
    """Time one preemptor after the other, in milliseconds."""
    made, _ = engine()
    for index in range(NODES * VICTIMS):
        made.offer(Changed(placed(index, f"node-{index % NODES}")))
    apply(made)
    spare()
    times = []
    for index in range(PREEMPTORS):
        preemptor = sized(pod(1_000_000 + index, 0), "12", 100)
        made.offer(Changed(preemptor))
        apply(made)
        began = perf_counter_ns()
        made.step()
        times.append((perf_counter_ns() - began) / 1e6)
        # It would land on its node next; here it just goes, or nominations would pile up that no cluster has.
        made.offer(Gone(preemptor))
        apply(made)
    return times


def apply(made: PodEngine) -> None:
    """Take in what has been offered."""
    for message in made.inbox.drain():
        made._apply(message)


def placed(index: int, node_name: str) -> Pod:
    """Make a running pod of low priority."""
    victim = sized(pod(index, 1), "6400m", 0)
    spec = msgspec.structs.replace(victim.spec, node_name=node_name)
    status = msgspec.structs.replace(victim.status, phase="Running", start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(victim, spec=spec, status=status)


def sized(made: Pod, cpu: str, priority: int) -> Pod:
    """Give a pod another request and a priority."""
    (container,) = made.spec.containers
    resources = msgspec.structs.replace(container.resources, requests={"cpu": cpu})
    containers = (msgspec.structs.replace(container, resources=resources),)
    spec = msgspec.structs.replace(made.spec, containers=containers, priority=priority)
    return msgspec.structs.replace(made, spec=spec)


def main() -> None:
    """Print the table."""
    first, *others = crowded()
    print(f"{'5,000 nodes, 10 victims each, milliseconds':<58}{'median':>9}{'worst':>9}  {'budget':>8}")
    print(f"{'first preemptor':<58}{first:>9.2f}{first:>9.2f}  {'40':>8}")
    print(f"{'repeated preemptor':<58}{statistics.median(others):>9.2f}{max(others):>9.2f}  {'1':>8}")


if __name__ == "__main__":
    main()
