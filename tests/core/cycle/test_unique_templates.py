"""Pods of templates that never come again: answers about them take and cost no more than they may."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from kframework import CycleState, NodeInfo, PendingPod, Plugin, hookimpl, unschedulable
from kframework.core.cycle.results import Reservation
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import configuration_with_plugins
from kframework.core.runtime.registry import Registry
from kframework.objects import Container, Pod, Resources
from kframework.state.cluster import ClusterState
from kframework.state.inbox import BindingEnded, Deleted, Synced, Upserted
from kframework.testing import make_node, make_pod
from kframework.testing.single_plugin import StoppedClock
from kframework.values.status import Status

#: The bound, and how many templates there are: twice what fits into it at least.
BOUND = 1 << 20
TEMPLATES = 125


class Scattered(Plugin):
    """Rejects most nodes, each in words of its own, and says what it reads but not what of the pod."""

    name = "Scattered"
    reads = "node"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None if node.name.endswith("0") else unschedulable(f"node {node.name} is not for pods like these")


def many_containers(number: int) -> Pod:
    requests = Resources(requests={"cpu": "1m"})
    return make_pod(
        containers=[Container(name=f"c{each}", image=f"i{each}:{number}", resources=requests) for each in range(10)]
    )


class Churn(Host):
    """An engine whose pods are bound and deleted as soon as they have a node, and deleted if they have none."""

    def __init__(self, *plugins: type[Plugin], bound: int = BOUND) -> None:
        self._bound: list[Reservation] = []
        configuration = configuration_with_plugins(None, plugins)
        factory = profiles_factory(configuration, Registry.with_plugins(*plugins), self)
        self.engine = PodEngine(ClusterState(), StoppedClock(), self, factory, layer_memory=bound, verifying=False)
        for number in range(100):
            self.engine.offer(Upserted(make_node(f"n{number}", cpu=64)))
        self.engine.offer(Synced())

    def bind(self, reservation: Reservation) -> None:
        self._bound.append(reservation)

    def schedule(self, pod: Pod, *names: str) -> None:
        """Attempt to schedule the pod under each of these names."""
        for name in names:
            pod = replace(pod, metadata=replace(pod.metadata, name=name, uid=name))
            self.engine.offer(Upserted(pod))
            self.engine.step()
            for reservation in self._bound:
                self.engine.offer(BindingEnded(reservation.pod.uid, reservation.attempt, None))
            self._bound.clear()
            self.engine.offer(Deleted(pod))
            self.engine.apply_messages()


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.parametrize(
    ("template", "plugins"),
    [
        pytest.param(lambda number: make_pod(cpu=f"{number + 1}m"), (), id="requests"),
        pytest.param(lambda number: make_pod(image=f"i:{number}"), (), id="images"),
        pytest.param(lambda number: make_pod(tolerations=[f"k{number}"]), (), id="tolerations"),
        pytest.param(lambda number: make_pod(node_selector={"no": f"node-{number}"}), (), id="unschedulable pods"),
        pytest.param(lambda number: make_pod(cpu=f"{number + 65}", priority=number), (), id="preemptors"),
        pytest.param(many_containers, (Scattered,), id="a plugin without sign, long specs"),
    ],
)
def test_cached_answers_stay_within_the_bound(
    template: Callable[[int], Pod], plugins: tuple[type[Plugin], ...]
) -> None:
    churn = Churn(*plugins)
    for number in range(10):
        churn.schedule(template(10_000 + number), "one", "other")
    churn.engine._plan_caches["default-scheduler"].clear()
    gc.collect()
    tracemalloc.start()
    try:
        before, most = tracemalloc.get_traced_memory()[0], 0
        for number in range(TEMPLATES):
            churn.schedule(template(number), "one", "other")
            if number % 25 == 24:
                gc.collect()
                most = max(most, tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert BOUND / 2 < most < 1.3 * BOUND


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resident_growth(bound: int) -> int:
    """Return by how many bytes this process grows while more templates come than fit into the bound."""
    churn = Churn(bound=bound)
    for number in range(50):
        churn.schedule(make_pod(cpu=f"{10_000 + number}m"), "one", "other")
    churn.engine._plan_caches["default-scheduler"].clear()
    gc.collect()
    before = resident_bytes()
    for number in range(1_500):
        churn.schedule(make_pod(cpu=f"{number + 1}m"), "one", "other")
    return resident_bytes() - before


@pytest.mark.slow
def test_cached_answers_stay_within_the_bound_in_resident_memory() -> None:
    bound = 8 * BOUND
    code = f"from tests.core.cycle.test_unique_templates import resident_growth; print(resident_growth({bound}))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert bound / 2 < int(done.stdout) < 1.3 * bound


class Thrifty(Plugin):
    """Accepts all nodes, scores them, and has no `sign`."""

    name = "Thrifty"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return len(pod.annotations)


def count_calls(reads: Literal["node", "pods"] | None, pods: int, shared: int) -> float:
    """Return the calls per attempt if this many pods at a time have the same annotations."""
    plugin = type("Thrifty", (Thrifty,), {"reads": reads})
    churn, profiler = Churn(plugin), Profile()
    for number in range(10 + pods):
        if number == 10:
            profiler.enable()
        churn.schedule(make_pod(annotations={"revision": f"{number // shared}"}), "one")
    profiler.disable()
    return sum(entry.callcount for entry in profiler.getstats()) / pods


@pytest.mark.parametrize("reads", ["node", "pods"])
def test_saying_what_is_read_costs_no_more_than_saying_nothing(reads: Literal["node", "pods"]) -> None:
    assert count_calls(reads, 40, shared=1) < 1.1 * count_calls(None, 40, shared=1)
    assert count_calls(reads, 40, shared=40) < 0.7 * count_calls(None, 40, shared=40), "what comes again is cached"
