"""Calls of Python and C functions for each pod, for the rows of the table of targets: a guard that no clock disturbs.

`python -m benchmarks.counts` counts again, shows each row beside its figure in `counts.json`, and writes the file. A
test allows each row 8 percent more than its figure. In every row the interpreter executes 12 to 13 instructions per
call, and calls are counted in a third of the time or less. Counts repeat to a thousandth within a minor version of
Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from cProfile import Profile
from functools import partial
from pathlib import Path
from random import Random

import anyio
from msgspec.structs import replace

from benchmarks import batch, cycle, fake_api, whole_commands
from benchmarks.cases import find_definitions
from benchmarks.shadow import measure_shadow
from benchmarks.timing import show
from kframework.cli import main as kframework
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.scheduler.scheduler import Scheduler
from kframework.simulation.running import VIRTUAL
from kframework.testing import make_node, make_pod
from kframework.testing.scheduler_perf.benchmark import configuration_of
from kframework.testing.scheduler_perf.definitions import (
    AnyOperation,
    CreatePods,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
)
from kframework.testing.scheduler_perf.workload_run import WorkloadRun

FILE = Path(__file__).with_name("counts.json")

#: Other minor versions of Python compile and call a little differently, so each has figures of its own.
VERSION = ".".join(platform.python_version_tuple()[:2])

#: How many times its figure a row may have, and how many times as many calls a pod may make on ten times the nodes.
HEADROOM, GROWTH = 1.08, 1.05

#: Pods that are placed before any are counted, and those that are: whole runs, and few enough for 200 nodes.
WARM, PODS = 72, 96


def count_calls(profile: Profile) -> int:
    """Return the number of calls in a profile."""
    return sum(entry.callcount for entry in profile.getstats())


# -- workloads ---------------------------------------------------------------------------------------------------------


class CountedRun(WorkloadRun):
    """Counts the calls between the operations that start to collect and those that stop it."""

    profile: Profile

    async def _collect(self, name: str, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
        self.profile.enable()

    def _finish_measurement(self) -> None:
        self.profile.disable()


def count_workload(case: str, *, warm: int = WARM, pods: int = PODS, turns: int = 1, **params: int) -> float:
    """Count the calls for a pod of a case, on a cluster of this size.

    The pods come in `turns` groups. After each group a second of virtual time passes, so that other work can happen.
    """
    (definition,) = find_definitions(case, "performance")[:1]
    template = definition.case.workload_template
    defaults = {name: value for name, value in definition.workload.params.items() if name != "measurePods"}
    case_of_size = replace(definition.case, workload_template=tuple(_with_turns(template, warm, pods // turns, turns)))
    size = replace(definition.workload, params={**defaults, **params})
    definition = replace(definition, case=case_of_size, workload=size)
    stage = CountedRun(definition, configuration_of(definition), lambda done, total: None, time=VIRTUAL)
    stage.profile = Profile()
    stage.run()
    return count_calls(stage.profile) / pods


def count_groups(case: str, groups: int, size: int, **params: int) -> float:
    """Count the calls for a pod of this number of groups of a size."""
    return count_workload(case, warm=0, pods=groups, groups=groups, podsPerGroup=size, **params) / size


def count_churn() -> float:
    """Count the calls for a pod while objects come and go."""
    count_workload("MixedChurn", pods=4, nodes=20)  # the first run compiles the expressions that read YAML
    return count_workload("MixedChurn", turns=4, nodes=200)


def _with_turns(template: Iterable[AnyOperation], warm: int, pods: int, turns: int) -> Iterator[AnyOperation]:
    """Create the measured pods after others of their kind, with collecting on."""
    for operation in template:
        if not isinstance(operation, CreatePods) or not operation.collect_metrics:
            yield operation
            continue
        namespace = operation.namespace or "measured"
        first = replace(
            operation, collect_metrics=False, skip_wait_to_completion=True, namespace=namespace, count_param=""
        )
        yield replace(first, count=warm)
        yield Sleep(duration="1s")
        for _ in range(turns):
            yield replace(first, count=pods)
            yield StartCollectingMetrics(namespaces=(namespace,))
            yield Sleep(duration="1s")
            yield StopCollectingMetrics()


# -- whole commands ----------------------------------------------------------------------------------------------------


def count_simulate(nodes: int = 50, pods: int = 100) -> float:
    """Count the calls that `kframework simulate` makes for a pod, from its line in the file to its exit."""
    _count_simulation(nodes, 1)  # the first one imports modules
    few, many = (_count_simulation(nodes, count) for count in (pods, 2 * pods))
    return (many - few) / pods


def _count_simulation(nodes: int, pods: int) -> int:
    profile = Profile()
    with whole_commands.cluster_file(nodes, pods) as file, Path(os.devnull).open("w") as nowhere:
        with redirect_stdout(nowhere), redirect_stderr(nowhere), suppress(SystemExit), profile:
            kframework(["simulate", "-f", str(file)])
    return count_calls(profile)


def count_run(nodes: int = 50, pods: int = PODS) -> float:
    """Count the calls of a scheduler and of the API server that it talks to for a pod, without sockets."""
    profile = Profile()
    run_virtual(partial(_run, nodes, pods, profile))
    return count_calls(profile) / pods


async def _run(nodes: int, pods: int, profile: Profile) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    store = MemoryCluster(clock, [make_node(f"node-{number}", cpu=32) for number in range(nodes)])
    client = KubeCluster(InProcessTransport(ApiServer(store, clock)), clock, random=Random(0))
    scheduler = Scheduler(default_configuration(), client, clock, slice=VIRTUAL.slice)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await _bind_pods(store, "warm", WARM)
        with profile:
            await _bind_pods(store, "pod", pods)
        tasks.cancel_scope.cancel()
    assert all(pod.spec.node_name for pod in store.objects(Pod))


async def _bind_pods(store: MemoryCluster, prefix: str, pods: int) -> None:
    """Create pods, and wait until they are bound."""
    for number in range(pods):
        store.add(make_pod(f"{prefix}-{number}", cpu="100m"))
    await asyncio.sleep(60)


def count_created_and_bound() -> float:
    """Count the calls of the fake API for a pod that is created and bound, without the network."""
    profile = Profile()
    asyncio.run(_create_and_bind(profile))
    return count_calls(profile) / PODS


async def _create_and_bind(profile: Profile) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    server = ApiServer(MemoryCluster(clock), clock)
    await fake_api.create_and_bind(server, 0, WARM)
    with profile:
        await fake_api.create_and_bind(server, WARM, WARM + PODS)


# -- engines without a cluster -----------------------------------------------------------------------------------------


def count_decisions(nodes: int = 200) -> float:
    """Count the calls that an engine of pods makes for a decision."""
    profile = Profile()
    cycle.schedule_in_runs(nodes, PODS, WARM, profile)
    return count_calls(profile) / PODS


def count_session(gangs: int = 4, size: int = 100, nodes: int = 100) -> float:
    """Count the calls that a session of kframework-batch makes for a pod of a gang."""
    stage, profile = batch.make_waiting_stage(gangs, size, nodes), Profile()
    with profile:
        while stage.engine.step():
            pass
    return count_calls(profile) / (gangs * size)


# -- shadows -----------------------------------------------------------------------------------------------------------


def count_shadow() -> tuple[float, float]:
    """Count the calls of a shadow of the default profile for a pod, and those of the cycles that it shadows."""
    shadow, cycles = measure_shadow(Profile, nodes=200, warm=WARM, pods=PODS)
    return count_calls(shadow) / PODS, count_calls(cycles) / PODS


# -- the table ---------------------------------------------------------------------------------------------------------

ROWS: Mapping[str, Callable[[], float]] = {
    "basic": partial(count_workload, "Basic", nodes=200, initPods=20),
    "all-nodes": partial(count_workload, "AllNodes", nodes=200, initPods=20),
    "templates": partial(count_workload, "Templates", warm=200, nodes=200, initPods=20),
    "many-templates": partial(count_workload, "ManyTemplates", warm=1, nodes=200),
    "affinity": partial(count_workload, "RequiredAffinity", nodes=200, initPods=20),
    "affinity-preferred": partial(count_workload, "PreferredAffinity", nodes=200, initPods=20),
    "anti-affinity": partial(count_workload, "RequiredAntiAffinity", nodes=200, initPods=20),
    "anti-affinity-preferred": partial(count_workload, "PreferredAntiAffinity", nodes=200, initPods=20),
    "spread": partial(count_workload, "Spread", nodes=200, initPods=20),
    "spread-preferred": partial(count_workload, "PreferredSpread", nodes=200, initPods=20),
    "unschedulable": partial(count_workload, "Unschedulable", turns=4, nodes=200, initPods=20),
    "churn": count_churn,
    "daemonset": partial(count_workload, "DaemonSet", nodes=200),
    "preemption": partial(count_workload, "Preemption", warm=5, pods=20, nodes=50, initPods=200),
    "devices-half-full": partial(count_workload, "DevicesHalfFull", nodes=50, initClaims=200),
    "gangs": partial(count_groups, "GangScheduling", 40, 3, nodes=200),
    "gangs-large": partial(count_groups, "LargeGangScheduling", 1, 400, nodes=200),
    "racks": partial(count_groups, "TopologyAwareScheduling", 40, 4, nodes=200, nodesPerRack=10),
    "racks-large": partial(count_groups, "LargeTopologyAwareScheduling", 2, 300, nodes=200, nodesPerRack=10),
    "engine": count_decisions,
    "shadow": lambda: count_shadow()[0],
    "batch": count_session,
    "simulate": count_simulate,
    "run": count_run,
    "fake-api-pod": count_created_and_bound,
}


def compare_growth() -> float:
    """Compare the calls for a pod on 2,000 nodes with those on 200."""
    few, many = (count_workload("Large", nodes=nodes) for nodes in (200, 2_000))
    return many / few


def read_figures() -> dict[str, dict[str, float]]:
    """Read the calls for a pod in each row, by version of Python."""
    return json.loads(FILE.read_text())  # type: ignore[no-any-return]  # it is what `main` writes


def main() -> None:
    """Count all rows, show them beside their figures, and write these."""
    figures, now = read_figures(), {name: round(count(), 1) for name, count in ROWS.items()}
    before = figures.get(VERSION, {})
    show(("calls for a pod", "before", "now"), [(name, before.get(name), figure) for name, figure in now.items()])
    FILE.write_text(json.dumps({**figures, VERSION: now}, indent=2) + "\n")
    print(f"\non 2,000 nodes over 200: {compare_growth():.3f}")


if __name__ == "__main__":
    main()
